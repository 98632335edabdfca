"""Whole operations, with their fall-backs, as generators that do no I/O.

An operation yields :class:`Ask` and is sent the :class:`Answer`; a refusal of the runtime is thrown into it as the ServerError that it is.
The sync and the async client are two drivers of a few lines each (architecture, decision 1).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar
from uuid import UUID

from dotnetdiag.errors import (
    DangerousRequest,
    NotSupported,
    ProtocolError,
    RuntimeTooOld,
    ServerError,
    UnsupportedCommand,
)
from dotnetdiag.ipc import dump, eventpipe, process, profiler
from dotnetdiag.ipc.commands import ERROR_ID, OK_ID, SERVER_SET, SINCE, command_name
from dotnetdiag.ipc.eventpipe import DEFAULT_RUNDOWN_KEYWORD, BufferingMode, Provider, TraceFormat
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.hresults import server_error
from dotnetdiag.ipc.messages import ErrorReply, OkReply, Request
from dotnetdiag.ipc.providers import merge_providers
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.requests import reply_type

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request on a new connection. ``keep``: the connection stays open and comes with the answer.

    ``continuation``: the reply is an :class:`~dotnetdiag.ipc.process.EnvironmentReply`; read so many bytes more.
    ``slow``: the answer may take minutes (dumps, profilers, the flush of a session).
    """

    request: Request
    keep: bool = False
    continuation: bool = False
    slow: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Drain:
    """Read a kept connection to its end and close it; the answer's ``continuation`` is at most ``limit`` bytes of it."""

    connection: Any
    limit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The OK reply, the open connection when it was to be kept, the continuation when there is one."""

    reply: OkReply
    connection: Any = None
    continuation: bytes = b""


Operation = Generator[Ask | Drain, Answer, T]


def read_reply(request: Request, frame: Frame) -> OkReply:
    """The OK reply in a frame. Raises ServerError for an error reply, ProtocolError for anything else."""
    name = request.COMMAND.name
    if frame.command_set != SERVER_SET or frame.command_id not in (OK_ID, ERROR_ID):
        raise ProtocolError(f"the reply is a 0x{frame.code:04X}, neither OK nor Error", offset=16, where=name)
    if frame.command_id == ERROR_ID:
        error = ErrorReply.from_frame(frame)
        advice = ""
        if error.hresult == 0x80131385:
            advice = f"{command_name(request.COMMAND)} needs {SINCE[request.COMMAND]} or newer"
        raise server_error(name, error.hresult, text=error.text or "", advice=advice)
    return reply_type(request.COMMAND).from_frame(frame)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessInformation:
    """Who a runtime says it is. What its version of the command does not tell is ``""``."""

    pid: int
    cookie: UUID
    command_line: str
    os: str
    arch: str
    entry_assembly: str = ""
    runtime_version: str = ""
    runtime_identifier: str = ""


def process_info() -> Operation[ProcessInformation]:
    """ProcessInfo 3, 2, 1. Raises UnsupportedCommand when none is known (.NET Core 3.x)."""
    for request in (process.ProcessInfo3(), process.ProcessInfo2()):
        try:
            reply = (yield Ask(request=request)).reply
        except UnsupportedCommand:
            continue
        return _information(reply)
    return _information((yield Ask(request=process.ProcessInfo())).reply)


def _information(reply: OkReply) -> ProcessInformation:
    names = ("command_line", "os", "arch", "entry_assembly", "runtime_version", "runtime_identifier")
    texts = {name: getattr(reply, name, None) or "" for name in names}
    if not isinstance(reply, process.ProcessInfoReply | process.ProcessInfo2Reply | process.ProcessInfo3Reply):
        raise ProtocolError("the reply is no process information", where="ProcessInfo")
    return ProcessInformation(pid=reply.pid, cookie=reply.cookie, **texts)


def _result(request: Request, *, slow: bool = False) -> Operation[None]:
    reply = (yield Ask(request=request, slow=slow)).reply
    if isinstance(reply, ResultReply) and reply.hresult & 0x80000000:
        raise server_error(request.COMMAND.name, reply.hresult)


def environment() -> Operation[dict[str, str]]:
    """The runtime's environment, by name."""
    answer = yield Ask(request=process.ProcessEnvironment(), continuation=True)
    return process.EnvironmentBlock.parse(answer.continuation).variables()


