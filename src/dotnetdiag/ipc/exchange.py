"""One command on one connection, as a generator that does no I/O; operations are made of these.

A generator yields a :class:`Step` and is sent what the step gave; an error of the I/O is thrown into it. :class:`Run` holds what the
shells must not decide: what is open, what comes next, what is closed when. So a shell is a loop that performs steps, and no more.

Rule 1: the request is packed, and so checked, before anything is dialled.
Rule 2: after an error nothing stays open; after success what is still open belongs to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, ClassVar, Generic, TypeVar

from dotnetdiag.errors import ConnectionEnded, DiagnosticsError, TimedOut
from dotnetdiag.ipc.frames import Frame, FrameReader
from dotnetdiag.ipc.messages import ReplyT, Request

T = TypeVar("T")
LARGEST_PIECE = 1 << 20
NO_ANSWER = "the runtime has the request, and did not answer"


class Step:
    """A call to make: ``METHOD`` of a connection, or of the shell's route to the runtime, with the arguments and a deadline.

    ``slow``: the answer may take minutes, which is a limit of its own (dumps, profilers, the end of a session).
    """

    METHOD: ClassVar[str]

    def __init__(self, connection: Any = None, *arguments: Any, slow: bool = False) -> None:
        self.connection, self.arguments, self.slow = connection, arguments, slow

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment] # nothing keeps steps

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, (self.connection, *self.arguments)))}, slow={self.slow})"

    def perform(self, route: Any, deadline: Any) -> Any:
        """Make the call. An asyncio shell awaits what this returns."""
        return getattr(route if self.connection is None else self.connection, self.METHOD)(*self.arguments, deadline)


class Dial(Step):
    """Make a connection; it is the outcome."""

    METHOD = "dial"


class Send(Step):
    """Send all of some bytes in one piece: .NET Core 3.1 makes one read for the header and one for the payload (§21.3)."""

    METHOD = "send"


class SendDescriptor(Step):
    """Pass a file descriptor, with one byte of its own (§15)."""

    METHOD = "send_descriptor"


class Receive(Step):
    """Wait for 1 to so many bytes; the outcome is ``b""`` at the end of the connection."""

    METHOD = "receive"


class Close(Step):
    """Close a connection."""

    def perform(self, route: Any, deadline: Any) -> Any:  # noqa: ARG002 - closing waits for nobody
        return self.connection.close()


Operation = Generator[Step, Any, T]


def exchange(
    request: Request[ReplyT], *, slow: bool = False, descriptor: int | None = None
) -> Operation[tuple[Any, ReplyT]]:
    """Send a request on a new connection, receive its answer: (the connection, still open, and the OK reply).

    Raises ServerError for a refusal, ConnectionEnded, ProtocolError; then the connection is closed.
    """
    data = request.pack()
    connection = yield Dial()
    try:
        yield Send(connection, data)
        if descriptor is not None:
            try:
                yield SendDescriptor(connection, descriptor)
            except ConnectionEnded:  # it has refused and closed already; its answer says why
                request.read_reply((yield from receive_frame(connection)))
                raise
        try:
            frame = yield from receive_frame(connection, slow=slow)
        except TimedOut as error:
            raise TimedOut(NO_ANSWER, address=error.address, timeout_s=error.timeout_s) from error
        reply = request.read_reply(frame)
    except DiagnosticsError:
        yield Close(connection)
        raise
    return connection, reply


def ask(request: Request[ReplyT], *, slow: bool = False) -> Operation[ReplyT]:
    """As :func:`exchange`, for a command whose answer is all that comes: the connection is closed."""
    connection, reply = yield from exchange(request, slow=slow)
    yield Close(connection)
    return reply


def receive_frame(connection: Any, *, slow: bool = False) -> Operation[Frame]:
    """One message, and not a byte more: what follows it is somebody else's."""
    reader = FrameReader()
    while wanted := reader.wanted:
        data = yield Receive(connection, wanted, slow=slow)
        if not data:
            raise ConnectionEnded("the runtime closed the connection before its answer was complete")
        frame = reader.feed(data)
        if frame is not None:
            return frame
    raise AssertionError("a reader that wants nothing has given its frame")


def receive_exactly(connection: Any, size: int) -> Operation[bytes]:
    """So many bytes. Memory grows with what arrives, not with what was announced."""
    data = bytearray()
    while missing := size - len(data):
        part = yield Receive(connection, min(missing, LARGEST_PIECE))
        if not part:
            raise ConnectionEnded(f"the runtime closed the connection {missing} bytes before the end of its answer")
        data += part
    return bytes(data)


class Run(Generic[T]):
    """An operation under way. ``step`` is to be performed next; None: it is over, and ``result`` is there."""

    result: T

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.open: list[Any] = []
        """The connections that are open."""
        self.step: Step | None = None
        self._advance(operation.send, None)

    def succeeded(self, outcome: Any) -> None:
        """The step was performed."""
        if isinstance(self.step, Dial):
            self.open.append(outcome)
        elif isinstance(self.step, Close) and self.step.connection in self.open:
            self.open.remove(self.step.connection)
        self._advance(self._operation.send, outcome)

    def failed(self, error: DiagnosticsError) -> None:
        """The step raised."""
        self._advance(self._operation.throw, error)

    def abandon(self) -> list[Any]:
        """End the operation where it stands. What this returns is open, and for the shell to close."""
        self._operation.close()
        return self.open

    def _advance(self, go_on: Callable[[Any], Step], value: Any) -> None:
        try:
            self.step = go_on(value)
        except StopIteration as end:
            self.step, self.result = None, end.value
