"""Named pipes over a fake of the Windows calls (``FakeWindows`` follows the documented answers of ``_winapi``)."""

from __future__ import annotations

import asyncio
import errno
import threading
from typing import Any

import pytest

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, TimedOut, TransportError, UsageError
from dotnetdiag.transport import pipes
from dotnetdiag.transport.addresses import PipeAddress
from dotnetdiag.transport.aio import AsyncStream
from dotnetdiag.transport.deadline import Deadline

NAME = PipeAddress("dotnet-diagnostic-7")
SOON, SHORT = 10.0, 0.02


class WindowsError_(OSError):
    def __init__(self, winerror: int) -> None:
        super().__init__(errno.EINVAL, f"Windows error {winerror}")
        self.winerror = winerror


class Work:
    """An overlapped operation: ``attempt`` gives a count, or None while it must wait."""

    def __init__(self, windows: FakeWindows, attempt: Any) -> None:
        self.windows, self.attempt = windows, attempt
        self.data: bytes | None = None
        self.result: tuple[int, int] | WindowsError_ | None = None
        self.event = id(self)
        with windows.changed:
            windows.works[self.event] = self
            windows.changed.notify_all()
        self.progress()

    def progress(self) -> bool:
        with self.windows.changed:
            if self.result is None:
                try:
                    count = self.attempt(self)
                    self.result = None if count is None else (count, 0)
                except WindowsError_ as exc:
                    self.result = exc
            return self.result is not None

    def GetOverlappedResult(self, wait: bool, /) -> tuple[int, int]:
        with self.windows.changed:
            assert self.windows.changed.wait_for(self.progress, SOON)
        self.windows.works.pop(self.event, None)
        if isinstance(self.result, WindowsError_):
            raise self.result
        assert self.result is not None
        return self.result

    def getbuffer(self) -> bytes | None:
        return self.data

    def cancel(self) -> None:
        with self.windows.changed:
            if not self.progress():
                self.result = (0, pipes.ERROR_OPERATION_ABORTED)
            self.windows.changed.notify_all()


class End:
    """One end of a pipe. ``space`` bytes fit into what was not read yet."""

    def __init__(self, space: int) -> None:
        self.inbox, self.space = bytearray(), space
        self.peer: End | None = None
        self.broken = False


