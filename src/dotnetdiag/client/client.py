"""The synchronous client: a driver for the operations, and one method for each."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self, TypeVar
from uuid import UUID

from dotnetdiag.client.routes import PidRoute, Route, route_to
from dotnetdiag.errors import ConnectionEnded, DiagnosticsError
from dotnetdiag.ipc import operations
from dotnetdiag.ipc.choices import (
    DEFAULT_BUFFER_MB,
    DEFAULT_RUNDOWN_KEYWORD,
    BufferingMode,
    DumpFlags,
    DumpType,
    PerfMapType,
    TraceFormat,
)
from dotnetdiag.ipc.frames import Frame, FrameReader
from dotnetdiag.ipc.messages import OkReply
from dotnetdiag.ipc.operations import Answer, Ask, Drain, Operation, ProcessInformation
from dotnetdiag.transport import Deadline, Stream

if TYPE_CHECKING:
    from dotnetdiag.client.session import TraceSession
    from dotnetdiag.client.user_events import UserEventsSession
    from dotnetdiag.ipc.eventpipe import Provider
    from dotnetdiag.transport import Endpoint

T = TypeVar("T")

# The reference client waits 30 s for a connection; an answer of a healthy runtime comes in milliseconds.
TIMEOUT_S = 30.0
# A dump or the flush of a session can take minutes.
SLOW_TIMEOUT_S = 1800.0


class Client:
    """Talks to one runtime. Every call is a connection of its own, so threads may share a client.

    ``timeout_s`` bounds connecting and the answer together. After an error nothing stays open.
    """

    def __init__(self, pid: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self._route: Route = PidRoute(pid)
        self.timeout_s = timeout_s

    @classmethod
    def connect(cls, address: str, *, timeout_s: float = TIMEOUT_S) -> Client:
        """A client of the runtime at ``ADDRESS[,connect|listen]`` (``/path``, ``host:port``; ``connect`` when nothing is said).

        ``listen``: we own the socket and runtimes started with ``DOTNET_DiagnosticPorts=ADDRESS`` dial it; the client is of
        the first one that does. Close such a client, or use it in a ``with`` block. TCP beyond loopback is not listened on.
        """
        made = cls.__new__(cls)
        made._route, made.timeout_s = route_to(address), timeout_s
        return made

    @classmethod
    def at(cls, known: Sequence[Endpoint], *, timeout_s: float = TIMEOUT_S) -> Client:
        """A client of the process whose endpoints ``transport.endpoints`` has just found, best first."""
        made = cls.__new__(cls)
        made._route, made.timeout_s = PidRoute(known[0].pid, known), timeout_s
        return made

    def target_pid(self, *, timeout_s: float | None = TIMEOUT_S) -> int | None:
        """The runtime's process as this machine sees it; None where the system does not tell (TCP).

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

    def write_dump(self, path: str, dump_type: int = DumpType.FULL, flags: int = DumpFlags.NONE) -> None:
        """A dump, written by the target: the path (made absolute here) is one of its file system. Takes up to minutes."""
        self._run(operations.write_dump(os.path.abspath(path) if path else path, dump_type, flags))

    def is_suspended(self) -> bool:
        """Whether the runtime waits at startup. Starts and stops an empty session to find out."""
        return self._run(operations.is_suspended())

    def set_environment_variable(self, name: str, value: str | None) -> None:
        """Set a variable of the runtime's environment; ``None`` removes it."""
        self._run(operations.set_environment_variable(name, value))

    def attach_profiler(self, clsid: UUID, path: str, client_data: bytes = b"", *, timeout_s: float = 10.0) -> None:
        """Attach a profiler; the path is one of the target's file system."""
        self._run(operations.attach_profiler(clsid, path, client_data, round(timeout_s * 1000)))

    def startup_profiler(self, clsid: UUID, path: str) -> None:
        """Register a profiler with a runtime that is suspended at startup."""
        self._run(operations.startup_profiler(clsid, path))

    def enable_perf_map(self, perf_map_type: int = PerfMapType.ALL) -> None:
        """Write ``/tmp/perf-PID.map`` and ``/tmp/jit-PID.dump``. Refused while a .NET 8 or 9 is suspended."""
        self._run(operations.enable_perf_map(perf_map_type))

    def apply_startup_hook(self, path: str) -> None:
        """Run a managed startup hook in the target, before Main while it is suspended. The file is checked first."""
        from dotnetdiag.client.hook_file import require_usable_hook

        require_usable_hook(path, self.target_pid(timeout_s=self.timeout_s))
        self._run(operations.apply_startup_hook(path))

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
    ) -> TraceSession:
        """Start a session. ``providers`` is the text of ``--providers``, or values; ``duration`` (seconds, or ``"30s"``) is how long
        ``save`` records. Raises RuntimeTooOld, GrammarError.
        """
        from dotnetdiag.client.duration import seconds_of
        from dotnetdiag.client.session import TraceSession

        duration_s = seconds_of(duration)
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
        return TraceSession(
            started.session_id,
            started.command,
            started.connection,
            lambda: self._run(operations.stop(started.session_id)),
            duration_s=duration_s,
        )

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
        return UserEventsSession(
            started.session_id, started.connection, lambda: self._run(operations.stop(started.session_id))
        )

    # -------------------------------------------------------------------------------------------------- driver

    def _run(self, operation: Operation[T]) -> T:
        kept: list[Stream] = []
        try:
            ask = next(operation)
            while True:
                try:
                    answer = self._drain(ask) if isinstance(ask, Drain) else self._exchange(ask)
                except DiagnosticsError as error:
                    ask = operation.throw(error)
                else:
                    if answer.connection is not None:
                        kept.append(answer.connection)
                    ask = operation.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result
        except BaseException:
            for stream in kept:
                stream.close()
            raise

    def _drain(self, step: Drain) -> Answer:
        stream: Stream = step.connection
        deadline = Deadline(self.timeout_s)
        kept = bytearray()
        try:
            while data := stream.receive(1 << 16, deadline):
                kept += data[: step.limit - len(kept)]
        finally:
            stream.close()
        return Answer(reply=OkReply(), continuation=bytes(kept))

    def _exchange(self, ask: Ask) -> Answer:
        data = ask.request.pack()  # checked before a connection is made
        deadline = Deadline(SLOW_TIMEOUT_S if ask.slow else self.timeout_s)
        stream = self._route.dial(deadline)
        keep = False
        try:
            stream.send(data, deadline)
            if ask.descriptor is not None:
                stream.send_descriptor(ask.descriptor, deadline)
            reply = operations.read_reply(ask.request, _read_frame(stream, deadline))
            rest = b""
            if ask.continuation:
                rest = _read_exactly(stream, operations.continuation_bytes(reply), deadline)
            keep = ask.keep
            return Answer(reply=reply, connection=stream if keep else None, continuation=rest)
        finally:
            if not keep:
                stream.close()


def chosen_providers(providers: str | Iterable[Provider]) -> tuple[Provider, ...]:
    """The providers of a text or of values."""
    if isinstance(providers, str):
        from dotnetdiag.providers.text import parse_providers

        return parse_providers(providers)
    return tuple(providers)


def _read_frame(stream: Stream, deadline: Deadline) -> Frame:
    reader = FrameReader()
    while True:
        data = stream.receive(reader.wanted, deadline)
        if not data:
            raise ConnectionEnded("the runtime closed the connection before its answer was complete")
        frame = reader.feed(data)
        if frame is not None:
            return frame


def _read_exactly(stream: Stream, size: int, deadline: Deadline) -> bytes:
    parts: list[bytes] = []
    left = size
    while left:
        data = stream.receive(min(left, 1 << 20), deadline)
        if not data:
            raise ConnectionEnded(f"the runtime closed the connection {left} bytes before the end of its answer")
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
