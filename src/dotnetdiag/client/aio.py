"""The asyncio client and its sessions: the same operations, awaited. What they decide is in ``ipc`` and ``client.progress``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self, TypeVar
from uuid import UUID

from dotnetdiag.client.arguments import absolute_path, milliseconds
from dotnetdiag.client.client import chosen_providers
from dotnetdiag.client.hook_file import require_usable_hook
from dotnetdiag.client.limits import CLOSE_TIMEOUT_S, DRAIN_TIMEOUT_S, SLOW_TIMEOUT_S, TIMEOUT_S, Limits, stays_silent
from dotnetdiag.client.progress import TICK_S, Followed, SessionProgress
from dotnetdiag.client.routes_aio import AsyncPidRoute, AsyncRoute, route_to
from dotnetdiag.client.running import run_async
from dotnetdiag.client.saving import save_stream
from dotnetdiag.client.session import CHUNK, STOPPER_EXIT_S
from dotnetdiag.client.user_events import user_events_descriptor
from dotnetdiag.errors import DiagnosticsError, ServerError, TransportError
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
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.exchange import Operation, Run
from dotnetdiag.ipc.operations import ProcessInformation, StartedSession
from dotnetdiag.providers.durations import seconds_of
from dotnetdiag.transport import Deadline, Endpoint, is_suspended
from dotnetdiag.transport.aio import AsyncStream, in_thread, sync_stream
from dotnetdiag.transport.deadline import LONGEST_WAIT_S
from dotnetdiag.transport.streams import receive_buffer

T = TypeVar("T")


class AsyncTraceSession(Followed):
    """The stream of one session, as ``TraceSession``: iterate it; leaving the ``async with`` block stops and drains it."""

    def __init__(
        self,
        started: StartedSession,
        send_stop: Callable[[Run[None], Callable[[], bool]], Awaitable[None]],
        *,
        duration_s: float | None = None,
        drain_timeout_s: float | None = DRAIN_TIMEOUT_S,
    ) -> None:
        self.session_id, self.command, self.duration_s = started.session_id, started.command, duration_s
        self._stream: AsyncStream = started.connection
        self._send_stop = send_stop
        self._loop = asyncio.get_running_loop()
        self._stopper: asyncio.Task[None] | None = None
        self._is_released = False
        self._progress = SessionProgress(drain_timeout_s, self._stream.address)
        self._saving: asyncio.Future[int] | None = None
        self._reading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self.aclose()
        except DiagnosticsError:
            if kind is None:
                raise

    def stop(self) -> None:
        """As ``TraceSession.stop``: also from other threads and from signal handlers."""
        if self._progress.claim_stop():
            try:
                self._loop.call_soon_threadsafe(
                    self._begin_stop
                )  # also wakes a loop that a signal handler has interrupted
            except RuntimeError as error:  # the loop is closed
                self._progress.stop_ended(TransportError(f"StopTracing was not sent: {error}"))

    def _begin_stop(self) -> None:
        if not self._is_released:
            self._stopper = self._loop.create_task(self._stop())

    def abort(self) -> None:
        """As ``TraceSession.abort``."""
        self._progress.abort()

    async def _stop(self) -> None:
        try:
            await self._send_stop(Run(operations.stop(self.session_id)), lambda: bool(self.received_bytes))
        except DiagnosticsError as error:
            self._progress.stop_ended(error)
        else:
            self._progress.stop_ended(None)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def read(self, size: int = CHUNK, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> bytes:
        """As ``TraceSession.read``."""
        view = receive_buffer(size)
        return bytes(view[: await self._receive_into(view, Deadline(timeout_s))])

    async def _receive_into(self, view: memoryview, deadline: Deadline) -> int:
        while not self._progress.is_over:
            try:
                async with self._reading:  # two who read take turns
                    wait = self._progress.next_wait(deadline)
                    if wait is not None:
                        return self._progress.arrived(await self._stream.receive_into(view, wait))
            except DiagnosticsError as error:
                if self._progress.is_over:
                    raise
                self._progress.failed(error, deadline)
            finally:
                if self._progress.is_over:
                    await self._stream.close()
        return 0

    async def save(
        self,
        path: str | Path,
        *,
        duration: float | str | None = None,
        progress: Callable[[int], None] | None = None,
        tee: Callable[[memoryview], None] | None = None,
    ) -> int:
        """As ``TraceSession.save``; a thread moves the bytes and calls ``tee``. Cancelling leaves a file that holds all that arrived."""
        duration_s = seconds_of(duration) if duration is not None else self.duration_s
        failures: list[BaseException] = []

        def tell(size_bytes: int) -> None:
            try:
                if progress is not None and not failures:
                    progress(size_bytes)
            except BaseException as error:
                failures.append(error)

        def report(size_bytes: int) -> None:
            if failures:
                raise failures[0]
            self._loop.call_soon_threadsafe(tell, size_bytes)

        def work() -> int:
            stream = sync_stream(self._stream)
            return save_stream(
                self._progress, stream, path, duration_s=duration_s, stop=self.stop, report=report, tee=tee
            )

        # a thread of its own: there may be more recordings than the loop's pool has threads, and it is needed to stop them
        thread = ThreadPoolExecutor(1, "dotnetdiag save")
        saving = self._saving = self._loop.run_in_executor(thread, work)
        try:
            size_bytes = await asyncio.shield(saving)
        except asyncio.CancelledError:
            self.abort()
            await asyncio.wait([saving])
            if not saving.cancelled():
                saving.exception()  # the cancellation matters more
            raise
        finally:
            thread.shutdown(wait=saving.done())
        if failures:
            raise failures[0]
        return size_bytes

    async def aclose(self, *, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """As ``TraceSession.close``."""
        try:
            if not self._progress.is_over:
                if not self._progress.is_aborted:
                    self.stop()
                self._progress.limit_drain(timeout_s)
                if self._saving is not None and not self._saving.done():  # it gets all that comes
                    await asyncio.wait([self._saving], timeout=min(timeout_s, LONGEST_WAIT_S) + 2 * TICK_S)
                scratch = memoryview(bytearray(CHUNK))
                while await self._receive_into(scratch, Deadline(None)):
                    pass
        except ServerError:
            raise
        except DiagnosticsError:
            pass  # it is in `problem`
        finally:
            await self._release()

    async def _release(self) -> None:
        """Leave no connection and no task behind."""
        await self._stream.close()
        self._is_released = True
        if self._stopper is not None:
            try:
                await asyncio.wait([self._stopper], timeout=0 if self._progress.is_aborted else STOPPER_EXIT_S)
            finally:
                self._stopper.cancel()
            await asyncio.wait([self._stopper])


class AsyncUserEventsSession:
    """As ``UserEventsSession``."""

    def __init__(self, started: StartedSession, send_stop: Callable[[Run[None], Callable[[], bool]], Awaitable[None]]) -> None:
        self.session_id = started.session_id
        self._stream: AsyncStream = started.connection
        self._send_stop = send_stop
        self._progress = SessionProgress(None, self._stream.address)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def is_alive(self) -> bool:
        """Whether the runtime still holds its end."""
        return not self._progress.is_over and self._stream.is_alive()

    @property
    def problem(self) -> DiagnosticsError | None:
        """As ``UserEventsSession.problem``."""
        return self._progress.problem

    async def aclose(self) -> None:
        """As ``UserEventsSession.close``."""
        if not self._progress.claim_stop():
            return
        try:
            await self._send_stop(Run(operations.stop(self.session_id)), lambda: False)
            self._progress.ended_without_stream(None)
        except DiagnosticsError as error:
            self._progress.ended_without_stream(error)
        finally:
            await self._stream.close()


class AsyncClient:
    """``Client`` for asyncio: the same methods, awaited."""

    def __init__(self, target: int | AsyncRoute, *, timeout_s: float = TIMEOUT_S) -> None:
        self._route: AsyncRoute = AsyncPidRoute(target) if isinstance(target, int) else target
        self.timeout_s = timeout_s

    @classmethod
    def connect(cls, address: str, *, timeout_s: float = TIMEOUT_S) -> Self:
        """As ``Client.connect``; with ``listen`` the port is made at the first call."""
        return cls(route_to(address), timeout_s=timeout_s)

    @classmethod
    def at(cls, known: Sequence[Endpoint], *, timeout_s: float = TIMEOUT_S) -> Self:
        """As ``Client.at``."""
        return cls(AsyncPidRoute(known[0].pid, known), timeout_s=timeout_s)

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

    async def write_dump(
        self,
        path: str,
        dump_type: int = DumpType.FULL,
        flags: int = DumpFlags.NONE,
        *,
        answer_timeout_s: float | None = SLOW_TIMEOUT_S,
    ) -> None:
        """As ``Client.write_dump``."""
        await self._run(operations.write_dump(absolute_path(path), dump_type, flags), answer_timeout_s)

    async def is_suspended(self) -> bool | None:
        """As ``Client.is_suspended``."""
        return await self._is_suspended(Deadline(self.timeout_s))

    async def _is_suspended(self, deadline: Deadline) -> bool | None:
        pid = await self._route.target_pid(deadline)
        if pid is None:
            return None
        left_s = deadline.wait_s()
        return await in_thread(lambda: is_suspended(pid, timeout_s=left_s))

    async def set_environment_variable(self, name: str, value: str | None) -> None:
        """As ``Client.set_environment_variable``."""
        await self._run(operations.set_environment_variable(name, value))

    async def attach_profiler(
        self,
        clsid: UUID,
        path: str,
        client_data: bytes = b"",
        *,
        timeout_s: float = 10.0,
        answer_timeout_s: float | None = SLOW_TIMEOUT_S,
    ) -> None:
        """As ``Client.attach_profiler``."""
        operation = operations.attach_profiler(clsid, path, client_data, milliseconds(timeout_s))
        await self._run(operation, answer_timeout_s)

    async def startup_profiler(self, clsid: UUID, path: str) -> None:
        """As ``Client.startup_profiler``."""
        await self._run(operations.startup_profiler(clsid, path))

    async def enable_perf_map(self, perf_map_type: int = PerfMapType.ALL) -> None:
        """As ``Client.enable_perf_map``."""
        limits = Limits(self.timeout_s, SLOW_TIMEOUT_S)
        await self._run_within(
            limits, operations.enable_perf_map(perf_map_type, await self._is_suspended(limits.quick))
        )

    async def disable_perf_map(self) -> None:
        """As ``Client.disable_perf_map``."""
        await self._run(operations.disable_perf_map())

    async def apply_startup_hook(self, path: str, *, answer_timeout_s: float | None = SLOW_TIMEOUT_S) -> None:
        """As ``Client.apply_startup_hook``."""
        limits = Limits(self.timeout_s, answer_timeout_s)
        pid = await self._route.target_pid(limits.quick)
        await in_thread(lambda: require_usable_hook(path, pid))
        version = await self._run_within(limits, operations.runtime_version())
        await in_thread(lambda: require_usable_hook(path, pid, runtime_version=version))
        await self._run_within(limits, operations.apply_startup_hook(path))

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
        drain_timeout_s: float | None = DRAIN_TIMEOUT_S,
    ) -> AsyncTraceSession:
        """As ``Client.trace``."""
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
        started = await self._run(operations.collect(wanted))
        stopper = self._stopper(started.connection, drain_timeout_s)
        return AsyncTraceSession(started, stopper, duration_s=duration_s, drain_timeout_s=drain_timeout_s)

    async def trace_user_events(
        self, fd: int | None, providers: Iterable[Provider], *, rundown_keyword: int = 0
    ) -> AsyncUserEventsSession:
        """As ``Client.trace_user_events``."""
        with user_events_descriptor(fd) as descriptor:
            started = await self._run(operations.collect_user_events(tuple(providers), rundown_keyword, descriptor))
        return AsyncUserEventsSession(started, self._stopper(started.connection, CLOSE_TIMEOUT_S))

    async def _run(self, operation: Operation[T], answer_timeout_s: float | None = SLOW_TIMEOUT_S) -> T:
        return await self._run_within(Limits(self.timeout_s, answer_timeout_s), operation)

    async def _run_within(self, limits: Limits, operation: Operation[T]) -> T:
        return await run_async(Run(operation), self._route.dial, limits)

    def _stopper(self, stream: AsyncStream, answer_timeout_s: float | None) -> Callable[[Run[None], Callable[[], bool]], Awaitable[None]]:
        """As of ``Client``."""
        pid = stream.peer_pid()

        def is_waiting(has_received: Callable[[], bool]) -> bool:
            return bool(is_suspended(pid) if pid else stays_silent(stream.fileno(), has_received))

        async def send_stop(stopping: Run[None], has_received: Callable[[], bool]) -> None:
            if not has_received() and await in_thread(lambda: is_waiting(has_received)):
                await stream.close()
            else:
                await run_async(stopping, self._route.dial, Limits(self.timeout_s, answer_timeout_s))

        return send_stop
