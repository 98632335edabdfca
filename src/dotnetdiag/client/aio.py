"""The asyncio client: the same operations, the other driver."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar
from uuid import UUID

from dotnetdiag.client.client import SLOW_TIMEOUT_S, TIMEOUT_S, chosen_providers
from dotnetdiag.client.copying import DRAIN_TIMEOUT_S, save_stream
from dotnetdiag.client.duration import seconds_of
from dotnetdiag.client.hook_file import require_usable_hook
from dotnetdiag.client.routes_aio import AsyncPidRoute, AsyncRoute, route_to
from dotnetdiag.client.session import CHUNK, CLOSE_TIMEOUT_S
from dotnetdiag.client.user_events import user_events_descriptor
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
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.frames import Frame, FrameReader
from dotnetdiag.ipc.messages import OkReply
from dotnetdiag.ipc.operations import Answer, Ask, Drain, Operation, ProcessInformation
from dotnetdiag.transport import Deadline, Endpoint
from dotnetdiag.transport.aio import AsyncStream, sync_stream

T = TypeVar("T")


class AsyncTraceSession:
    """The stream of one session, as ``TraceSession``: iterate it; leaving the ``async with`` block stops and drains it."""

    def __init__(
        self,
        session_id: int,
        command: str,
        stream: AsyncStream,
        stop: Callable[[], Coroutine[Any, Any, None]],
        *,
        duration_s: float | None = None,
    ) -> None:
        self.session_id, self.command, self.duration_s = session_id, command, duration_s
        self.received_bytes = 0
        self._stream, self._send_stop = stream, stop
        self._stopper: asyncio.Task[None] | None = None
        self._aborted = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def stop(self) -> None:
        """Ask the runtime to end the session, and return at once; what it still has keeps coming until the stream ends."""
        if self._stopper is None:
            self._stopper = asyncio.ensure_future(self._stop())

    def abort(self) -> None:
        """As ``TraceSession.abort``."""
        self._aborted = True

    async def _stop(self) -> None:
        try:
            await self._send_stop()
        except DiagnosticsError:
            pass  # the target may be gone; the stream's end tells the same

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def read(self, size: int = CHUNK, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> bytes:
        """The next 1..size bytes; ``b""`` when the session has ended. Raises TimedOut."""
        data = await self._stream.receive(size, Deadline(timeout_s))
        self.received_bytes += len(data)
        return data

    async def save(
        self,
        path: str | Path,
        *,
        duration: float | str | None = None,
        progress: Callable[[int], None] | None = None,
        tee: Callable[[memoryview], None] | None = None,
    ) -> int:
        """As ``TraceSession.save``; a thread moves the bytes and calls ``tee``. Cancelling leaves a file that holds all that arrived."""
        loop, cancelled = asyncio.get_running_loop(), threading.Event()

        def stop() -> None:
            loop.call_soon_threadsafe(self.stop)

        def report(size_bytes: int) -> None:
            if progress is not None:
                loop.call_soon_threadsafe(progress, size_bytes)

        work = asyncio.ensure_future(
            asyncio.to_thread(
                save_stream,
                sync_stream(self._stream),
                path,
                duration_s=seconds_of(duration) if duration is not None else self.duration_s,
                stop=stop,
                is_stopping=lambda: self._stopper is not None,
                progress=report,
                is_cancelled=lambda: self._aborted or cancelled.is_set(),
                tee=tee,
            )
        )
        try:
            written = await asyncio.shield(work)
        except asyncio.CancelledError:
            cancelled.set()
            await asyncio.wait([work])
            raise
        self.received_bytes += written
        return written

    async def aclose(self) -> None:
        """Stop, read to the end without keeping it, and close. Never raises for a target that is gone."""
        try:
            if not self._aborted:
                self.stop()
                while await self._stream.receive(CHUNK, Deadline(CLOSE_TIMEOUT_S)):
                    pass
        except DiagnosticsError:
            pass  # the target stopped answering: closing the connection ends the session there
        finally:
            await self._stream.close()
            if self._stopper is not None:
                await asyncio.wait([self._stopper], timeout=CLOSE_TIMEOUT_S)


class AsyncUserEventsSession:
    """As ``UserEventsSession``."""

    def __init__(self, session_id: int, stream: AsyncStream, stop: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.session_id = session_id
        self._stream, self._stop = stream, stop
        self._open = True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def is_alive(self) -> bool:
        """Whether the runtime still holds its end."""
        return self._open and self._stream.is_alive()

    async def aclose(self) -> None:
        """As ``UserEventsSession.close``."""
        if not self._open:
            return
        self._open = False
        try:
            await self._stop()
        except DiagnosticsError:
            pass  # as in UserEventsSession
        finally:
            await self._stream.close()


class AsyncClient:
    """``Client`` for asyncio: the same methods, awaited."""

    def __init__(self, pid: int, *, timeout_s: float = TIMEOUT_S) -> None:
        self._route: AsyncRoute = AsyncPidRoute(pid)
        self.timeout_s = timeout_s

    @classmethod
    def connect(cls, address: str, *, timeout_s: float = TIMEOUT_S) -> AsyncClient:
        """As ``Client.connect``; with ``listen`` the port is made at the first call."""
        made = cls.__new__(cls)
        made._route, made.timeout_s = route_to(address), timeout_s
        return made

    @classmethod
    def at(cls, known: Sequence[Endpoint], *, timeout_s: float = TIMEOUT_S) -> AsyncClient:
        """As ``Client.at``."""
        made = cls.__new__(cls)
        made._route, made.timeout_s = AsyncPidRoute(known[0].pid, known), timeout_s
        return made

    async def target_pid(self, *, timeout_s: float | None = TIMEOUT_S) -> int | None:
        """As ``Client.target_pid``."""
        return await self._route.target_pid(Deadline(timeout_s))

    async def aclose(self) -> None:
        """As ``Client.close``."""
        await self._route.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def process_info(self) -> ProcessInformation:
        """As ``Client.process_info``."""
        return await self._run(operations.process_info())

    async def environment(self) -> dict[str, str]:
        """As ``Client.environment``."""
        return await self._run(operations.environment())

    async def resume(self) -> None:
        """As ``Client.resume``."""
        await self._run(operations.resume())

    async def write_dump(self, path: str, dump_type: int = DumpType.FULL, flags: int = DumpFlags.NONE) -> None:
        """As ``Client.write_dump``."""
        await self._run(operations.write_dump(os.path.abspath(path) if path else path, dump_type, flags))

    async def is_suspended(self) -> bool:
        """As ``Client.is_suspended``."""
        return await self._run(operations.is_suspended())

    async def set_environment_variable(self, name: str, value: str | None) -> None:
        """As ``Client.set_environment_variable``."""
        await self._run(operations.set_environment_variable(name, value))

    async def attach_profiler(
        self, clsid: UUID, path: str, client_data: bytes = b"", *, timeout_s: float = 10.0
    ) -> None:
        """As ``Client.attach_profiler``."""
        await self._run(operations.attach_profiler(clsid, path, client_data, round(timeout_s * 1000)))

    async def startup_profiler(self, clsid: UUID, path: str) -> None:
        """As ``Client.startup_profiler``."""
        await self._run(operations.startup_profiler(clsid, path))

    async def enable_perf_map(self, perf_map_type: int = PerfMapType.ALL) -> None:
        """As ``Client.enable_perf_map``."""
        await self._run(operations.enable_perf_map(perf_map_type))

    async def disable_perf_map(self) -> None:
        """As ``Client.disable_perf_map``."""
        await self._run(operations.disable_perf_map())

    async def apply_startup_hook(self, path: str) -> None:
        """As ``Client.apply_startup_hook``."""
        require_usable_hook(path, await self.target_pid(timeout_s=self.timeout_s))
        await self._run(operations.apply_startup_hook(path))

    async def trace(
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
    ) -> AsyncTraceSession:
        """As ``Client.trace``."""
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
        started = await self._run(operations.collect(wanted))
        return AsyncTraceSession(
            started.session_id,
            started.command,
            started.connection,
            lambda: self._run(operations.stop(started.session_id)),
            duration_s=duration_s,
        )

    async def trace_user_events(
        self, fd: int | None, providers: Iterable[Provider], *, rundown_keyword: int = 0
    ) -> AsyncUserEventsSession:
        """As ``Client.trace_user_events``."""
        with user_events_descriptor(fd) as descriptor:
            started = await self._run(operations.collect_user_events(tuple(providers), rundown_keyword, descriptor))
        return AsyncUserEventsSession(
            started.session_id, started.connection, lambda: self._run(operations.stop(started.session_id))
        )

    # -------------------------------------------------------------------------------------------------- driver

    async def _run(self, operation: Operation[T]) -> T:
        kept: list[AsyncStream] = []
        try:
            ask = next(operation)
            while True:
                try:
                    answer = await (self._drain(ask) if isinstance(ask, Drain) else self._exchange(ask))
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
                await stream.close()
            raise

    async def _drain(self, step: Drain) -> Answer:
        stream: AsyncStream = step.connection
        deadline = Deadline(self.timeout_s)
        kept = bytearray()
        try:
            while data := await stream.receive(1 << 16, deadline):
                kept += data[: step.limit - len(kept)]
        finally:
            await stream.close()
        return Answer(reply=OkReply(), continuation=bytes(kept))

    async def _exchange(self, ask: Ask) -> Answer:
        data = ask.request.pack()  # checked before a connection is made
        deadline = Deadline(SLOW_TIMEOUT_S if ask.slow else self.timeout_s)
        stream = await self._route.dial(deadline)
        keep = False
        try:
            await stream.send(data, deadline)
            if ask.descriptor is not None:
                await stream.send_descriptor(ask.descriptor, deadline)
            reply = operations.read_reply(ask.request, await _read_frame(stream, deadline))
            rest = b""
            if ask.continuation:
                rest = await _read_exactly(stream, operations.continuation_bytes(reply), deadline)
            keep = ask.keep
            return Answer(reply=reply, connection=stream if keep else None, continuation=rest)
        finally:
            if not keep:
                await stream.close()


async def _read_frame(stream: AsyncStream, deadline: Deadline) -> Frame:
    reader = FrameReader()
    while True:
        data = await stream.receive(reader.wanted, deadline)
        if not data:
            raise ConnectionEnded("the runtime closed the connection before its answer was complete")
        frame = reader.feed(data)
        if frame is not None:
            return frame


async def _read_exactly(stream: AsyncStream, size: int, deadline: Deadline) -> bytes:
    parts: list[bytes] = []
    left = size
    while left:
        data = await stream.receive(min(left, 1 << 20), deadline)
        if not data:
            raise ConnectionEnded(f"the runtime closed the connection {left} bytes before the end of its answer")
        parts.append(data)
        left -= len(data)
    return b"".join(parts)
