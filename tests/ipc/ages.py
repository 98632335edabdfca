"""Runtimes by age, as tables of what each answers (ipc-protocol.md §21.6), and a peer that plays one at the level of steps.

No socket, no thread, no clock: :func:`drive` performs the steps of an operation against the table, and writes down all that was done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from dotnetdiag.errors import ConnectionEnded, DiagnosticsError
from dotnetdiag.ipc import environment, process, process_info, tracing
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.exchange import Close, Dial, Operation, Receive, Run, Send, SendDescriptor
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.messages import ErrorReply, Request
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.requests import UnknownRequest, parse_request

T = TypeVar("T")

OK, UC, NS, FAIL, BAD, ARG = 0, 0x80131385, 0x80131515, 0x80004005, 0x80131384, 0x80070057
COOKIE = UUID("123e4567-e89b-12d3-a456-426614174000")
SESSION_ID = 0x7F0011223344
ENTRIES = ("A=1", "EMPTY=", "=C:=C:\\dir")
C = Command
_DUMPS = (C.GenerateCoreDump2, C.GenerateCoreDump3)
_ALL = dict.fromkeys(Command, OK)


def _without(*commands: Command, answer: int = UC) -> dict[Command, int]:
    return dict.fromkeys(commands, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Age:
    """What a runtime answers: an HRESULT for each command, 0 is OK. ``probe``: to a startup hook without a path."""

    name: str
    version: str | None
    answers: Mapping[Command, int]
    probe: int = ARG


AGES: dict[str, Age] = {
    age.name: age
    for age in (
        Age(
            name="3.1",
            version=None,
            answers={
                **_without(*Command),
                **dict.fromkeys(
                    (C.GenerateCoreDump, C.StopTracing, C.CollectTracing, C.CollectTracing2, C.AttachProfiler), OK
                ),
                C.StartupProfiler: BAD,  # measured: docs/supported.md
            },
            probe=UC,
        ),
        Age(
            name="5",
            version=None,  # ProcessInfo 1 does not tell
            answers={
                **_ALL,
                **_without(*_DUMPS, C.CollectTracing3, C.CollectTracing4, C.CollectTracing5, C.CollectTracing6),
                **_without(C.StartupProfiler, C.SetEnvironmentVariable, C.ProcessInfo2, C.ProcessInfo3),
                **_without(C.EnablePerfMap, C.DisablePerfMap, C.ApplyStartupHook),
            },
            probe=UC,
        ),
        Age(
            name="8",
            version="8.0.33",
            answers={
                **_ALL,
                **_without(C.CollectTracing3, C.CollectTracing4, C.CollectTracing5, C.CollectTracing6),
            },
        ),
        Age(
            name="9",
            version="9.0.22",
            answers={**_ALL, **_without(C.CollectTracing5, C.CollectTracing6)},
        ),
        Age(name="10", version="10.0.14", answers={**_ALL, **_without(C.CollectTracing6)}),
        Age(name="11", version="11.0.0-preview.1+abc", answers=_ALL),  # from the documents alone
        Age(
            name="NativeAOT",
            version="9.0.20",
            answers={
                **_ALL,
                **_without(C.GenerateCoreDump, *_DUMPS, answer=FAIL),
                **_without(C.CollectTracing5, C.CollectTracing6),
                **_without(C.AttachProfiler, C.StartupProfiler, answer=NS),
                **_without(C.EnablePerfMap, C.DisablePerfMap, C.ApplyStartupHook, answer=NS),
            },
            probe=NS,
        ),
    )
}
MEASURED = ("3.1", "5", "8", "9", "10", "NativeAOT")


@dataclass(eq=False)
class Connection:
    """One connection to the peer; what it may be used for is asserted."""

    number: int
    to_receive: bytes = b""
    awaits_descriptor: bool = False
    descriptor: int | None = None
    has_sent: bool = False
    is_closed: bool = False


@dataclass
class Peer:
    """Plays a runtime. ``cuts`` are the sizes in which its answers arrive, again and again."""

    age: Age
    cuts: Sequence[int] = (1 << 20,)
    replaced: Mapping[Command, bytes] = field(default_factory=dict)
    """Answers that are not those of the table, byte by byte."""
    requests: list[Any] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    slow: set[str] = field(default_factory=set)
    """The commands whose answer may take its time."""
    is_quick: bool = False
    """Has refused, and closed, before the descriptor is sent that would have followed."""
    turn: int = 0

    @property
    def commands(self) -> list[str]:
        """What was sent, in order; a startup hook without a path is ``probe``."""
        return [
            "probe"
            if isinstance(one, process.ApplyStartupHook) and one.path is None
            else f"0x{one.frame.code:04X}"
            if isinstance(one, UnknownRequest)
            else one.COMMAND.name
            for one in self.requests
        ]

    @property
    def still_open(self) -> list[Connection]:
        return [one for one in self.connections if not one.is_closed]

    def perform(self, step: Any) -> Any:
        self.steps.append(type(step).__name__)
        if isinstance(step, Dial):
            assert not step.slow
            self.connections.append(Connection(number=len(self.connections)))
            return self.connections[-1]
        connection = step.connection
        assert isinstance(connection, Connection)
        assert not connection.is_closed
        if isinstance(step, Close):
            connection.is_closed = True
            return None
        if isinstance(step, Send):
            assert not connection.has_sent, "one connection, one command"
            connection.has_sent = True
            self.answer(connection, step.arguments[0])
            return None
        if isinstance(step, SendDescriptor):
            if not connection.awaits_descriptor and self.is_quick:
                raise ConnectionEnded("the runtime has closed the connection")
            connection.awaits_descriptor, connection.descriptor = False, step.arguments[0]
            return None
        assert isinstance(step, Receive)
        assert not connection.awaits_descriptor, "the runtime answers when it has the descriptor (§15)"
        (wanted,) = step.arguments
        assert wanted > 0
        if step.slow:
            self.slow.add(self.commands[connection.number])
        self.turn += 1
        size = min(wanted, self.cuts[self.turn % len(self.cuts)])
        data, connection.to_receive = connection.to_receive[:size], connection.to_receive[size:]
        return data

    def answer(self, connection: Connection, data: bytes) -> None:
        request = parse_request(Frame.parse(data))
        self.requests.append(request)
        if isinstance(request, UnknownRequest):
            connection.to_receive = ErrorReply(hresult=UC).pack()
            return
        is_probe = isinstance(request, process.ApplyStartupHook) and request.path is None
        code = self.age.probe if is_probe else self.age.answers[request.COMMAND]
        if request.COMMAND in self.replaced:
            connection.to_receive = self.replaced[request.COMMAND]
        elif code:
            text = "no such folder" if request.COMMAND is C.GenerateCoreDump3 and code == FAIL else None
            connection.to_receive = ErrorReply(hresult=code, text=text).pack()
        else:
            connection.to_receive = self.granted(request)
        connection.awaits_descriptor = isinstance(request, tracing.CollectTracing5UserEvents) and code == OK

    def granted(self, request: Request[Any]) -> bytes:
        who = {"pid": 4711, "cookie": COOKIE, "command_line": "/app --x", "os": "Linux", "arch": "x64"}
        runs = {**who, "entry_assembly": "app", "runtime_version": self.age.version}
        match request:
            case process_info.ProcessInfo3():
                return process_info.ProcessInfo3Reply(**runs, runtime_identifier="linux-x64").pack()  # type: ignore[arg-type]
            case process_info.ProcessInfo2():
                return process_info.ProcessInfo2Reply(**runs).pack()  # type: ignore[arg-type]
            case process_info.ProcessInfo():
                return process_info.ProcessInfoReply(**who).pack()  # type: ignore[arg-type]
            case environment.ProcessEnvironment():
                block = environment.EnvironmentBlock(entries=ENTRIES).pack()
                return environment.EnvironmentReply(size_bytes=len(block)).pack() + block
        if request.REPLY is SessionReply:
            return SessionReply(session_id=SESSION_ID).pack() + b"Nettrace"
        return ResultReply().pack()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome(Generic[T]):
    """What came of an operation. ``open_at_error`` is what the shell had to close."""

    peer: Peer
    result: T | None = None
    error: DiagnosticsError | None = None
    run: Run[T] | None = None
    open_at_error: int = 0

    @property
    def commands(self) -> list[str]:
        return self.peer.commands


def drive(
    operation: Operation[T],
    age: str | Age,
    cuts: Sequence[int] = (1 << 20,),
    replaced: Mapping[Command, bytes] | None = None,
    *,
    is_quick: bool = False,
) -> Outcome[T]:
    """Perform an operation to its end, as the shells of the client do. After it, nothing is open but what ``run.open`` says."""
    peer = Peer(age=AGES[age] if isinstance(age, str) else age, cuts=cuts, replaced=replaced or {}, is_quick=is_quick)
    run: Run[T] | None = None
    try:
        run = Run(operation)
        while (step := run.step) is not None:
            try:
                outcome = peer.perform(step)
            except DiagnosticsError as error:
                run.failed(error)
            else:
                run.succeeded(outcome)
    except DiagnosticsError as error:
        left = [] if run is None else run.open
        assert left == peer.still_open
        for connection in left:
            connection.is_closed = True
        return Outcome(peer=peer, error=error, run=run, open_at_error=len(left))
    assert run.open == peer.still_open
    return Outcome(peer=peer, result=run.result, run=run)
