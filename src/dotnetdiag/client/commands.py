"""What a client can be asked: each command once, as an operation that ``Client`` performs at once and ``AsyncClient`` awaits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from functools import partial, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from uuid import UUID

from dotnetdiag.client.limits import CLOSE_TIMEOUT_S, DRAIN_TIMEOUT_S, SLOW_TIMEOUT_S, Limits
from dotnetdiag.client.running import Look, TargetPid, run, run_async
from dotnetdiag.ipc import operations
from dotnetdiag.ipc.constants import (
    DEFAULT_BUFFER_MB,
    DEFAULT_RUNDOWN_KEYWORD,
    BufferingMode,
    DumpFlags,
    DumpType,
    PerfMapType,
    TraceFormat,
)
from dotnetdiag.ipc.exchange import Operation, Run
from dotnetdiag.transport import Deadline

if TYPE_CHECKING:
    from dotnetdiag.client.session import TraceSession
    from dotnetdiag.client.session_aio import AsyncTraceSession, AsyncUserEventsSession
    from dotnetdiag.client.user_events import UserEventsSession
    from dotnetdiag.ipc.eventpipe import Provider
    from dotnetdiag.ipc.operations.information import ProcessInformation
    from dotnetdiag.ipc.operations.sessions import StartedSession

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


class Either(Generic[T, A]):
    """In an annotation: ``T`` of ``Client``, ``A`` of ``AsyncClient``."""


class Shell:
    """What both clients are made of: a route to the runtime, and how long a call may take."""

    _route: Any
    timeout_s: float

    def _open(self, kind: str, started: StartedSession, end_timeout_s: float | None, **options: Any) -> Any:
        """The shell's own ``TraceSession`` or ``UserEventsSession``; its end may take so long."""
        raise NotImplementedError


class AtOnce(Shell):
    """Performs commands before it returns."""


class Awaited(Shell):
    """Performs commands when they are awaited."""


class Command(Generic[P, T, A]):
    """A method of both clients, made of an operation. ``answer_timeout_s`` among its arguments bounds the slow answers."""

    def __init__(self, body: Callable[Concatenate[Any, P], Operation[Any]]) -> None:
        @wraps(body)
        def at_once(client: Shell, *args: P.args, **kwargs: P.kwargs) -> Any:
            limits = _limits(client, kwargs)
            return run(Run(body(client, *args, **kwargs)), client._route, limits)

        @wraps(body)
        async def awaited(client: Shell, *args: P.args, **kwargs: P.kwargs) -> Any:
            limits = _limits(client, kwargs)
            return await run_async(Run(body(client, *args, **kwargs)), client._route, limits)

        self._forms = at_once, awaited

    @overload
    def __get__(self, client: AtOnce, owner: type[AtOnce]) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: Awaited, owner: type[Awaited]) -> Callable[P, Coroutine[Any, Any, A]]: ...
    @overload
    def __get__(self, client: None, owner: type[Shell]) -> Callable[..., Any]: ...
    def __get__(self, client: Shell | None, owner: type[Shell]) -> Any:
        form = self._forms[issubclass(owner, Awaited)]
        return form if client is None else MethodType(form, client)


def _limits(client: Shell, arguments: Mapping[str, Any]) -> Limits:
    return Limits(client.timeout_s, arguments.get("answer_timeout_s", SLOW_TIMEOUT_S))


def command(body: Callable[Concatenate[Any, P], Operation[T]]) -> Command[P, T, T]:
    """What gives the same to both."""
    return Command(body)


def session_command(body: Callable[Concatenate[Any, P], Operation[Either[T, A]]]) -> Command[P, T, A]:
    """What gives each a session of its own kind."""
    return Command(body)