class FakeWindows:
    def __init__(self, *, space: int = 1 << 20) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.space = space
        self.ends: dict[int, End] = {}
        self.waiting: dict[str, list[int]] = {}
        self.works: dict[int, Work] = {}
        self.flags: list[tuple[int, int]] = []
        self.busy = False
        self.denied = False
        self._next = 100

    def _handle(self) -> int:
        self._next += 4
        self.ends[self._next] = End(self.space)
        return self._next

    def CreateFile(self, name: str, access: int, share: int, sec: int, how: int, flags: int, template: int, /) -> int:
        assert (access, share, how, flags) == (0xC0000000, 0, 3, 0x40000000)
        with self.changed:
            if self.denied:
                raise WindowsError_(pipes.ERROR_ACCESS_DENIED)
            if name not in self.waiting:
                raise WindowsError_(pipes.ERROR_FILE_NOT_FOUND)
            if self.busy or not self.waiting[name]:
                raise WindowsError_(pipes.ERROR_PIPE_BUSY)
            server, client = self.waiting[name].pop(), self._handle()
            self.ends[server].peer, self.ends[client].peer = self.ends[client], self.ends[server]
            self.changed.notify_all()
            return client

    def CreateNamedPipe(
        self, name: str, how: int, mode: int, most: int, out: int, into: int, ms: int, sec: int, /
    ) -> int:
        with self.changed:
            if how & pipes.FILE_FLAG_FIRST_PIPE_INSTANCE and name in self.waiting:
                raise WindowsError_(pipes.ERROR_ACCESS_DENIED)
            self.flags.append((how, mode))
            handle = self._handle()
            self.waiting.setdefault(name, []).append(handle)
            return handle

    def ConnectNamedPipe(self, handle: int, overlapped: bool, /) -> Work:
        end = self.ends[handle]
        if end.broken:
            raise WindowsError_(pipes.ERROR_NO_DATA)  # a client came and left; the instance has to be closed
        return Work(self, lambda work: 0 if end.peer is not None else None)

    def WaitNamedPipe(self, name: str, wait_ms: int, /) -> None:
        assert 0 < wait_ms <= 86_400_000
        with self.changed:
            if not self.changed.wait_for(lambda: not self.busy, wait_ms / 1000):
                raise WindowsError_(pipes.ERROR_SEM_TIMEOUT)

    def ReadFile(self, handle: int, size: int, overlapped: bool, /) -> tuple[Work, int]:
        end = self.ends[handle]

        def attempt(work: Work) -> int | None:
            if end.inbox:
                work.data = bytes(end.inbox[:size])
                del end.inbox[:size]
                self.changed.notify_all()
                return len(work.data)
            if end.broken:
                raise WindowsError_(pipes.ERROR_BROKEN_PIPE)
            return None

        return Work(self, attempt), 997

    def WriteFile(self, handle: int, data: bytes, overlapped: bool, /) -> tuple[Work, int]:
        end = self.ends[handle]

        def attempt(work: Work) -> int | None:
            if end.broken or end.peer is None:
                raise WindowsError_(pipes.ERROR_NO_DATA)
            fits = end.peer.space - len(end.peer.inbox)
            if not fits:
                return None
            end.peer.inbox += data[:fits]
            self.changed.notify_all()
            return min(fits, len(data))

        return Work(self, attempt), 997

    def PeekNamedPipe(self, handle: int, size: int = 0, /) -> tuple[int, int]:
        if self.ends[handle].broken:
            raise WindowsError_(pipes.ERROR_BROKEN_PIPE)
        return len(self.ends[handle].inbox), 0

    def WaitForMultipleObjects(self, events: list[int], all_of_them: bool, wait_ms: int, /) -> int:
        work = self.works[events[0]]
        with self.changed:
            done = self.changed.wait_for(work.progress, wait_ms / 1000)
        return 0 if done else pipes.WAIT_TIMEOUT

    def CloseHandle(self, handle: int, /) -> None:
        with self.changed:
            end = self.ends.pop(handle)  # a second time is a KeyError
            for handles in self.waiting.values():
                if handle in handles:
                    handles.remove(handle)
            if end.peer is not None:
                end.peer.broken = True
            self.changed.notify_all()


def soon() -> Deadline:
    return Deadline(SOON)


def pair(windows: FakeWindows) -> tuple[pipes.PipeStream, Any, pipes.PipeListener]:
    listener = pipes.listen(NAME, api=windows)
    client = pipes.connect(NAME, soon(), api=windows)
    return client, listener.accept(soon()), listener


def test_bytes_travel_both_ways_and_every_handle_is_closed_once() -> None:
    windows = FakeWindows(space=1000)
    client, server, listener = pair(windows)
    data = bytes(range(256)) * 40
    received = bytearray()

    def read() -> None:
        while part := server.receive(4096, soon()):
            received.extend(part)

    reader = threading.Thread(target=read)
    reader.start()
    client.send(memoryview(data), soon())
    assert client.is_alive()
    client.close()
    client.close()
    reader.join(SOON)
    assert received == data
    assert not server.is_alive()
    with pytest.raises(ConnectionEnded):
        server.send(b"x", soon())
    server.close()
    assert server.fileno() == client.fileno() == -1
    assert not server.is_alive()
    listener.close()
    assert listener.fileno() == -1
    assert windows.ends == {}


def test_the_pipe_is_the_first_of_its_name_and_local_only() -> None:
    windows = FakeWindows()
    _, _, listener = pair(windows)
    (first, mode), (second, _) = windows.flags
    assert first & pipes.FILE_FLAG_FIRST_PIPE_INSTANCE
    assert not second & pipes.FILE_FLAG_FIRST_PIPE_INSTANCE
    assert mode == pipes.PIPE_REJECT_REMOTE_CLIENTS
    with pytest.raises(TransportError, match="somebody listens there already"):
        pipes.listen(NAME, api=windows)
    listener.close()