def resume() -> Operation[None]:
    """Let a runtime that is suspended at startup run."""
    return (yield from _result(process.ResumeRuntime()))


def write_dump(path: str, dump_type: int, flags: int) -> Operation[None]:
    """GenerateCoreDump 3, 2, 1. The first can only say ``LOGGING``: other flags raise RuntimeTooOld."""
    for kind in (dump.GenerateCoreDump3, dump.GenerateCoreDump2):
        try:
            return (yield from _result(kind(path=path, dump_type=dump_type, flags=flags), slow=True))
        except UnsupportedCommand:
            continue
    if flags & ~dump.DumpFlags.LOGGING:
        raise RuntimeTooOld("GenerateCoreDump", "a crash report or verbose log", needs=".NET 6")
    return (yield from _result(dump.GenerateCoreDump(path=path, dump_type=dump_type, flags=flags), slow=True))


def is_suspended() -> Operation[bool]:
    """Whether the runtime waits at startup, found out without harm.

    A session is started and stopped at once. A running runtime has sent the head of the trace by the end of the stream;
    a suspended one closes it with zero bytes (ipc-protocol.md §9, §21.3). The provider's name is nobody's.
    """
    nobody = Provider(name="dotnetdiag-is-suspended", keywords=0, level=4)
    request = eventpipe.CollectTracing2(providers=(nobody,), buffer_mb=1, rundown=False)
    answer = yield Ask(request=request, keep=True)
    if not isinstance(answer.reply, SessionReply):
        raise ProtocolError("the reply is no session id", where=request.COMMAND.name)
    yield Ask(request=eventpipe.StopTracing(session_id=answer.reply.session_id))
    return not (yield Drain(connection=answer.connection)).continuation


def enable_perf_map(perf_map_type: int) -> Operation[None]:
    """Write a perf map. A suspended .NET 8 or 9 would die of it (§21.1): DangerousRequest, and nothing is sent."""
    request = process.EnablePerfMap(perf_map_type=perf_map_type)
    request.check()
    version = (yield from process_info()).runtime_version
    if (not version.partition(".")[0].isdigit() or int(version.partition(".")[0]) < 10) and (yield from is_suspended()):
        raise DangerousRequest(
            request.COMMAND.name,
            f"it kills .NET {version or '8 and 9'} while suspended at startup; resume it first",
        )
    return (yield from _result(request))


def set_environment_variable(name: str, value: str | None) -> Operation[None]:
    """Set a variable; ``None`` removes it. Removing kills a NativeAOT runtime (§21.1): DangerousRequest, nothing is sent.

    NativeAOT is told by its answer to an ApplyStartupHook without a path: it has no such feature, while CoreCLR 8 and newer
    refuse the argument (§21.2) and older ones do not know the command. None of them acts on it.
    """
    request = process.SetEnvironmentVariable(name=name, value=value)
    request.check()
    if value is None:
        try:
            yield Ask(request=process.StartupHookProbe())
        except NotSupported:
            raise DangerousRequest(
                request.COMMAND.name, "removing a variable kills a NativeAOT runtime; set it to an empty text instead"
            ) from None
        except ServerError:
            pass  # the refusal that tells CoreCLR
    return (yield from _result(request))


def attach_profiler(clsid: UUID, path: str, client_data: bytes, timeout_ms: int) -> Operation[None]:
    """Attach a profiler to a running runtime; its callbacks have run when this returns."""
    request = profiler.AttachProfiler(timeout_ms=timeout_ms, clsid=clsid, path=path, client_data=client_data)
    return (yield from _result(request, slow=True))


def startup_profiler(clsid: UUID, path: str) -> Operation[None]:
    """Register a profiler with a runtime that is suspended at startup."""
    return (yield from _result(profiler.StartupProfiler(clsid=clsid, path=path)))


