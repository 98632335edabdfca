"""The synchronous client: one method for each operation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar
from uuid import UUID

from dotnetdiag.client.limits import CLOSE_TIMEOUT_S, DRAIN_TIMEOUT_S, SLOW_TIMEOUT_S, TIMEOUT_S, Limits, stays_silent
from dotnetdiag.client.routes import PidRoute, Route, route_to
from dotnetdiag.client.running import run
from dotnetdiag.errors import TimedOut, TransportError
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
from dotnetdiag.ipc.operations import ProcessInformation
from dotnetdiag.transport import Deadline

if TYPE_CHECKING:
    from dotnetdiag.client.session import TraceSession
    from dotnetdiag.client.user_events import UserEventsSession
    from dotnetdiag.ipc.eventpipe import Provider
    from dotnetdiag.transport import Endpoint, Stream

T = TypeVar("T")
DIAL_SLICE_S = 0.2
"""After so long, and then twice as long each time, a stop that finds no connection looks whether its session is still there."""


class Client:
    """Talks to one runtime. Every command is a connection of its own, so threads may share a client.

    ``timeout_s`` bounds each call: all connecting, sending and quick answers of it together. Answers that take long (dumps, profilers,
    hooks, the end of a session) have limits of their own. After an error nothing stays open.
    """

    def __init__(self, target: int | Route, *, timeout_s: float = TIMEOUT_S) -> None:
        """``target``: a pid (also a container's own number where only one process has it), or a route to a runtime."""
        self._route: Route = PidRoute(target) if isinstance(target, int) else target
        self.timeout_s = timeout_s

    @classmethod
    def connect(cls, address: str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """A client of the runtime at ``ADDRESS[,connect|listen]`` (``/path``, ``host:port``; ``connect`` when nothing is said).

        ``listen``: we own the socket and runtimes started with ``DOTNET_DiagnosticPorts=ADDRESS`` dial it; the client is of
        the first one that does. Close such a client, or use it in a ``with`` block. TCP beyond loopback is not listened on.
        """
        return cls(route_to(address, Deadline(timeout_s)), timeout_s=timeout_s)

    @classmethod
    def at(cls, known: Sequence[Endpoint], *, timeout_s: float = TIMEOUT_S) -> Self:
        """A client of the process whose endpoints ``transport.endpoints`` has found, best first. It looks again when none answers."""
        return cls(PidRoute(known[0].pid, known), timeout_s=timeout_s)

    def target_pid(self, *, timeout_s: float | None = TIMEOUT_S) -> int | None:
        """The runtime's process as this machine sees it; None where the system does not tell (TCP, other namespaces).

        Waits for the first runtime on a port of ours; ``None`` waits for ever.
        """
        return self._route.target_pid(Deadline(timeout_s))

    def close(self) -> None:
        """Release a port of ours. Others hold nothing between calls."""
        self._route.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------------- operations

    def process_info(self) -> ProcessInformation:
        """Who the runtime is. Raises UnsupportedCommand on .NET Core 3.x."""
        return self._run(operations.process_info())

    def environment(self) -> dict[str, str]:
        """The runtime's environment."""
        return self._run(operations.environment())

    def resume(self) -> None:
        """Let a runtime run that is suspended at startup; no effect on others."""
        self._run(operations.resume())

    def write_dump(
        self,
        path: str,
        dump_type: int = DumpType.FULL,
        flags: int = DumpFlags.NONE,
        *,
        answer_timeout_s: float | None = SLOW_TIMEOUT_S,
    ) -> None:
        """A dump, written by the target into its own file system. A path that is absolute on any system goes as it is; another one
        is made absolute from our working directory. The target stands still meanwhile.
        """
        from dotnetdiag.client.arguments import absolute_path

        self._run(operations.write_dump(absolute_path(path), dump_type, flags), answer_timeout_s)

    def is_suspended(self) -> bool | None:
        """Whether the runtime waits at startup, from the names of its threads; None where that cannot be told (other machines,
        other systems than Linux, .NET 5 and older). The runtime is asked nothing: finding out with a session can kill it.
        """
        return self._is_suspended(Deadline(self.timeout_s))

    def _is_suspended(self, deadline: Deadline) -> bool | None:
        from dotnetdiag.transport.suspension import is_suspended

        pid = self._route.target_pid(deadline)
        return None if pid is None else is_suspended(pid, timeout_s=deadline.wait_s())

    def set_environment_variable(self, name: str, value: str | None) -> None:
        """Set a variable of the runtime's environment; ``None`` removes it."""
        self._run(operations.set_environment_variable(name, value))

    def attach_profiler(
        self,
        clsid: UUID,
        path: str,
        client_data: bytes = b"",
        *,
        timeout_s: float = 10.0,
        answer_timeout_s: float | None = SLOW_TIMEOUT_S,
    ) -> None:
        """Attach a profiler; the path is one of the target's file system. ``timeout_s`` is what the runtime gives the profiler."""
        from dotnetdiag.client.arguments import milliseconds

        operation = operations.attach_profiler(clsid, path, client_data, milliseconds(timeout_s))
        self._run(operation, answer_timeout_s)

    def startup_profiler(self, clsid: UUID, path: str) -> None:
        """Register a profiler with a runtime that is suspended at startup."""
        self._run(operations.startup_profiler(clsid, path))

    def enable_perf_map(self, perf_map_type: int = PerfMapType.ALL) -> None:
        """Write ``/tmp/perf-PID.map`` and ``/tmp/jit-PID.dump``. Refused while a .NET 8 or 9 is, or may be, suspended."""
        limits = Limits(self.timeout_s, SLOW_TIMEOUT_S)
        self._run_within(limits, operations.enable_perf_map(perf_map_type, self._is_suspended(limits.quick)))

    def apply_startup_hook(self, path: str, *, answer_timeout_s: float | None = SLOW_TIMEOUT_S) -> None:
        """Run a managed startup hook in the target, before Main while it is suspended. The file is checked first."""
        from dotnetdiag.client.hook_file import require_usable_hook

        limits = Limits(self.timeout_s, answer_timeout_s)
        pid = self._route.target_pid(limits.quick)
        require_usable_hook(path, pid)  # before anything is sent; then whether it is too new for this runtime
        version = self._run_within(limits, operations.runtime_version())
        require_usable_hook(path, pid, runtime_version=version)
        self._run_within(limits, operations.apply_startup_hook(path))

    def disable_perf_map(self) -> None:
        """Stop writing the perf map."""
        self._run(operations.disable_perf_map())

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
    ) -> TraceSession:
        """Start a session. ``providers`` is the text of ``--providers``, or values; ``duration`` (seconds, or ``"30s"``) is how long
        ``save`` records; ``drain_timeout_s`` bounds all that comes after the stop. Raises RuntimeTooOld, GrammarError.

        On a runtime that is suspended at startup nothing comes before :meth:`resume`.
        """
        from dotnetdiag.client.session import TraceSession
        from dotnetdiag.providers.durations import seconds_of

        duration_s, drain_timeout_s = seconds_of(duration), Deadline(drain_timeout_s).timeout_s
        wanted = operations.SessionConfiguration(
            providers=chosen_providers(providers),
            buffer_mb=buffer_mb,
            format=format,
            rundown_keyword=rundown_keyword,
            stackwalk=stackwalk,
            buffering_mode=buffering_mode,
            rundown_fallback=rundown_fallback,
        )
        started = self._run(operations.collect(wanted))
        stopper = self._stopper(started.connection, drain_timeout_s)
        return TraceSession(started, stopper, duration_s=duration_s, drain_timeout_s=drain_timeout_s)

    def trace_user_events(
        self, fd: int | None, providers: Iterable[Provider], *, rundown_keyword: int = 0
    ) -> UserEventsSession:
        """Have a .NET 10 on Linux write events to the kernel's tracepoints instead of a stream; every provider names its own.

        ``fd`` is ``/sys/kernel/tracing/user_events_data`` opened for reading and writing; None: opened here. The session lasts
        until it is closed. Raises RequestRefused, and sends nothing, where the kernel has no user_events.
        """
        from dotnetdiag.client.user_events import UserEventsSession, user_events_descriptor

        with user_events_descriptor(fd) as descriptor:
            started = self._run(operations.collect_user_events(tuple(providers), rundown_keyword, descriptor))
        return UserEventsSession(started, self._stopper(started.connection, CLOSE_TIMEOUT_S))

    def _run(self, operation: Operation[T], answer_timeout_s: float | None = SLOW_TIMEOUT_S) -> T:
        return self._run_within(Limits(self.timeout_s, answer_timeout_s), operation)

    def _run_within(self, limits: Limits, operation: Operation[T]) -> T:
        return run(Run(operation), self._route.dial, limits)

    def _stopper(self, stream: Stream, answer_timeout_s: float | None) -> Callable[[Run[None], Callable[[], bool]], None]:
        """What ends a session: StopTracing; of a runtime that is suspended at startup (it has sent nothing yet), closing the stream.
        A StopTracing there poisons it: the next session before ResumeRuntime kills .NET 8, 9 and 10 (ipc-protocol.md §21.1). Without it the session
        ends at its first event, and others work (measured: 8.0.33, 9.0.22, 10.0.14, NativeAOT 9, six of six each).
        """
        pid = stream.peer_pid()

        def dial(deadline: Deadline) -> Stream:
            """As the route does, for as long as somebody waits for the end."""
            slice_s = DIAL_SLICE_S
            while stream.fileno() >= 0:
                try:
                    connection = self._route.dial(Deadline(min(deadline.wait_s("no connection"), slice_s)))
                except TimedOut as error:
                    if deadline.is_over:
                        raise TimedOut("no connection", address=error.address, timeout_s=self.timeout_s) from error
                    slice_s *= 2  # dialling starts anew: on a machine that is busy it may need longer
                else:
                    if stream.fileno() >= 0:
                        return connection
                    connection.close()
            raise TransportError("the session is closed", address=stream.address)

        from dotnetdiag.transport.suspension import is_suspended

        def send_stop(stopping: Run[None], has_received: Callable[[], bool]) -> None:
            if not has_received() and (is_suspended(pid) if pid else stays_silent(stream.fileno(), has_received)):
                stream.close()
            else:
                run(stopping, dial, Limits(self.timeout_s, answer_timeout_s))

        return send_stop


def chosen_providers(providers: str | Iterable[Provider]) -> tuple[Provider, ...]:
    """The providers of a text or of values."""
    if isinstance(providers, str):
        from dotnetdiag.providers.text import parse_providers

        return parse_providers(providers)
    return tuple(providers)