def test_a_wait_that_takes_too_long_is_timed_out_and_loses_nothing() -> None:
    windows = FakeWindows(space=10)
    client, server, listener = pair(windows)
    with pytest.raises(TimedOut, match="nothing arrived"):
        client.receive(10, Deadline(SHORT))
    server.send(b"late", soon())
    assert client.receive(10, soon()) == b"late"
    with pytest.raises(TimedOut, match="does not take"):
        client.send(bytes(11), Deadline(SHORT))
    with pytest.raises(TimedOut, match="nobody connected"):
        listener.accept(Deadline(SHORT))
    with pytest.raises(UsageError):
        client.receive_into(memoryview(bytearray()), soon())


def test_close_wakes_a_blocked_reader_and_a_blocked_accept() -> None:
    windows = FakeWindows()
    client, server, listener = pair(windows)
    results: list[object] = []

    def accept() -> None:
        try:
            listener.accept(Deadline(None))
        except TransportError as exc:
            results.append(str(exc))

    threads = [
        threading.Thread(target=lambda: results.append(client.receive(10, Deadline(None)))),
        threading.Thread(target=accept),
    ]
    for thread in threads:
        thread.start()
    with windows.changed:
        assert windows.changed.wait_for(lambda: len(windows.works) == 2, SOON)
    client.close()
    listener.close()
    for thread in threads:
        thread.join(SOON)
    assert b"" in results
    assert any("closed" in str(result) for result in results)
    assert client.receive(10, soon()) == b""
    with pytest.raises(TransportError, match="closed"):
        client.send(b"x", soon())
    with pytest.raises(TransportError, match="closed"):
        listener.accept(soon())
    server.close()
    assert windows.ends == {}


@pytest.mark.parametrize("left", [1, 3])
def test_a_client_that_came_and_left_costs_its_own_connection_only(left: int) -> None:
    windows = FakeWindows()
    listener = pipes.listen(NAME, api=windows)
    for _ in range(left):
        pipes.connect(NAME, soon(), api=windows).close()
        with pytest.raises(TimedOut, match="nobody connected"):
            listener.accept(Deadline(SHORT))
    client = pipes.connect(NAME, soon(), api=windows)
    server = listener.accept(soon())
    client.send(b"x", soon())
    assert server.receive(1, soon()) == b"x"
    for end in (client, server, listener):
        end.close()
    assert windows.ends == {}


def test_a_pipe_is_waited_for_in_milliseconds_and_for_a_day_at_most() -> None:
    assert pipes._wait_ms(Deadline(2.5, clock=lambda: 0), "", "") == 2500
    for timeout_s in (None, float("inf"), 30 * 86400.0):
        assert pipes._wait_ms(Deadline(timeout_s, clock=lambda: 0), "", "") == 86_400_000


def test_a_busy_pipe_is_waited_for() -> None:
    windows = FakeWindows()
    listener = pipes.listen(NAME, api=windows)
    windows.busy = True
    with pytest.raises(TimedOut, match="busy"):
        pipes.connect(NAME, Deadline(SHORT), api=windows)

    def free() -> None:
        with windows.changed:
            windows.busy = False
            windows.changed.notify_all()

    timer = threading.Timer(SHORT, free)
    timer.start()
    pipes.connect(NAME, soon(), api=windows).close()
    timer.join()
    listener.close()


def test_a_failed_connection_says_why() -> None:
    windows = FakeWindows()
    with pytest.raises(ConnectFailed, match="no such pipe") as caught:
        pipes.connect(NAME, soon(), api=windows)
    assert caught.value.errno == errno.ENOENT
    windows.denied = True
    with pytest.raises(ConnectFailed, match="permission denied") as caught:
        pipes.connect(NAME, soon(), api=windows)
    assert caught.value.errno == errno.EACCES


def test_the_async_stream_hands_a_pipe_to_a_thread() -> None:
    windows = FakeWindows()
    client, server, listener = pair(windows)

    async def work() -> None:
        stream = AsyncStream(client)
        await stream.send(b"request", soon())
        server.send(b"reply", soon())
        assert await stream.receive(100, soon()) == b"reply"
        reader = asyncio.create_task(stream.receive(100, soon()))
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # the thread has begun
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        assert stream.fileno() == -1

    asyncio.run(work())
    assert server.receive(100, soon()) == b"request"
    server.close()
    listener.close()
    with windows.changed:
        assert windows.changed.wait_for(lambda: not windows.ends, SOON), "the thread is the last one to leave"
