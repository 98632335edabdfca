"""What a server of Diagnostic IPC has to do: a table of checks, each with what it sends, and the document that says so.

Rule 1: what kills a runtime (ipc-protocol.md §21.1) stands in ``kills``, with those that it kills.
Rule 2: a check has no effect on the target that lasts but a variable of its environment, ``VARIABLE``.
Rule 3: where real runtimes do otherwise, ``DIFFERENCES`` says how; the check itself says what the documents do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.commands import Command, command_name
from dotnetdiag.ipc.environment import EnvironmentBlock, EnvironmentReply, ProcessEnvironment, SetEnvironmentVariable
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.frames import HEADER_SIZE, MAGIC, MAX_MESSAGE_SIZE, Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply, Request
from dotnetdiag.ipc.process import ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo, ProcessInfo2, ProcessInfo3, ProcessInfo3Reply, ProcessInfoReply
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.ipc.tracing import (
    CollectTracing,
    CollectTracing2,
    CollectTracing3,
    CollectTracing4,
    CollectTracing5,
    CollectTracing6,
    StopTracing,
)
from dotnetdiag.nettrace import read
from dotnetdiag.testing.peer import Mismatch, Peer, reply_of
from dotnetdiag.testing.releases import NATIVE_AOT, Release
from dotnetdiag.wire import Packer

VARIABLE = "DOTNETDIAG_CONFORMANCE"
UNUSED_ID = 0x7777777777777777
STOP = StopTracing(session_id=UNUSED_ID).pack()
COMMANDS_WITHOUT_PAYLOAD = (ProcessInfo, ProcessInfo2, ProcessInfo3, ProcessEnvironment)
CORECLR_8_ON = ("8", "9", "10")


class NotApplicable(Exception):
    """Why the check cannot be made here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Who is examined. ``release``: whose manners it is held to; None: the documents alone. ``pid``: as this machine has it, None where unknown."""

    peer: Peer
    release: Release | None = None
    pid: int | None = None

    def require(self, request: Request[Any]) -> Any:
        """The OK reply to a request that the server may lack. Raises NotApplicable where it says so, Mismatch."""
        frame = self.peer.answer(request.pack())
        _require_known(frame, request.COMMAND)
        return reply_of(request, frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """``name`` is the sentence that is to hold. ``kills``: names of releases that what is sent kills; anybody else may die of it too."""

    name: str
    sends: str
    document: str
    run: Callable[[Target], None]
    kills: tuple[str, ...] = ()


CHECKS: dict[str, Check] = {}
"""By name, in the order in which they are made."""


def check(name: str, *, sends: str, document: str, kills: tuple[str, ...] = ()) -> Callable[[Any], Any]:
    """Enter a function of the target into the table. It returns where the check is passed, and raises Mismatch or NotApplicable."""

    def enter(run: Callable[[Target], None]) -> Callable[[Target], None]:
        CHECKS[name] = Check(name=name, sends=sends, document=document, run=run, kills=kills)
        return run

    return enter


# framing --------------------------------------------------------------------------------------------------------------


@check("a size below 20 is BAD_ENCODING", sends="a header with size 19", document="ipc-protocol.md §7")
def _small_size(target: Target) -> None:
    _expect_error(target, _header(size=19), HResult.BAD_ENCODING)


@check(
    "the size is looked at before the magic",
    sends="a header with size 5 and a wrong magic",
    document="ipc-protocol.md §7",
)
def _size_first(target: Target) -> None:
    _expect_error(target, _header(size=5, magic=b"DOTNET_IPC_V9\0"), HResult.BAD_ENCODING)


@check("a wrong magic is UNKNOWN_MAGIC", sends="a message with the magic DOTNET_IPC_V9", document="ipc-protocol.md §7")
def _magic(target: Target) -> None:
    _expect_error(target, _header(size=20, magic=b"DOTNET_IPC_V9\0"), HResult.UNKNOWN_MAGIC)


@check("a header that ends early is BAD_ENCODING", sends="10 bytes, and the end", document="ipc-protocol.md §7")
def _cut_header(target: Target) -> None:
    _expect_error(target, STOP[:10], HResult.BAD_ENCODING, ends=True)


@check(
    "a payload that ends early is BAD_ENCODING",
    sends="24 bytes of StopTracing, and the end",
    document="ipc-protocol.md §7",
)
def _cut_payload(target: Target) -> None:
    _expect_error(target, STOP[:24], HResult.BAD_ENCODING, ends=True)


@check("an unknown command set is UNKNOWN_COMMAND", sends="0x7701", document="ipc-protocol.md §6")
def _unknown_set(target: Target) -> None:
    _expect_error(target, Frame(command_set=0x77, command_id=1).pack(), HResult.UNKNOWN_COMMAND)


@check(
    "an unknown command of a known set is UNKNOWN_COMMAND",
    sends="0x01FE, 0x02FE, 0x04FE",
    document="ipc-protocol.md §6",
)
def _unknown_id(target: Target) -> None:
    for command_set in (1, 2, 4):
        _expect_error(target, Frame(command_set=command_set, command_id=0xFE).pack(), HResult.UNKNOWN_COMMAND)


@check("an unknown command of the profiler set is UNKNOWN_COMMAND", sends="0x03FE", document="ipc-protocol.md §6")
def _unknown_profiler(target: Target) -> None:
    _expect_error(target, Frame(command_set=3, command_id=0xFE).pack(), HResult.UNKNOWN_COMMAND)


@check(
    "what a newer release has is UNKNOWN_COMMAND",
    sends="the commands that its release lacks",
    document="ipc-protocol.md §21.6",
)
def _newer(target: Target) -> None:
    if target.release is None:
        raise NotApplicable("it is no release of .NET")
    for command in sorted(set(Command) - target.release.commands):
        data = Frame(command_set=command >> 8, command_id=command & 0xFF).pack()
        _expect_error(target, data, target.release.unknown_hresult(command))


@check("the reserved field is not looked at", sends="StopTracing with reserved 0xFFFF", document="ipc-protocol.md §7")
def _reserved(target: Target) -> None:
    payload = UNUSED_ID.to_bytes(8, "little")
    _expect_stopped(target, Frame(command_set=2, command_id=1, payload=payload, reserved=0xFFFF).pack())


@check("bytes behind a payload are not looked at", sends="StopTracing with 4 bytes more", document="ipc-protocol.md §7")
def _trailing(target: Target) -> None:
    _expect_stopped(
        target, Frame(command_set=2, command_id=1, payload=UNUSED_ID.to_bytes(8, "little") + b"\xff" * 4).pack()
    )


@check(
    "bytes behind a message are not looked at",
    sends="StopTracing, and 100 bytes behind it",
    document="ipc-protocol.md §7",
)
def _behind(target: Target) -> None:
    _expect_stopped(target, STOP + bytes(100))


@check(
    "a message may have 65,535 bytes",
    sends="StopTracing with 65,507 bytes behind its id",
    document="ipc-protocol.md §8",
)
def _largest(target: Target) -> None:
    payload = UNUSED_ID.to_bytes(8, "little") + bytes(MAX_MESSAGE_SIZE - HEADER_SIZE - 8)
    _expect_stopped(target, Frame(command_set=2, command_id=1, payload=payload).pack())


@check("a message may come in pieces", sends="StopTracing in 10, 12 and 6 bytes", document="ipc-protocol.md §2")
def _pieces(target: Target) -> None:
    said = target.peer.ask(STOP[:10], STOP[10:22], STOP[22:], pause_s=0.1)
    reply_of(StopTracing(session_id=UNUSED_ID), said.frame())


@check("a connection is closed behind the answer", sends="StopTracing", document="ipc-protocol.md §1")
def _closed(target: Target) -> None:
    if not target.peer.ask(STOP).is_closed:
        raise Mismatch("the connection stays open")


@check(
    "a connection that says nothing holds up nobody",
    sends="nothing, and StopTracing beside it",
    document="ipc-protocol.md §7",
)
def _silent(target: Target) -> None:
    with target.peer.dialled():
        hasty = Peer(target.peer.address, answer_s=2.0)
        _expect_stopped(Target(peer=hasty), STOP)


# who it is ------------------------------------------------------------------------------------------------------------


@check(
    "ProcessInfo 1 to 3 say the same", sends="ProcessInfo, ProcessInfo2, ProcessInfo3", document="ipc-protocol.md §5.8"
)
def _infos(target: Target) -> None:
    replies = []
    for request in (ProcessInfo(), ProcessInfo2(), ProcessInfo3()):
        try:
            replies.append((request.COMMAND.name, target.require(request)))
        except NotApplicable:
            if not replies:
                raise
    first: ProcessInfoReply = replies[0][1]
    for name, reply in replies:
        if reply.trailing:
            raise Mismatch(f"{name} has {len(reply.trailing)} bytes behind its last field")
        for field in ("pid", "cookie", "command_line", "os", "arch"):
            if getattr(reply, field) != getattr(first, field):
                raise Mismatch(f"{name} says another {field}")
    if not first.cookie.int:
        raise Mismatch("the cookie is zero")
    for name, reply in replies:
        if isinstance(reply, ProcessInfo3Reply) and reply.version < 1:
            raise Mismatch(f"{name} has version {reply.version}")


@check("ProcessInfo has no null texts", sends="ProcessInfo, ProcessInfo2, ProcessInfo3", document="ipc-protocol.md §3")
def _texts(target: Target) -> None:
    infos: tuple[Request[Any], ...] = (ProcessInfo(), ProcessInfo2(), ProcessInfo3())
    known = 0
    for request in infos:
        try:
            reply = target.require(request)
        except NotApplicable:
            continue
        known += 1
        if missing := [name for name, value in vars(reply).items() if value is None]:
            raise Mismatch(f"{request.COMMAND.name} has no {', '.join(missing)}")
    if not known:
        raise NotApplicable("it does not say who it is")


@check("ProcessInfo says the pid of the process", sends="ProcessInfo", document="ipc-protocol.md §5.8")
def _pid(target: Target) -> None:
    reply = target.require(ProcessInfo())
    if target.pid is None:
        raise NotApplicable("its pid is not known here")
    if reply.pid != target.pid:
        raise Mismatch(f"it says {reply.pid}, and is {target.pid}")


@check("ResumeRuntime without anything to resume is OK", sends="ResumeRuntime", document="ipc-protocol.md §21.6")
def _resume(target: Target) -> None:
    target.require(ResumeRuntime())


# environment ----------------------------------------------------------------------------------------------------------


@check("the environment is as long as it is announced", sends="ProcessEnvironment", document="ipc-protocol.md §5.9")
def _environment(target: Target) -> None:
    _variables(target)


@check("a variable that is set is there", sends="SetEnvironmentVariable", document="ipc-protocol.md §5.10")
def _set(target: Target) -> None:
    for value in ("a=ü=b", ""):
        target.require(SetEnvironmentVariable(name=VARIABLE, value=value))
        if (found := _variables(target).get(VARIABLE)) != value:
            raise Mismatch(f"it was set to {value!r}, and is {found!r}")


@check(
    "a variable that is removed is gone, and cannot be removed again",
    sends="SetEnvironmentVariable with a null value",
    document="ipc-protocol.md §5.10, §21.4",
    kills=(NATIVE_AOT,),
)
def _remove(target: Target) -> None:
    target.require(SetEnvironmentVariable(name=VARIABLE, value=""))
    target.require(SetEnvironmentVariable(name=VARIABLE, value=None))
    if VARIABLE in _variables(target):
        raise Mismatch("it is there after it was removed")
    _expect_error(target, SetEnvironmentVariable(name=VARIABLE, value=None).pack(), HResult.ENVVAR_NOT_FOUND)


# sessions -------------------------------------------------------------------------------------------------------------

PROVIDERS = (Provider(name="Microsoft-Windows-DotNETRuntime", keywords=1, level=4),)
COLLECTS: tuple[Request[SessionReply], ...] = (
    CollectTracing(providers=PROVIDERS, buffer_mb=1),
    CollectTracing2(providers=PROVIDERS, buffer_mb=1, rundown=False),
    CollectTracing3(providers=PROVIDERS, buffer_mb=1, rundown=False),
    CollectTracing4(providers=PROVIDERS, buffer_mb=1, rundown_keyword=0),
    CollectTracing5(providers=PROVIDERS, buffer_mb=1, rundown_keyword=0),
    CollectTracing6(providers=PROVIDERS, buffer_mb=1, rundown_keyword=0),
)
COLLECT = COLLECTS[1]


def _collect(request: Request[SessionReply]) -> Callable[[Target], None]:
    def run(target: Target) -> None:
        data = _session(target, request)
        if not data.startswith(b"Nettrace"):
            raise Mismatch(f"the stream begins with {data[:8]!r}, not with Nettrace")
        _require_whole(data)

    return run


for _request in COLLECTS:
    check(
        f"a session of {_request.COMMAND.name} ends whole when it is stopped",
        sends=f"{_request.COMMAND.name}, StopTracing",
        document="ipc-protocol.md §5.1-5.5",
    )(_collect(_request))


@check("a session of NetPerf is one", sends="CollectTracing2 with format 0", document="ipc-protocol.md §5.1")
def _netperf(target: Target) -> None:
    data = _session(target, CollectTracing2(providers=PROVIDERS, buffer_mb=1, rundown=False, format=0))
    if not data.startswith(b"\x14\0\0\0!FastSerialization.1"):
        raise Mismatch(f"the stream begins with {data[:24]!r}")
    _require_whole(data)


@check("two sessions do not know of each other", sends="CollectTracing2 twice", document="ipc-protocol.md §5.4")
def _two(target: Target) -> None:
    peer = target.peer
    with peer.dialled(COLLECT.pack()) as one, peer.dialled(COLLECT.pack()) as other:
        first, second = _started(target, one), _started(target, other)
        if first == second:
            raise Mismatch(f"both have the id {first}")
        _require_whole(_stopped(target, one, first))
        _require_whole(_stopped(target, other, second))


@check("StopTracing of an unknown id is OK, with that id", sends="StopTracing", document="ipc-protocol.md §5.5")
def _stop(target: Target) -> None:
    _expect_stopped(target, STOP)


@check(
    "StopTracing without an id is BAD_ENCODING", sends="StopTracing without a payload", document="ipc-protocol.md §5.5"
)
def _stop_nothing(target: Target) -> None:
    _expect_error(target, Frame(command_set=2, command_id=1).pack(), HResult.BAD_ENCODING)


@check(
    "who hangs up on a session ends it",
    sends="CollectTracing2, the end, and StopTracing of what is ending",
    document="ipc-protocol.md §5.5",
    kills=("3.1",),  # seldom, on a busy machine
)
def _hang_up(target: Target) -> None:
    with target.peer.dialled(COLLECT.pack()) as stream:
        session = _started(target, stream)
    reply_of(StopTracing(session_id=session), target.peer.answer(StopTracing(session_id=session).pack()))
    _expect_stopped(target, STOP)


def _wrong_collect(payload: bytes) -> bytes:
    return Frame(command_set=2, command_id=3, payload=payload).pack()


def _collect_of(
    count: int, *, buffer_mb: int = 1, trace_format: int = 1, providers: int = 1, name: str | None = "A", level: int = 4
) -> bytes:
    packer = Packer().u32(buffer_mb).u32(trace_format).u8(0).u32(count)
    for _ in range(providers):
        packer.u64(1).u32(level)
        units = b"" if name is None else name.encode("utf-16-le") + b"\0\0"
        packer.u32(len(units) // 2).raw(units).u32(0)
    return _wrong_collect(bytes(packer))


WRONG_COLLECTS = {
    "no providers": _collect_of(0, providers=0),
    "level 6": _collect_of(1, level=6),
    "an empty name": _collect_of(1, name=""),
    "a null name": _collect_of(1, name=None),
}
DEADLY_COLLECTS = {
    "a buffer of 0 MB": _collect_of(1, buffer_mb=0),
    "format 2": _collect_of(1, trace_format=2),
    "1001 providers": _collect_of(1001, providers=1001),
    # CoreCLR 8 to 10 free what the missing provider's place in memory held before: after sessions they die of it, one
    # in forty times (6 runtimes of each, 25 sessions and twice as many of these: 4, 5 and 2 of them died).
    "a count of providers larger than the data": _collect_of(2),
}


@check(
    "a session that makes no sense is BAD_ENCODING",
    sends=f"CollectTracing2 with {', '.join(WRONG_COLLECTS)}",
    document="ipc-protocol.md §7, §21.1",
)
def _wrong(target: Target) -> None:
    for what, data in WRONG_COLLECTS.items():
        _expect_error(target, data, HResult.BAD_ENCODING, what=what, supported=True)


@check(
    "a session that is refused is hung up on", sends="CollectTracing2 without providers", document="ipc-protocol.md §7"
)
def _refused(target: Target) -> None:
    said = target.peer.ask(WRONG_COLLECTS["no providers"])
    _require_known(said.frame(), Command.CollectTracing2)
    if not said.is_closed:
        raise Mismatch("the connection stays open")


@check(
    "a session out of its limits is BAD_ENCODING",
    sends=f"CollectTracing2 with {', '.join(DEADLY_COLLECTS)}",
    document="ipc-protocol.md §7, §21.1",
    kills=(*CORECLR_8_ON, NATIVE_AOT),
)
def _deadly(target: Target) -> None:
    for what, data in DEADLY_COLLECTS.items():
        _expect_error(target, data, HResult.BAD_ENCODING, what=what, supported=True)


# what kills -----------------------------------------------------------------------------------------------------------


@check(
    "a command without its payload is BAD_ENCODING",
    sends="every command that has a payload, without it",
    document="ipc-protocol.md §7, §21.1",
    kills=(*CORECLR_8_ON, NATIVE_AOT),
)
def _empty(target: Target) -> None:
    without = {request.COMMAND for request in COMMANDS_WITHOUT_PAYLOAD}
    without |= {Command.ResumeRuntime, Command.DisablePerfMap}
    for command in sorted(set(Command) - without):
        frame = target.peer.answer(Frame(command_set=command >> 8, command_id=command & 0xFF).pack())
        hresult = _hresult(frame, command.name)
        if hresult not in (HResult.BAD_ENCODING, HResult.UNKNOWN_COMMAND, HResult.NOT_SUPPORTED):
            raise Mismatch(f"{command.name} is answered 0x{hresult:08X}")


@check(
    "a payload where there is none to be does no harm",
    sends="ProcessInfo 1 to 3 and ProcessEnvironment with 8 bytes of payload",
    document="ipc-protocol.md §7, §21.1",
    kills=(*CORECLR_8_ON, NATIVE_AOT),
)
def _too_much(target: Target) -> None:
    for request in COMMANDS_WITHOUT_PAYLOAD:
        command = request.COMMAND
        frame = target.peer.ask(
            Frame(command_set=command >> 8, command_id=command & 0xFF, payload=b"\xcc" * 8).pack()
        ).frame()
        if frame.code not in (0xFF00, 0xFFFF):
            raise Mismatch(f"{command.name} is answered by a message 0x{frame.code:04X}")


# what real runtimes do otherwise ----------------------------------------------------------------------------------------

_SILENT = "serves nobody else while a connection says nothing"
_STAYS_OPEN = "leaves the connection open"
DIFFERENCES: dict[str, dict[str, str]] = {
    "a connection that says nothing holds up nobody": dict.fromkeys(("3.1", *CORECLR_8_ON, NATIVE_AOT), _SILENT),
    "an unknown command of the profiler set is UNKNOWN_COMMAND": {"3.1": "BAD_ENCODING", NATIVE_AOT: "NOT_SUPPORTED"},
    "a message may come in pieces": {"3.1": "BAD_ENCODING unless header and payload come in one piece each"},
    "a session that is refused is hung up on": dict.fromkeys(("9", "10", "11", NATIVE_AOT), _STAYS_OPEN),
}
"""Name of a check → release → what it does instead."""


# helpers --------------------------------------------------------------------------------------------------------------


def _header(*, size: int, magic: bytes = MAGIC) -> bytes:
    return magic + size.to_bytes(2, "little") + bytes([4, 0, 0, 0])


def _hresult(frame: Frame, what: str) -> int:
    if frame.code != 0xFFFF:
        raise Mismatch(f"{what} is answered by a message 0x{frame.code:04X}, not by an error")
    return ErrorReply.from_frame(frame).hresult


def _require_known(frame: Frame, command: Command) -> None:
    if frame.code == 0xFFFF:
        hresult = ErrorReply.from_frame(frame).hresult
        if hresult in (HResult.UNKNOWN_COMMAND, HResult.NOT_SUPPORTED):
            raise NotApplicable(f"it does not have {command.name}")


def _expect_error(
    target: Target, data: bytes, expected: int, *, ends: bool = False, what: str = "", supported: bool = False
) -> None:
    frame = target.peer.answer(data, ends=ends)
    what = what or command_name(data[16] << 8 | data[17] if len(data) >= HEADER_SIZE else 0)
    hresult = _hresult(frame, what)
    if supported and hresult == HResult.NOT_SUPPORTED:
        raise NotApplicable("it has no sessions")
    if hresult != expected:
        raise Mismatch(f"{what} is answered 0x{hresult:08X}, not 0x{expected:08X}")
    if len(frame.payload) != 4 and data[16:18] != b"\x01\x03":
        raise Mismatch(f"the error has {HEADER_SIZE + len(frame.payload)} bytes, not 24")


def _expect_stopped(target: Target, data: bytes) -> None:
    reply = reply_of(StopTracing(session_id=UNUSED_ID), target.peer.answer(data))
    assert isinstance(reply, SessionReply)
    if reply.session_id != UNUSED_ID:
        raise Mismatch(f"the id is 0x{reply.session_id:X}, not 0x{UNUSED_ID:X}")


def _variables(target: Target) -> dict[str, str]:
    said = target.peer.ask(ProcessEnvironment().pack())
    frame = said.frame()
    _require_known(frame, Command.ProcessEnvironment)
    reply = reply_of(ProcessEnvironment(), frame)
    assert isinstance(reply, EnvironmentReply)
    block = said.data[HEADER_SIZE + len(frame.payload) :]
    if len(block) != reply.size_bytes:
        raise Mismatch(f"{reply.size_bytes} bytes are announced, {len(block)} come")
    parsed = EnvironmentBlock.parse(block)
    if parsed.trailing:
        raise Mismatch(f"{len(parsed.trailing)} bytes stand behind the last variable")
    return parsed.variables()


def _started(target: Target, stream: Any, request: Request[SessionReply] = COLLECT) -> int:
    frame = target.peer.frame(stream)
    _require_known(frame, request.COMMAND)
    reply = reply_of(request, frame)
    assert isinstance(reply, SessionReply)
    if not reply.session_id:
        raise Mismatch("the session's id is 0")
    return reply.session_id


def _stopped(target: Target, stream: Any, session_id: int) -> bytes:
    request = StopTracing(session_id=session_id)
    with target.peer.dialled(request.pack()) as stopping:
        data = target.peer.rest(stream, stopping)
        reply = reply_of(request, target.peer.frame(stopping))
    if reply != SessionReply(session_id=session_id):
        raise Mismatch("StopTracing is answered with another id")
    return data


def _session(target: Target, request: Request[SessionReply]) -> bytes:
    with target.peer.dialled(request.pack()) as stream:
        return _stopped(target, stream, _started(target, stream, request))


def _require_whole(data: bytes) -> None:
    contents = read(data)
    if not contents.complete:
        raise Mismatch(f"the stream is no whole trace: {contents.damage}")