class Commands(Shell):
    """The commands of ``Client`` and ``AsyncClient``."""

    @command
    def process_info(self) -> Operation[ProcessInformation]:
        """Who the runtime is. Raises UnsupportedCommand on .NET Core 3.x."""
        return operations.information.process_info()

    @command
    def environment(self) -> Operation[dict[str, str]]:
        """The runtime's environment, by name. Raises UnsupportedCommand on .NET Core 3.x."""
        return operations.environments.environment()

    @command
    def set_environment_variable(self, name: str, value: str | None) -> Operation[None]:
        """Set a variable of the runtime's environment; ``None`` removes it. Managed code and child processes see it, ``getenv`` in native
        code does not.

        Raises UnsupportedCommand on .NET 5 and older, ServerError for the removal of one that is not there, UsageError for what is no name, and
        DangerousRequest for a removal on NativeAOT, which would die of it.
        """
        return operations.environments.set_environment_variable(name, value)

    @command
    def is_suspended(self) -> Operation[bool | None]:
        """Whether the runtime waits at startup, from the names of its threads; None where that cannot be told (other machines,
        other systems than Linux, .NET 5 and older). The runtime is asked nothing about it: finding out with a session can kill it.
        One that is known by an address is asked for its pid, for half of the time at most, and nothing is told of one that does not say it:
        a relay has other threads.
        """
        return _is_suspended()

    @command
    def resume(self) -> Operation[None]:
        """Let a runtime run that is suspended at startup; no effect on others. Raises UnsupportedCommand on .NET Core 3.x, which has no such
        state.
        """
        return operations.startup.resume()

    @command
    def write_dump(
        self,
        path: str,
        dump_type: int = DumpType.FULL,
        flags: int = DumpFlags.NONE,
        *,
        answer_timeout_s: float | None = SLOW_TIMEOUT_S,  # noqa: ARG002 - Command takes it
    ) -> Operation[None]:
        """A dump, written by the target into its own file system. A path that is absolute on any system goes as it is; another one
        is made absolute from our working directory. The target stands still meanwhile.

        Raises RuntimeTooOld for flags other than ``LOGGING`` on .NET 5 and older, and ServerError where no dump was written: on NativeAOT,
        without a permission, on a full disk. A file that is there is overwritten.
        """
        from dotnetdiag.client.arguments import absolute_path

        return operations.dumps.write_dump(absolute_path(path), dump_type, flags)

    @command
    def attach_profiler(
        self,
        clsid: UUID,
        path: str,
        client_data: bytes = b"",
        *,
        timeout_s: float = 10.0,
        answer_timeout_s: float | None = SLOW_TIMEOUT_S,  # noqa: ARG002 - Command takes it
    ) -> Operation[None]:
        """Attach a profiler; the path is one of the target's file system. ``timeout_s`` is what the runtime gives the profiler.

        Raises ProfilerAlreadyActive where one is attached, NotSupported on NativeAOT, ServerError for what cannot be loaded and while the runtime
        is suspended at startup.
        """
        from dotnetdiag.client.arguments import milliseconds

        return operations.profilers.attach_profiler(clsid, path, client_data, milliseconds(timeout_s))

    @command
    def startup_profiler(self, clsid: UUID, path: str) -> Operation[None]:
        """Register a profiler with a runtime that is suspended at startup; one that runs takes the command and never loads it. Raises
        BadEncoding or UnsupportedCommand on .NET 5 and older, NotSupported on NativeAOT.
        """
        return operations.profilers.startup_profiler(clsid, path)

    @command
    def enable_perf_map(self, perf_map_type: int = PerfMapType.ALL) -> Operation[None]:
        """Write ``/tmp/perf-PID.map`` and ``/tmp/jit-PID.dump``, until it is disabled.

        Raises UnsupportedCommand on .NET 7 and older, NotSupported on NativeAOT, and DangerousRequest while a .NET 8 or 9 is, or may be,
        suspended at startup: it would die of it.
        """
        yield from operations.perf_map.enable_perf_map(perf_map_type, (yield from _is_suspended()))

    @command
    def disable_perf_map(self) -> Operation[None]:
        """Stop writing the perf map; the files stay. Raises UnsupportedCommand on .NET 7 and older, NotSupported on NativeAOT."""
        return operations.perf_map.disable_perf_map()

    @command
    def apply_startup_hook(
        self,
        path: str,
        *,
        answer_timeout_s: float | None = SLOW_TIMEOUT_S,  # noqa: ARG002 - Command takes it
    ) -> Operation[None]:
        """Run a managed startup hook in the target, before Main while it is suspended. The file is checked first.

        Raises DangerousRequest for a file that is no startup hook, or cannot be looked at as the target sees it (.NET 9 and 10 die of one),
        UnsupportedCommand on .NET 7 and older, NotSupported on NativeAOT.
        """
        from dotnetdiag.client.arguments import require_usable_hook
        from dotnetdiag.transport.waiting import call_within

        def check(version: str, deadline: Deadline) -> None:
            call_within(
                lambda: require_usable_hook(path, pid, runtime_version=version), deadline, f"{path} cannot be looked at"
            )

        pid = yield TargetPid()
        yield Look(partial(check, ""))  # before anything is sent
        version = yield from operations.information.runtime_version()
        yield Look(partial(check, version))  # it may be too new
        yield from operations.startup.apply_startup_hook(path)

    @session_command
    def trace(
        self,
        providers: str | Iterable[Provider],
        *,
        buffer_mb: int = DEFAULT_BUFFER_MB,
        rundown_keyword: int = DEFAULT_RUNDOWN_KEYWORD,
        rundown_fallback: int | None = None,
        stackwalk: bool = True,
        format: int = TraceFormat.NETTRACE,
        buffering_mode: int = BufferingMode.DROP,
        duration: float | str | None = None,
        drain_timeout_s: float | None = DRAIN_TIMEOUT_S,
        answer_timeout_s: float | None = None,
    ) -> Operation[Either[TraceSession, AsyncTraceSession]]:
        """Start a session. ``providers`` is the text of ``--providers``, or values; ``duration`` (seconds, or ``"30s"``) is how long
        ``save`` records; ``drain_timeout_s`` bounds all that comes after the stop, and ``answer_timeout_s`` how long the answer may take
        (None: as others, within ``timeout_s``), for which a runtime that collects garbage without a pause was seen to take a minute.

        Raises RuntimeTooOld for a feature that the runtime lacks (``feature``, ``needs``), GrammarError for a text that is no provider,
        UsageError for other values that cannot be.

        On a runtime that is suspended at startup nothing comes before :meth:`resume`.
        """
        from dotnetdiag.durations import seconds_of
        from dotnetdiag.providers.text import parse_providers

        duration_s, drain_timeout_s = seconds_of(duration), Deadline(drain_timeout_s).timeout_s
        wanted = operations.sessions.SessionConfiguration(
            providers=parse_providers(providers) if isinstance(providers, str) else tuple(providers),
            buffer_mb=buffer_mb,
            format=format,
            rundown_keyword=rundown_keyword,
            stackwalk=stackwalk,
            buffering_mode=buffering_mode,
            rundown_fallback=rundown_fallback,
        )
        started = yield from operations.sessions.collect(wanted, slow=answer_timeout_s is not None)
        options = {"duration_s": duration_s, "drain_timeout_s": drain_timeout_s}
        return self._open("TraceSession", started, drain_timeout_s, **options)  # type: ignore[no-any-return]

    @session_command
    def trace_user_events(
        self, fd: int | None, providers: Iterable[Provider], *, rundown_keyword: int = 0
    ) -> Operation[Either[UserEventsSession, AsyncUserEventsSession]]:
        """Have a .NET 10 on Linux write events to the kernel's tracepoints instead of a stream; every provider names its own.

        ``fd`` is ``/sys/kernel/tracing/user_events_data`` opened for reading and writing; None: opened here. The session lasts
        until it is closed. Raises RequestRefused, and sends nothing, where the kernel has no user_events.
        """
        from dotnetdiag.client.user_events import user_events_descriptor

        with user_events_descriptor(fd) as descriptor:
            started = yield from operations.sessions.collect_user_events(tuple(providers), rundown_keyword, descriptor)
        return self._open("UserEventsSession", started, CLOSE_TIMEOUT_S)  # type: ignore[no-any-return]


def _is_suspended() -> Operation[bool | None]:
    from dotnetdiag.transport.suspension import is_suspended

    pid = yield TargetPid(confirmed=True)
    if pid is None:
        return None
    return (yield Look(lambda deadline: is_suspended(pid, timeout_s=deadline.wait_s())))  # type: ignore[no-any-return]
