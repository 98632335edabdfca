"""The sessions of the asyncio client. What they decide is in ``ipc`` and ``client.progress``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

from dotnetdiag.client.limits import CLOSE_TIMEOUT_S, DRAIN_TIMEOUT_S
from dotnetdiag.client.saving import save_stream
from dotnetdiag.client.session import CHUNK, STOPPER_EXIT_S, StreamedSession
from dotnetdiag.client.user_events import UserEvents
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, ServerError
from dotnetdiag.ipc.exchange import Run
from dotnetdiag.ipc.operations.sessions import StartedSession
from dotnetdiag.transport import Deadline
from dotnetdiag.transport.aio import begin_in_thread, sync_stream
from dotnetdiag.transport.deadline import LONGEST_WAIT_S
from dotnetdiag.transport.streams import receive_buffer
from dotnetdiag.transport.waiting import result_of


class AsyncTraceSession(StreamedSession):
    """The stream of one session, as ``TraceSession``: iterate it; leaving the ``async with`` block stops and drains it."""

    def __init__(self, started: StartedSession, perform: Callable[[Run[None]], Awaitable[Any]], **options: Any) -> None:
        super().__init__(started, perform, **options)
        self._loop = asyncio.get_running_loop()
        self._stopper: asyncio.Task[None] | None = None
        self._reading = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            await self.aclose()
        except DiagnosticsError:
            if kind is None:
                raise

    def _begin_stop(self) -> None:
        self._loop.call_soon_threadsafe(self._start_stopper)  # also wakes a loop that a signal handler has interrupted

    def _start_stopper(self) -> None:
        if self._stream.fileno() >= 0:
            self._stopper = self._loop.create_task(self._stop())

    async def _stop(self) -> None:
        with self._progress.outcome_of_stop():
            await self._perform(Run(self._end()))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self.read():
            yield data

    async def read(self, size: int = CHUNK, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> bytes:
        """As ``TraceSession.read``."""
        view = receive_buffer(size)
        return bytes(view[: await self.read_into(view, timeout_s=timeout_s)])

    async def read_into(self, view: memoryview, *, timeout_s: float | None = DRAIN_TIMEOUT_S) -> int:
        """As ``TraceSession.read_into``."""
        deadline = Deadline(timeout_s)
        async with self._turn(timeout_s):
            return await self._receive_into(view, deadline)

    @asynccontextmanager
    async def _turn(self, timeout_s: float | None) -> AsyncIterator[None]:
        """Who reads, reads alone. Raises TimedOut when another task does for so long."""
        try:
            async with asyncio.timeout(None if timeout_s is None else min(timeout_s, LONGEST_WAIT_S)):
                await self._reading.acquire()
        except TimeoutError:
            raise self._not_our_turn(timeout_s) from None
        try:
            yield
        finally:
            self._reading.release()

    async def _receive_into(self, view: memoryview, deadline: Deadline) -> int:
        while not self._progress.is_over:
            try:
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
        path: str | Path | int,
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

        stream = sync_stream(self._stream)
        work = partial(
            save_stream, self._progress, stream, path, duration_s=duration_s, stop=self.stop, report=report, tee=tee
        )
        async with self._turn(CLOSE_TIMEOUT_S):
            # a thread of its own: there may be more recordings than the loop's pool has threads, and it is needed to stop them
            saving = asyncio.wrap_future(begin_in_thread(work))
            try:
                size_bytes = result_of(await asyncio.shield(saving))
            except asyncio.CancelledError:
                self.abort()
                await asyncio.wait([saving])
                raise
        if failures:
            raise failures[0]
        return size_bytes

    async def aclose(self, *, timeout_s: float = CLOSE_TIMEOUT_S) -> None:
        """As ``TraceSession.close``."""
        if self._is_inherited(sync_stream(self._stream)):  # the loop, which would be told, is the parent's too
            return
        turn_s = self._begin_close(timeout_s)
        try:
            async with self._turn(turn_s):
                scratch = memoryview(bytearray(CHUNK))
                while await self._receive_into(scratch, Deadline(None)):
                    pass
        except DiagnosticsError as error:
            if isinstance(error, ServerError):
                raise  # others are in `problem`
        finally:
            await self._release()

    async def _release(self) -> None:
        """Leave no connection and no task behind."""
        await self._stream.close()
        if self._stopper is not None:
            try:
                await asyncio.wait([self._stopper], timeout=0 if self._progress.is_aborted else STOPPER_EXIT_S)
            finally:
                self._stopper.cancel()
            await asyncio.wait([self._stopper])


class AsyncUserEventsSession(UserEvents):
    """As ``UserEventsSession``."""

    def __init__(
        self, started: StartedSession, perform: Callable[[Run[None]], Awaitable[None]], **options: Any
    ) -> None:
        super().__init__(started, perform, **options)
        self._closing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """As ``UserEventsSession.close``."""
        if self._is_inherited(sync_stream(self._stream)):
            return
        async with self._closing:
            if self._progress.claim_stop():
                try:
                    with self._progress.outcome_of_stop():
                        await self._perform(Run(self._end()))
                finally:
                    self._progress.ended_without_stream()
                    await self._stream.close()
