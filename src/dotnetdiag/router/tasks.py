"""What a router does at once: tasks, of which none outlives it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport.sockets import SocketStream


class Tasks:
    """Those that have begun and not ended. What one raises that is no DiagnosticsError is a defect, which the loop tells."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Have it done."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def begin_with(self, work: Coroutine[Any, Any, Any], *streams: SocketStream) -> asyncio.Task[Any]:
        """Streams that are the work's to close; one that is cancelled before it has begun does not."""

        def close(task: asyncio.Task[Any]) -> None:
            if task.cancelled():
                for stream in streams:
                    stream.close()

        task = self.begin(work)
        task.add_done_callback(close)
        return task

    async def end(self) -> None:
        """Cancel all, until none is left."""
        while self._tasks:
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(tuple(self._tasks))

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) and not isinstance(error, DiagnosticsError):
            task.get_loop().call_exception_handler({"message": "a defect of the router", "exception": error})
