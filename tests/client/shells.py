"""Both shells by the same test body: ``stage.client(address)`` is a ``Client``, or an ``AsyncClient`` that is called like one.

The asyncio twin lives on a loop in a thread; each call is awaited there while the caller waits for its result. At the end of every
test nothing may be left of either: no descriptor, no thread (also none that ``threading`` does not know), no task, no connection.
"""

from __future__ import annotations

import _thread
import asyncio
import inspect
import os
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from tests.client.scripted import PATIENCE_S, RUNTIME_DESCRIPTORS, RUNTIME_THREADS, ScriptedRuntime, eventually
from tests.descriptors import descriptors

from dotnetdiag.client import Client
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.server import RuntimeServer
from dotnetdiag.client.server_aio import AsyncConnectedRuntime, AsyncRuntimeServer
from dotnetdiag.client.session_aio import AsyncTraceSession, AsyncUserEventsSession
from dotnetdiag.ipc.commands import Command
from dotnetdiag.testing import Script

T = TypeVar("T")


class Shell(Protocol):
    """One of the two."""

    name: str

    def client(self, address: str, timeout_s: float) -> Any: ...
    def server(self, address: str, timeout_s: float) -> Any: ...
    def wrap(self, client: Any) -> Any: ...
    def tasks(self) -> int: ...
    def close(self) -> None: ...


class SyncShell:
    """``Client`` as it is."""

    name = "sync"

    def client(self, address: str, timeout_s: float) -> Any:
        return Client.connect(address, timeout_s=timeout_s)

    def server(self, address: str, timeout_s: float) -> Any:
        return RuntimeServer(address, timeout_s=timeout_s)

    def wrap(self, client: Any) -> Any:
        return client

    def tasks(self) -> int:
        return 0

    def close(self) -> None:
        pass


class AsyncShell:
    """``AsyncClient`` behind the interface of ``Client``."""

    name = "async"

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.complaints: list[str] = []
        self.loop.set_exception_handler(lambda _, context: self.complaints.append(str(context)))
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop")
        self._thread.start()

    def client(self, address: str, timeout_s: float) -> Any:
        return Twin(self, AsyncClient.connect(address, timeout_s=timeout_s))

    def server(self, address: str, timeout_s: float) -> Any:
        return Twin(self, AsyncRuntimeServer(address, timeout_s=timeout_s))

    def wrap(self, client: Any) -> Any:
        return Twin(self, client)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        async def work() -> Any:
            result = function(*arguments, **options)
            return await result if inspect.isawaitable(result) else result

        return asyncio.run_coroutine_threadsafe(work(), self.loop).result()

    def tasks(self) -> int:
        async def count() -> int:
            return len(asyncio.all_tasks()) - 1

        return asyncio.run_coroutine_threadsafe(count(), self.loop).result(PATIENCE_S)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.loop.shutdown_default_executor(), self.loop).result(PATIENCE_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()
        assert not self.complaints, self.complaints


_WITH_TWINS = (AsyncClient, AsyncConnectedRuntime, AsyncTraceSession, AsyncUserEventsSession)


class Twin:
    """An asyncio object whose methods wait for their results, under the names of the synchronous one."""

    def __init__(self, shell: AsyncShell, inner: Any) -> None:
        self._shell, self.inner = shell, inner

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.inner, "aclose" if name == "close" else name)
        if not inspect.isroutine(value):
            return self._twin(self._shell.call(lambda: value))
        return lambda *arguments, **options: self._twin(self._shell.call(value, *arguments, **options))

    def _twin(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(self._twin, value))
        return Twin(self._shell, value) if isinstance(value, _WITH_TWINS) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Twin) and self.inner is other.inner

    def __hash__(self) -> int:
        return hash(self.inner)

    def __repr__(self) -> str:
        return repr(self.inner)

    def __enter__(self) -> Twin:
        self._shell.call(self.inner.__aenter__)
        return self

    def __exit__(self, *error: Any) -> None:
        self._shell.call(self.inner.__aexit__, *error)

    def __iter__(self) -> Iterator[Any]:
        pieces = self.inner.__aiter__()
        while True:
            try:
                yield self._twin(self._shell.call(pieces.__anext__))
            except StopAsyncIteration:
                return


SHELLS: dict[str, Callable[[], Shell]] = {"sync": SyncShell, "async": AsyncShell}


class Stage:
    """A shell, the runtimes that it meets, and what there was before them."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder = folder
        self.shell = SHELLS[kind]()
        self.runtimes: list[ScriptedRuntime] = []
        self._before = _descriptors(), _threads()

    @property
    def is_async(self) -> bool:
        return isinstance(self.shell, AsyncShell)

    def runtime(self, scripts: Mapping[Command, Script] | Script, *, leaves_unread: bool = False) -> ScriptedRuntime:
        runtime = ScriptedRuntime(self.folder / str(len(self.runtimes)), scripts, leaves_unread=leaves_unread)
        self.runtimes.append(runtime)
        return runtime

    def client(self, where: ScriptedRuntime | str, *, timeout_s: float = 5.0) -> Any:
        """A client of the runtime, or of an address."""
        return self.shell.client(where if isinstance(where, str) else str(where.path), timeout_s)

    def server(self, address: str, *, timeout_s: float = 5.0) -> Any:
        """A server for runtimes that dial."""
        return self.shell.server(address, timeout_s)

    def check(self) -> None:
        """That nothing is left. The runtimes are still there: it is not they who ended it."""
        for runtime in self.runtimes:
            eventually(runtime.is_idle, f"a connection was left open: {runtime.asked}")
        eventually(lambda: not self.shell.tasks(), "a task was left")
        count = len(self.runtimes)
        wanted = self._before[0] + count * RUNTIME_DESCRIPTORS, self._before[1] + count * RUNTIME_THREADS
        # fewer: what the garbage of a test that failed held
        eventually(lambda: _threads() <= wanted[1], f"threads: {[thread.name for thread in threading.enumerate()]}")
        assert _descriptors() <= wanted[0] or descriptors() <= wanted[0], "descriptors"

    def close(self) -> None:
        for runtime in self.runtimes:
            runtime.close()
        self.shell.close()


def _descriptors() -> int:
    """With those of garbage: collecting it takes longer than most tests."""
    return len(os.listdir("/proc/self/fd"))


def _threads() -> int:
    """All that Python has started, but for those that an event loop keeps for its work."""
    return _thread._count() - sum(thread.name.startswith("asyncio_") for thread in threading.enumerate())


class Act(threading.Thread):
    """Something that must end. ``result`` is what it gave, or raises what it raised."""

    def __init__(self, act: Callable[[], Any], name: str = "act") -> None:
        super().__init__(daemon=True, name=name)
        self._act, self._value = act, None
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._value = self._act()
        except BaseException as error:
            self.error = error

    def finish(self) -> Act:
        """Wait for its end; what raised is in ``error``."""
        self.join(PATIENCE_S)
        if self.is_alive():
            frame = sys._current_frames().get(self.ident or 0)
            where = "".join(traceback.format_stack(frame)) if frame is not None else ""
            raise AssertionError(f"{self.name} hangs:\n{where}")
        return self

    def result(self) -> Any:
        self.finish()
        if self.error is not None:
            raise self.error
        return self._value


def within_limits(act: Callable[[], T]) -> T:
    """What ``act`` gives; it must not hang."""
    result: T = Act(act).result()
    return result
