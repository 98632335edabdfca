"""The sessions of the asyncio client. What they decide is in ``ipc`` and ``client.progress``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from dotnetdiag.client.limits import CLOSE_TIMEOUT_S, DRAIN_TIMEOUT_S
from dotnetdiag.client.progress import TICK_S, Followed
from dotnetdiag.client.saving import save_stream
from dotnetdiag.client.session import CHUNK, STOPPER_EXIT_S
from dotnetdiag.errors import DiagnosticsError, ServerError, TransportError
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.operations.sessions import StartedSession
from dotnetdiag.providers.durations import seconds_of
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.aio import sync_stream
from dotnetdiag.transport.deadline import LONGEST_WAIT_S
from dotnetdiag.transport.streams import receive_buffer


class AsyncTraceSession(Followed):
    """The stream of one session, as ``TraceSession``: iterate it; leaving the ``async with`` block stops and drains it."""

    def __init__(
        self,
        started: StartedSession,
        perform: Callable[[Run[None]], Awaitable[None]],
        *,
        duration_s: float | None = None,
        drain_timeout_s: float | None = DRAIN_TIMEOUT_S,
    ) -> None:
        self._follow(started, drain_timeout_s)
        self.command, self.duration_s, self._perform = started.command, duration_s, perform
        self._loop = asyncio.get_running_loop()
        self._stopper: asyncio.Task[None] | None = None
        self._is_released = False
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
            await self._perform(Run(self._end()))
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


class AsyncUserEventsSession(Followed):
    """As ``UserEventsSession``."""

    def __init__(self, started: StartedSession, perform: Callable[[Run[None]], Awaitable[None]]) -> None:
        self._follow(started, None)
        self._perform = perform

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @property
    def is_alive(self) -> bool:
        """Whether the runtime still holds its end."""
        return not self._progress.is_over and bool(self._stream.is_alive())

    async def aclose(self) -> None:
        """As ``UserEventsSession.close``."""
        if not self._progress.claim_stop():
            return
        try:
            await self._perform(Run(self._end()))
            self._progress.ended_without_stream(None)
        except DiagnosticsError as error:
            self._progress.ended_without_stream(error)
        finally:
            await self._stream.close()