def apply_startup_hook(path: str) -> Operation[None]:
    """Run a startup hook. The caller has looked at the file: one that cannot be used kills .NET 9 and 10 (§21.1)."""
    return (yield from _result(process.ApplyStartupHook(path=path), slow=True))


def disable_perf_map() -> Operation[None]:
    """Stop writing the perf map."""
    return (yield from _result(process.DisablePerfMap()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionConfiguration:
    """What to record. ``rundown_keyword`` 0 means no rundown. Repeated providers are merged.

    ``rundown_fallback``: the keyword to use instead where the runtime takes no custom one; ``None``: raise.
    """

    providers: tuple[Provider, ...]
    buffer_mb: int = eventpipe.DEFAULT_BUFFER_MB
    format: int = TraceFormat.NETTRACE
    rundown_keyword: int = DEFAULT_RUNDOWN_KEYWORD
    stackwalk: bool = True
    buffering_mode: int = BufferingMode.DROP
    rundown_fallback: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedSession:
    """A session that runs: its id, the connection its stream comes on, the command that started it."""

    session_id: int
    connection: Any
    command: str


def collect_request(wanted: SessionConfiguration) -> tuple[Request, str]:
    """The lowest CollectTracing that can express a configuration, and the feature that asks for it (ipc-protocol.md §14)."""
    providers = merge_providers(wanted.providers)
    plain_rundown = wanted.rundown_keyword in (0, DEFAULT_RUNDOWN_KEYWORD)
    filtered = any(provider.event_filter is not None for provider in providers)
    if wanted.buffering_mode != BufferingMode.DROP:
        return eventpipe.CollectTracing6(
            providers=providers,
            buffer_mb=wanted.buffer_mb,
            format=wanted.format,
            rundown_keyword=wanted.rundown_keyword,
            stackwalk=wanted.stackwalk,
            buffering_mode=wanted.buffering_mode,
        ), "the Block buffering mode"
    if filtered or not plain_rundown:
        kind = eventpipe.CollectTracing5 if filtered else eventpipe.CollectTracing4
        return kind(
            providers=providers,
            buffer_mb=wanted.buffer_mb,
            format=wanted.format,
            rundown_keyword=wanted.rundown_keyword,
            stackwalk=wanted.stackwalk,
        ), "an event filter" if filtered else "a rundown keyword of one's own"
    rundown = wanted.rundown_keyword != 0
    if not wanted.stackwalk:
        return eventpipe.CollectTracing3(
            providers=providers,
            buffer_mb=wanted.buffer_mb,
            format=wanted.format,
            rundown=rundown,
            stackwalk=False,
        ), "a session without stacks"
    return eventpipe.CollectTracing2(
        providers=providers, buffer_mb=wanted.buffer_mb, format=wanted.format, rundown=rundown
    ), "a session"


def collect(wanted: SessionConfiguration) -> Operation[StartedSession]:
    """Start a streaming session. Raises RuntimeTooOld naming the feature that the runtime lacks."""
    request, feature = collect_request(wanted)
    try:
        answer = yield Ask(request=request, keep=True)
    except UnsupportedCommand:
        if isinstance(request, eventpipe.CollectTracing4) and wanted.rundown_fallback is not None:
            request = eventpipe.CollectTracing2(
                providers=request.providers,
                buffer_mb=wanted.buffer_mb,
                format=wanted.format,
                rundown=wanted.rundown_fallback != 0,
            )
            answer = yield Ask(request=request, keep=True)
        else:
            try:
                version = (yield from process_info()).runtime_version or None
            except ServerError:
                version = None
            raise RuntimeTooOld(request.COMMAND.name, feature, needs=SINCE[request.COMMAND], has=version) from None
    if not isinstance(answer.reply, SessionReply):
        raise ProtocolError("the reply is no session id", where=request.COMMAND.name)
    return StartedSession(
        session_id=answer.reply.session_id, connection=answer.connection, command=request.COMMAND.name
    )


def stop(session_id: int) -> Operation[None]:
    """Stop a session. The answer comes when its stream has been flushed: somebody must keep reading it."""
    yield Ask(request=eventpipe.StopTracing(session_id=session_id), slow=True)
