"""One command on one connection, as a generator that does no I/O; operations are made of these.

A generator yields a :class:`Step` and is sent what the step gave; an error of the I/O is thrown into it. :class:`Run` holds what the
shells must not decide: what is open, what comes next, what is closed when. So a shell is a loop that performs steps, and no more.

Rule 1: the request is packed, and so checked, before anything is dialled.
Rule 2: after an error nothing stays open; after success what is still open belongs to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from dotnetdiag.errors import ConnectionEnded, DiagnosticsError
from dotnetdiag.ipc.frames import Frame, FrameReader
from dotnetdiag.ipc.messages import ReplyT, Request

T = TypeVar("T")
LARGEST_PIECE = 1 << 20


class Step:
    """Something to do. ``slow``: the answer may take minutes, which is a limit of its own (dumps, profilers, the end of a session).

    Plain classes: making five dataclasses takes 2 ms, which is much of a list of processes.
    """

    slow = False

    def __init__(self, connection: Any = None) -> None:
        self.connection = connection

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment] # nothing keeps steps

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def perform(self, dial: Callable[[Any], Any], deadline: Any) -> Any:
        """Make the call that the step stands for. An asyncio shell awaits what this returns."""
        raise NotImplementedError


class Dial(Step):
    """Make a connection; it is the outcome."""

    def perform(self, dial: Callable[[Any], Any], deadline: Any) -> Any:
        return dial(deadline)


class Send(Step):
    """Send all of ``data`` in one piece: .NET Core 3.1 makes one read for the header and one for the payload (§21.3)."""

    def __init__(self, connection: Any, data: bytes) -> None:
        self.connection, self.data = connection, data

    def perform(self, dial: Callable[[Any], Any], deadline: Any) -> Any:  # noqa: ARG002 - as of Dial
        return self.connection.send(self.data, deadline)


class SendDescriptor(Step):
    """Pass a file descriptor, with one byte of its own (§15)."""

    def __init__(self, connection: Any, descriptor: int) -> None:
        self.connection, self.descriptor = connection, descriptor

    def perform(self, dial: Callable[[Any], Any], deadline: Any) -> Any:  # noqa: ARG002 - as of Dial
        return self.connection.send_descriptor(self.descriptor, deadline)


class Receive(Step):
    """Wait for 1 to ``size`` bytes; the outcome is ``b""`` at the end of the connection."""

    def __init__(self, connection: Any, size: int, slow: bool = False) -> None:
        self.connection, self.size, self.slow = connection, size, slow

    def perform(self, dial: Callable[[Any], Any], deadline: Any) -> Any:  # noqa: ARG002 - as of Dial
        return self.connection.receive(self.size, deadline)


class Close(Step):
    """Close a connection."""

    def perform(self, dial: Callable[[Any], Any], deadline: Any) -> Any:  # noqa: ARG002 - as of Dial
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
        reply = request.read_reply((yield from receive_frame(connection, slow=slow)))
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
        data = yield Receive(connection, wanted, slow)
        if not data:
            raise ConnectionEnded("the runtime closed the connection before its answer was complete")
        frame = reader.feed(data)
        if frame is not None:
            return frame
    raise AssertionError("a reader that wants nothing has given its frame")


def receive_exactly(connection: Any, size: int) -> Operation[bytes]:
    """So many bytes. Memory grows with what arrives, not with what was announced."""
    data = bytearray()
    while len(data) < size:
        part = yield Receive(connection, min(size - len(data), LARGEST_PIECE))
        if not part:
            raise ConnectionEnded(
                f"the runtime closed the connection {size - len(data)} bytes before the end of its answer"
            )
        data += part
    return bytes(data)


class Run(Generic[T]):
    """An operation under way. ``step`` is to be performed next; None: it is over, and ``result`` is there."""

    result: T

    def __init__(self, operation: Operation[T]) -> None:
        self._operation = operation
        self.open: list[Any] = []
        """The connections that are open: the shell closes them when it is left by an error."""
        self.step: Step | None = None
        self._advance(operation.send, None)

    def succeeded(self, outcome: Any) -> None:
        """The step was performed."""
        if isinstance(self.step, Dial):
            self.open.append(outcome)
        elif isinstance(self.step, Close):
            self.open.remove(self.step.connection)
        self._advance(self._operation.send, outcome)

    def failed(self, error: DiagnosticsError) -> None:
        """The step raised."""
        self._advance(self._operation.throw, error)

    def _advance(self, go_on: Callable[[Any], Step], value: Any) -> None:
        try:
            self.step = go_on(value)
        except StopIteration as end:
            self.step, self.result = None, end.value
