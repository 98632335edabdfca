"""Sync and async streams, by the same sentences: ``Pair`` drives either kind."""

from __future__ import annotations

import asyncio
import errno
import inspect
import math
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.transport import aio_listening

from dotnetdiag.errors import ConnectFailed, ConnectionEnded, TimedOut, TransportError, UsageError
from dotnetdiag.transport import aio, connecting, listening, sockets, streams
from dotnetdiag.transport.addresses import Address, PipeAddress, TcpAddress, UnixAddress
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.kernels import COMPILED
from dotnetdiag.transport.sockets import SocketStream

pytestmark = pytest.mark.usefixtures("no_leaks")

SOON = 10.0
SHORT = 0.02


def soon() -> Deadline:
    return Deadline(SOON)


class Sync:
    """The sync calls, awaitable, so that one test drives both kinds."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.address = getattr(inner, "address", None)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        member = getattr(self.inner, name)
        if name in {"fileno", "has_arrived", "is_alive", "peer_pid"}:
            return member  # type: ignore[no-any-return]

        async def call(*arguments: Any, **named: Any) -> Any:
            made = member(*arguments, **named)
            return Sync(made) if isinstance(made, streams.Stream | streams.Listener) else made

        return call


class SyncKind:
    @staticmethod
    async def connect(address: Address, deadline: Deadline) -> Any:
        return Sync(connecting.connect(address, deadline))

    @staticmethod
    async def listen(address: Address, *, allow_remote: bool = False) -> Any:
        return Sync(listening.listen(address, allow_remote=allow_remote))

    @staticmethod
    def stream(connection: socket.socket) -> Any:
        return Sync(SocketStream(connection))


class AsyncKind:
    connect = staticmethod(aio.connect)
    listen = staticmethod(aio_listening.listen)

    @staticmethod
    def stream(connection: socket.socket) -> Any:
        return aio.AsyncStream(SocketStream(connection))


@pytest.fixture(params=[SyncKind, AsyncKind])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def run(work: Awaitable[Any]) -> Any:
    async def main() -> Any:
        return await work

    return asyncio.run(main())


def test_bytes_travel_both_ways_over_each_kind_of_socket(kind: Any, short_tmp: Path) -> None:
    async def work(address: Address) -> None:
        listener = await kind.listen(address)
        client = await kind.connect(listener.address, soon())
        server = await listener.accept(soon())
        await client.send(b"request", soon())
        assert await server.receive(100, soon()) == b"request"
        await server.send(memoryview(b"reply"), soon())
        buffer = bytearray(3)
        assert await client.receive_into(memoryview(buffer), soon()) == 3
        assert buffer == b"rep"
        assert await client.receive(1, soon()) == b"l"
        assert client.is_alive()
        assert client.fileno() >= 0
        expected = os.getpid() if isinstance(address, UnixAddress) else None
        assert client.peer_pid() == expected
        await server.close()
        assert not client.is_alive(), "though a byte still waits"
        assert await client.receive(10, soon()) == b"y"
        assert await client.receive(10, soon()) == b""
        await client.close()
        await client.close()
        assert client.fileno() == -1
        assert not client.is_alive()
        await listener.close()
        await listener.close()

    run(work(UnixAddress(f"{short_tmp}/a.sock")))
    run(work(TcpAddress("127.0.0.1", 0)))


def test_a_big_message_is_sent_whole(kind: Any) -> None:
    data = os.urandom(5_000_000)

    async def work() -> None:
        one, two = socket.socketpair()
        sender = kind.stream(one)
        received = bytearray()

        def read() -> None:
            while part := two.recv(65536):
                received.extend(part)

        reader = threading.Thread(target=read)
        reader.start()
        await sender.send(data, soon())
        await sender.close()
        await asyncio.to_thread(reader.join)
        two.close()
        assert received == data

    run(work())


def test_a_wait_that_takes_too_long_is_timed_out_and_loses_nothing(kind: Any) -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = kind.stream(one)
        with pytest.raises(TimedOut, match=r"nothing arrived within 0\.02 s"):
            await stream.receive(10, Deadline(SHORT))
        two.send(b"late")
        assert await stream.receive(10, soon()) == b"late"
        two.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        with pytest.raises(TimedOut, match="does not take the bytes"):
            await stream.send(bytes(10_000_000), Deadline(SHORT))
        await stream.close()
        two.close()

    run(work())


def test_a_reset_is_the_end_and_sending_to_it_is_an_error(kind: Any, short_tmp: Path) -> None:
    async def work() -> None:
        listener = await kind.listen(TcpAddress("127.0.0.1", 0))
        client = await kind.connect(listener.address, soon())
        server = await listener.accept(soon())
        await client.send(b"never read", soon())
        await server.receive(1, soon())
        await server.close()  # with bytes left unread: TCP answers with a reset
        assert await client.receive(10, soon()) == b""
        with pytest.raises(ConnectionEnded) as caught:
            await client.send(bytes(50_000_000), soon())
        assert isinstance(caught.value, ConnectionError)
        await client.close()
        await listener.close()

    run(work())


def test_a_reset_while_reading_is_the_end(kind: Any) -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = kind.stream(one)
        await stream.send(b"never read", soon())
        two.close()  # a Unix socket that is closed with bytes unread resets its peer
        assert await stream.receive(10, soon()) == b""
        await stream.close()

    run(work())


def test_a_closed_stream_reads_as_ended_and_refuses_to_send(kind: Any) -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = kind.stream(one)
        await stream.close()
        assert await stream.receive(10, soon()) == b""
        with pytest.raises(TransportError, match="closed"):
            await stream.send(b"x", soon())
        with pytest.raises(TransportError, match="closed"):
            await stream.send_descriptor(0, soon())
        two.close()

    run(work())


def test_receiving_no_bytes_is_a_usage_error(kind: Any) -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = kind.stream(one)
        for size in (0, -1):
            with pytest.raises(UsageError):
                await stream.receive(size, soon())
        with pytest.raises(UsageError):
            await stream.receive_into(memoryview(bytearray()), soon())
        await stream.close()
        two.close()

    run(work())


def test_a_descriptor_travels_with_one_byte(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")

    async def work() -> None:
        one, two = socket.socketpair()
        sender = kind.stream(one)
        with open(tmp_path / "file", "rb") as file:
            await sender.send_descriptor(file.fileno(), soon())
        await sender.send(b"+", soon())
        _, (passed,), _, _ = socket.recv_fds(two, 1, 10)
        assert os.read(passed, 100) == b"content"
        os.close(passed)
        assert socket.recv_fds(two, 1, 10)[:2] == (b"+", [])
        with pytest.raises(UsageError):
            await sender.send_descriptor(-1, soon())
        with pytest.raises(UsageError, match="not open"):
            await sender.send_descriptor(987654, soon())
        await sender.close()
        two.close()

    run(work())


def test_a_descriptor_cannot_go_over_tcp(kind: Any) -> None:
    async def work() -> None:
        listener = await kind.listen(TcpAddress("127.0.0.1", 0))
        client = await kind.connect(listener.address, soon())
        with pytest.raises(TransportError, match="Unix socket"):
            await client.send_descriptor(0, soon())
        await client.close()
        await listener.close()

    run(work())


def test_a_failed_connection_says_why(kind: Any, short_tmp: Path) -> None:
    (short_tmp / "file").touch()
    stale = socket.socket(socket.AF_UNIX)
    stale.bind(f"{short_tmp}/stale")
    stale.close()

    async def work(address: Address, code: int | None, text: str) -> None:
        with pytest.raises(ConnectFailed, match=text) as caught:
            await kind.connect(address, soon())
        assert caught.value.errno == code
        assert caught.value.address == str(address)

    run(work(UnixAddress(f"{short_tmp}/none"), errno.ENOENT, "no such socket"))
    run(work(UnixAddress(f"{short_tmp}/stale"), errno.ECONNREFUSED, "nobody listens"))
    run(work(UnixAddress(f"{short_tmp}/{'x' * 200}"), errno.ENOENT, "no such socket"))
    run(work(UnixAddress(f"{short_tmp}/file"), errno.ECONNREFUSED, "nobody listens"))
    run(work(PipeAddress("x"), errno.ENOSYS, "Windows only"))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        run(work(TcpAddress("127.0.0.1", port), errno.ECONNREFUSED, "nobody listens"))
    run(work(TcpAddress("a..b", 1), None, "host is not known"))
    with pytest.raises(UsageError, match="listening"):
        run(kind.connect(TcpAddress("*", 1), soon()))


def test_a_full_backlog_waits_and_then_connects(kind: Any, short_tmp: Path) -> None:
    address = UnixAddress(f"{short_tmp}/full")
    server = socket.socket(socket.AF_UNIX)
    server.bind(address.path)
    server.listen(0)
    first = socket.socket(socket.AF_UNIX)
    first.connect(address.path)

    async def late() -> None:
        with pytest.raises(TimedOut, match="no connection within"):
            await kind.connect(address, Deadline(SHORT))

    run(late())
    taker = threading.Timer(SHORT, lambda: server.accept()[0].close())
    taker.start()

    async def work() -> None:
        stream = await kind.connect(address, soon())
        await stream.send(b"connected for real", soon())
        await stream.close()

    run(work())
    taker.join()
    first.close()
    server.close()


@pytest.mark.parametrize("size", [90, 107, 108, 200, 900])
def test_a_socket_path_of_any_length_can_be_listened_on_and_connected_to(kind: Any, short_tmp: Path, size: int) -> None:
    path = str(short_tmp)
    while len(path) < size - 80:
        path += "/" + "d" * 60
    os.makedirs(path, exist_ok=True)
    path += "/" + "s" * (size - len(path) - 1)
    assert len(path) == size

    async def work() -> None:
        listener = await kind.listen(UnixAddress(path))
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        client = await kind.connect(UnixAddress(path), soon())
        server = await listener.accept(soon())
        await client.close()
        assert await server.receive(1, soon()) == b""
        await server.close()
        await listener.close()
        assert not os.path.exists(path)

    run(work())


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_socket_is_for_its_owner_only_whatever_the_umask(kind: Any, short_tmp: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        listener = run(kind.listen(UnixAddress(f"{short_tmp}/a")))
        assert stat.S_IMODE(os.stat(f"{short_tmp}/a").st_mode) == 0o600
        assert os.umask(umask) == umask, "left as it was"
        run(listener.close())
    finally:
        os.umask(before)


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_who_has_a_socket_of_a_process_that_has_ended_is_not_called_by_its_number(kind: Any, short_tmp: Path) -> None:
    program = (
        "import os, socket, sys, time\n"
        "bound = socket.socket(socket.AF_UNIX); bound.bind(sys.argv[1]); bound.listen()\n"
        "worker = os.fork()\n"
        "if not worker: os.close(1); time.sleep(600); os._exit(0)\n"
        "print(os.getpid(), worker, flush=True); os._exit(0)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, f"{short_tmp}/a"], stdout=subprocess.PIPE, text=True, timeout=60, check=True
    ).stdout
    owner, worker = map(int, said.split())
    try:
        with pytest.raises(
            TransportError, match=rf"a process that has the socket of process {owner}, which has ended, listens there"
        ):
            run(kind.listen(UnixAddress(f"{short_tmp}/a")))
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_live_socket_is_not_taken_over_and_a_stale_one_is(kind: Any, short_tmp: Path) -> None:
    address = UnixAddress(f"{short_tmp}/a")
    first = run(kind.listen(address))
    with pytest.raises(TransportError, match="listens there already"):
        run(kind.listen(address))
    run(first.close())
    left_behind(short_tmp / "a")
    second = run(kind.listen(address))
    run(second.close())
    assert not os.path.lexists(address.path)


def test_a_file_that_is_no_socket_is_left_alone(kind: Any, short_tmp: Path) -> None:
    (short_tmp / "a").write_text("mine")
    with pytest.raises(TransportError, match="a file that is no socket has this name"):
        run(kind.listen(UnixAddress(f"{short_tmp}/a")))
    assert (short_tmp / "a").read_text() == "mine"
    with pytest.raises(TransportError, match="cannot listen"):
        run(kind.listen(UnixAddress(f"{short_tmp}/no/such/folder")))


def test_close_leaves_a_socket_of_somebody_else(kind: Any, short_tmp: Path) -> None:
    path = short_tmp / "a"
    listener = run(kind.listen(UnixAddress(str(path))))
    path.rename(short_tmp / "moved")
    other = run(kind.listen(UnixAddress(str(path))))
    run(listener.close())
    assert path.is_socket()
    run(other.close())
    assert not path.exists()


def left_behind(path: Path, *, age_s: float = 100) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    os.utime(path, (time.time() - age_s,) * 2)


@pytest.mark.parametrize("listens_on", [False, True])
def test_a_socket_that_somebody_has_bound_and_does_not_listen_on_yet_is_left_to_them(
    kind: Any, short_tmp: Path, listens_on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "BOUND_SOCKETS", str(short_tmp / "none"))  # as in another network namespace
    path = short_tmp / "a"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        before = path.lstat().st_ino
        timer = threading.Timer(0.1, other.listen if listens_on else other.close)
        timer.start()
        if listens_on:
            with pytest.raises(TransportError, match="listens there already"):
                run(kind.listen(UnixAddress(str(path))))
            assert path.lstat().st_ino == before
        else:
            run(run(kind.listen(UnixAddress(str(path)))).close())
            assert not path.exists(), "it was stale after all"
        timer.join()


def test_a_socket_that_stays_young_is_waited_for_a_second_at_most(
    kind: Any, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind(short_tmp / "a", age_s=0)
    modified_s = (short_tmp / "a").stat().st_mtime
    monkeypatch.setattr(time, "time", lambda: modified_s)
    monkeypatch.setattr(listening, "YOUNG_S", 0.1)
    run(run(kind.listen(UnixAddress(f"{short_tmp}/a"))).close())


def test_a_bound_socket_is_not_stale_however_old(kind: Any, short_tmp: Path) -> None:
    path = short_tmp / "a b"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        os.utime(path, (1, 1))
        with pytest.raises(TransportError, match="another process has bound it and does not listen"):
            run(kind.listen(UnixAddress(str(path))))
        assert path.is_socket()
    run(run(kind.listen(UnixAddress(str(path)))).close())


def test_a_connection_that_outlives_its_listener_does_not_hold_the_name(kind: Any, short_tmp: Path) -> None:
    path = short_tmp / "a"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(path))
        listener.listen()
        client.connect(str(path))
        with listener.accept()[0]:
            listener.close()
            os.utime(path, (1, 1))
            run(run(kind.listen(UnixAddress(str(path)))).close())


def test_a_file_from_the_future_is_stale_at_once(kind: Any, short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left_behind(short_tmp / "a", age_s=-1000)
    monkeypatch.setattr(listening, "AGAIN_S", 1e9)  # a pause would never end
    run(run(kind.listen(UnixAddress(f"{short_tmp}/a"))).close())


def answer_with(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """A resolver that knows one host."""

    def getaddrinfo(host: str | None, port: int, *, type: int, flags: int = 0) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        family = {True: socket.AF_INET6, False: socket.AF_INET}
        return [(family[":" in text], type, 0, "", (text, port)) for text in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


@pytest.mark.parametrize(
    "addresses", [("127.0.0.1", "192.0.2.7"), ("192.0.2.7", "127.0.0.1"), ("::1", "2001:db8::1"), ("192.0.2.7",)]
)
def test_every_address_of_a_name_must_be_loopback(
    kind: Any, monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    answer_with(monkeypatch, *addresses)
    with pytest.raises(UsageError, match="beyond loopback"):
        run(kind.listen(TcpAddress("both.example", 0)))


def test_a_name_with_two_loopback_addresses_may_be_listened_on(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(monkeypatch, "127.0.0.1", "127.0.0.2")
    run(run(kind.listen(TcpAddress("both.example", 0))).close())


def test_a_silent_name_server_holds_nobody_up(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The call cannot be ended: it is left alone in its thread."""
    asked, answer = threading.Event(), threading.Event()

    def getaddrinfo(host: str, *_: Any, flags: int = 0, **__: Any) -> list[Any]:
        if flags & socket.AI_NUMERICHOST:
            raise socket.gaierror(socket.EAI_NONAME, "not a number")
        asked.set()
        answer.wait(SOON)
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("192.0.2.7", 1))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(TimedOut, match=r"the host was not found within 0\.02 s"):
        run(kind.connect(TcpAddress("silent.example", 1), Deadline(SHORT)))
    assert asked.is_set()
    threads = [thread for thread in threading.enumerate() if thread.name == "dotnetdiag transport"]
    assert threads
    assert all(thread.daemon for thread in threads), "nor does the program wait for it at its end"

    async def listen_meanwhile() -> None:
        waiter = asyncio.create_task(aio_listening.listen(TcpAddress("silent.example", 0)))
        for _ in range(3):
            await asyncio.sleep(SHORT)
        assert not waiter.done(), "and the loop has gone on"
        answer.set()
        with pytest.raises(UsageError, match="beyond loopback"):
            await waiter

    asyncio.run(listen_meanwhile())


def test_numbers_are_looked_up_without_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threading, "Thread", None)
    for host in ("127.0.0.1", "::1"):
        with pytest.raises(ConnectFailed, match="nobody listens"):
            connecting.connect(TcpAddress(host, 1), soon())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="makes no copy of a process")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_what_a_forked_child_closes_stays_open_for_its_parent(short_tmp: Path) -> None:
    with listening.listen(UnixAddress(f"{short_tmp}/a")) as listener:
        with connecting.connect(UnixAddress(f"{short_tmp}/a"), soon()) as ours, listener.accept(soon()) as theirs:
            child = os.fork()
            if not child:
                for one in (ours, theirs, listener):
                    one.close()
                os._exit(sum(one.fileno() >= 0 for one in (ours, theirs, listener)))
            assert os.waitpid(child, 0)[1] == 0
            for one, other in ((ours, theirs), (theirs, ours)):
                one.send(b"hello", soon())
                assert other.receive(9, soon()) == b"hello"
        with connecting.connect(UnixAddress(f"{short_tmp}/a"), soon()), listener.accept(soon()):
            pass


@pytest.mark.parametrize("address", ["unix", "tcp"])
def test_no_descriptor_left_is_an_error_of_ours(
    kind: Any, short_tmp: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    place = UnixAddress(f"{short_tmp}/a") if address == "unix" else TcpAddress("127.0.0.1", 1)

    def none_left(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    async def work() -> None:
        monkeypatch.setattr(socket, "socket", none_left)
        try:
            with pytest.raises(ConnectFailed, match="Too many") as caught:
                await kind.connect(place, soon())
            assert caught.value.errno == errno.EMFILE
            with pytest.raises(TransportError, match="cannot listen: Too many"):
                await kind.listen(place)
        finally:
            monkeypatch.undo()

    run(work())


class Ticks:
    """How often other tasks had a turn."""

    def __init__(self) -> None:
        self.count = 0

    async def __aenter__(self) -> Ticks:
        self._task = asyncio.create_task(self._tick())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()

    async def _tick(self) -> None:
        while True:
            self.count += 1
            await asyncio.sleep(0)


def test_other_tasks_have_a_turn_at_every_operation_also_when_it_need_not_wait(short_tmp: Path) -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = aio.AsyncStream(SocketStream(one))
        listener = await aio_listening.listen(UnixAddress(f"{short_tmp}/a"))
        two.send(bytes(50))
        for _ in range(10):
            socket.send_fds(two, [b"x"], [two.fileno()])
        made: list[Any] = []
        async with Ticks() as ticks:

            async def counted(operation: Callable[[], Awaitable[Any]]) -> None:
                before = ticks.count
                for _ in range(5):
                    result = await operation()
                    if isinstance(result, aio.AsyncStream):
                        made.append(result)
                assert ticks.count - before >= 5, operation

            await counted(lambda: stream.receive(10, soon()))
            await counted(lambda: stream.send(b"x", soon()))
            await counted(lambda: stream.send_descriptor(0, soon()))
            await counted(lambda: aio.connect(listener.address, soon()))
            await counted(lambda: listener.accept(soon()))
        for each in (stream, listener, *made):
            await each.aclose()
        two.close()

    asyncio.run(work())


@pytest.mark.parametrize("host", ["*", "0.0.0.0", "::"])
def test_listening_beyond_loopback_must_be_allowed(kind: Any, host: str) -> None:
    with pytest.raises(UsageError, match="beyond loopback: only with TLS"):
        run(kind.listen(TcpAddress(host, 0)))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.9.9.9"])
def test_loopback_may_be_listened_on(kind: Any, host: str) -> None:
    listener = run(kind.listen(TcpAddress(host, 0)))
    assert listener.address.port > 0
    assert listener.address.host == host
    run(listener.close())


def test_any_host_can_be_reached_over_loopback_when_allowed(kind: Any) -> None:
    async def work() -> None:
        listener = await kind.listen(TcpAddress("*", 0), allow_remote=True)
        client = await kind.connect(TcpAddress("127.0.0.1", listener.address.port), soon())
        await (await listener.accept(soon())).close()
        await client.close()
        await listener.close()

    run(work())


def test_a_taken_port_is_a_transport_error(kind: Any) -> None:
    listener = run(kind.listen(TcpAddress("127.0.0.1", 0)))
    with pytest.raises(TransportError, match="cannot listen"):
        run(kind.listen(listener.address))
    run(listener.close())


def test_accept_times_out_and_a_closed_listener_says_so(kind: Any, short_tmp: Path) -> None:
    async def work() -> None:
        listener = await kind.listen(UnixAddress(f"{short_tmp}/a"))
        with pytest.raises(TimedOut, match="nobody connected"):
            await listener.accept(Deadline(SHORT))
        await listener.close()
        with pytest.raises(TransportError, match="listener is closed"):
            await listener.accept(soon())

    run(work())


def _blocked(call: Callable[[], object]) -> tuple[threading.Thread, list[object]]:
    """A thread that is inside of ``call``; what it gave or raised comes into the list."""
    results: list[object] = []
    entered = threading.Event()

    def work() -> None:
        entered.set()
        try:
            results.append(call())
        except TransportError as exc:
            results.append(exc)

    thread = threading.Thread(target=work)
    thread.start()
    entered.wait()
    return thread, results


def test_close_from_another_thread_wakes_a_blocked_reader() -> None:
    one, two = socket.socketpair()
    stream = SocketStream(one)
    thread, results = _blocked(lambda: stream.receive(10, Deadline(None)))
    stream.close()
    thread.join(SOON)
    assert results == [b""]
    assert stream.fileno() == -1
    two.close()


# more of what comes ----------------------------------------------------------------------------------------------------


@pytest.fixture(params=[True, False], ids=["one call", "call by call"])
def pair(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[SocketStream, socket.socket]]:
    if request.param and not COMPILED:
        pytest.skip("the kernels are not compiled")
    monkeypatch.setattr(SocketStream, "IS_PLAIN", request.param)
    one, two = socket.socketpair()
    stream = SocketStream(one)
    yield stream, two
    two.close()
    assert stream.fileno() < 0 or not os.get_blocking(stream.fileno())
    stream.close()


def test_a_buffer_is_filled_with_what_comes(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, peer = pair
    data = os.urandom(3_000_000)

    def send() -> None:
        for at in range(0, len(data), 70_001):
            peer.sendall(data[at : at + 70_001])

    sender = threading.Thread(target=send)
    sender.start()
    buffer = bytearray(len(data) - 10)
    assert sockets.fill_into(stream, memoryview(buffer), soon(), SOON) == len(buffer)
    sender.join(SOON)
    assert buffer == data[:-10]
    assert stream.receive(100, soon()) == data[-10:]


def test_one_call_takes_many_pieces(pair: tuple[SocketStream, socket.socket], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is such a call, nothing else is asked for what flows."""
    stream, peer = pair
    receive, calls = stream.receive_nowait, list[int]()

    def counted(view: memoryview) -> int:
        calls.append(len(view))
        return receive(view)

    monkeypatch.setattr(stream, "receive_nowait", counted)
    sender = threading.Thread(target=peer.sendall, args=(bytes(2_000_000),))
    sender.start()
    assert sockets.fill_into(stream, memoryview(bytearray(2_000_000)), soon(), SOON) == 2_000_000
    sender.join(SOON)
    assert bool(calls) is not stream.IS_PLAIN


def test_filling_ends_when_nothing_comes(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, peer = pair
    buffer = memoryview(bytearray(100))
    peer.sendall(b"some")
    began = time.monotonic()
    assert sockets.fill_into(stream, buffer, soon(), 0.05) == 4
    with pytest.raises(TimedOut):
        sockets.fill_into(stream, buffer, Deadline(0.05), 0.05)
    assert 0.1 <= time.monotonic() - began < SOON
    peer.sendall(b"more")
    assert stream.receive(100, soon()) == b"more"


def test_a_trickle_is_given_out(pair: tuple[SocketStream, socket.socket]) -> None:
    """All waits together are as long as is told, however often something comes."""
    stream, peer = pair
    until = time.monotonic() + SOON

    def trickle() -> None:
        with suppress(OSError):
            while time.monotonic() < until:
                peer.sendall(b"x")
                time.sleep(0.001)

    sender = threading.Thread(target=trickle)
    sender.start()
    began = time.monotonic()
    assert sockets.fill_into(stream, memoryview(bytearray(1 << 20)), soon(), 0.1) > 0
    assert time.monotonic() - began < SOON / 2
    stream.close()
    sender.join(2 * SOON)


def test_the_end_of_the_stream_ends_filling_and_the_next_call_tells(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, peer = pair
    buffer = memoryview(bytearray(100))
    peer.sendall(b"last")
    peer.close()
    assert sockets.fill_into(stream, buffer, soon(), SOON) == 4
    assert sockets.fill_into(stream, buffer, soon(), SOON) == 0
    assert stream.receive(100, soon()) == b""
    stream.close()


def test_close_from_another_thread_ends_filling(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, _ = pair

    def fill() -> int:
        return sockets.fill_into(stream, memoryview(bytearray(10)), Deadline(None), SOON)

    thread, results = _blocked(fill)
    time.sleep(SHORT)
    began = time.monotonic()
    stream.close()
    thread.join(SOON)
    assert results == [0]
    assert time.monotonic() - began < SOON / 2
    assert fill() == 0


@pytest.mark.parametrize("quiet_s", [0.0, SOON, 1e20, math.inf])
def test_filling_takes_any_time(pair: tuple[SocketStream, socket.socket], quiet_s: float) -> None:
    stream, peer = pair
    peer.sendall(b"all")
    assert sockets.fill_into(stream, memoryview(bytearray(3)), soon(), quiet_s) == 3


@pytest.mark.parametrize("quiet_s", [-1.0, math.nan])
def test_a_time_that_is_none_is_refused(pair: tuple[SocketStream, socket.socket], quiet_s: float) -> None:
    stream, peer = pair
    peer.sendall(b"all")
    with pytest.raises(UsageError):
        sockets.fill_into(stream, memoryview(bytearray(3)), soon(), quiet_s)
    assert stream.receive(3, soon()) == b"all"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals of POSIX")
def test_signals_do_not_make_filling_longer(pair: tuple[SocketStream, socket.socket]) -> None:
    stream, _ = pair
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    began = time.monotonic()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
        with pytest.raises(TimedOut):
            sockets.fill_into(stream, memoryview(bytearray(3)), Deadline(0.05), 0.05)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert time.monotonic() - began < SOON / 2


def test_close_from_another_thread_wakes_a_blocked_accept(short_tmp: Path) -> None:
    for address in (UnixAddress(f"{short_tmp}/a"), TcpAddress("127.0.0.1", 0)):
        listener = listening.listen(address)
        thread, results = _blocked(lambda listener=listener: listener.accept(Deadline(None)))  # type: ignore[misc]
        listener.close()
        thread.join(SOON)
        assert isinstance(results[0], TransportError)
        assert listener.fileno() == -1


def test_closing_an_async_stream_wakes_its_reader() -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = aio.AsyncStream(SocketStream(one))
        reader = asyncio.create_task(stream.receive(10, soon()))
        await asyncio.sleep(0)
        await stream.aclose()
        assert await reader == b""
        two.close()

    asyncio.run(work())


def test_closing_an_async_listener_wakes_accept(short_tmp: Path) -> None:
    async def work() -> None:
        listener = await aio_listening.listen(UnixAddress(f"{short_tmp}/a"))
        waiter = asyncio.create_task(listener.accept(soon()))
        await asyncio.sleep(0)
        await listener.aclose()
        with pytest.raises(TransportError, match="listener is closed"):
            await waiter

    asyncio.run(work())


def test_cancelling_at_any_step_loses_no_byte() -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = aio.AsyncStream(SocketStream(one))
        for steps in range(6):
            reader = asyncio.create_task(stream.receive(10, soon()))
            for step in range(6):
                if step == steps:
                    reader.cancel()
                if step == 2:
                    two.send(b"x")
                await asyncio.sleep(0)
            try:
                received = await reader
            except asyncio.CancelledError:
                received = b""
            if not received:
                assert await stream.receive(10, soon()) == b"x"
        await stream.aclose()
        two.close()

    asyncio.run(work())


def test_cancelling_accept_or_connect_at_any_step_leaks_nothing(short_tmp: Path) -> None:
    async def work() -> None:
        for address in (UnixAddress(f"{short_tmp}/a"), TcpAddress("127.0.0.1", 0), TcpAddress("localhost", 0)):
            for steps in range(6):
                listener = await aio_listening.listen(address)
                tasks = [
                    asyncio.create_task(listener.accept(soon())),
                    asyncio.create_task(aio.connect(listener.address, soon())),
                ]
                for _ in range(steps):
                    await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
                for result in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(result, aio.AsyncStream):
                        await result.aclose()
                await listener.aclose()
            await asyncio.get_running_loop().shutdown_default_executor()

    asyncio.run(work())


def test_two_readers_at_once_are_refused() -> None:
    async def work() -> None:
        one, two = socket.socketpair()
        stream = aio.AsyncStream(SocketStream(one))
        first = asyncio.create_task(stream.receive(10, soon()))
        await asyncio.sleep(0)
        with pytest.raises(UsageError, match="same time"):
            await stream.receive(10, soon())
        two.send(b"x")
        assert await first == b"x"
        await stream.aclose()
        two.close()

    asyncio.run(work())


def test_a_loop_that_watches_no_descriptors_uses_threads(monkeypatch: pytest.MonkeyPatch, short_tmp: Path) -> None:
    monkeypatch.setattr(aio.Waits, "possible", staticmethod(lambda: False))

    async def work() -> None:
        listener = await aio_listening.listen(UnixAddress(f"{short_tmp}/a"))
        client, server = await asyncio.gather(aio.connect(listener.address, soon()), listener.accept(soon()))
        await client.send(b"a", soon())
        assert await server.receive(5, soon()) == b"a"
        await client.send_descriptor(0, soon())
        assert await server.receive(5, soon()) != b""
        reader = asyncio.create_task(server.receive(5, soon()))
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await client.send(b"b", soon())
        assert await server.receive(5, soon()) == b"b", "the thread waits only; it takes nothing"
        waiter = asyncio.create_task(listener.accept(soon()))
        await asyncio.sleep(0)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        late, taken = await asyncio.gather(aio.connect(listener.address, soon()), listener.accept(soon()))
        for one in (client, server, late, taken, listener):
            await one.aclose()

    asyncio.run(work())


@pytest.mark.parametrize(
    ("model", "twin"),
    [
        (streams.Stream, aio.AsyncStream),
        (streams.Listener, aio_listening.AsyncListener),
        (connecting.connect, aio.connect),
        (listening.listen, aio_listening.listen),
    ],
)
def test_the_async_twin_has_the_same_signatures(model: Any, twin: Any) -> None:
    if not inspect.isclass(model):
        assert list(inspect.signature(model).parameters.items()) == list(inspect.signature(twin).parameters.items())
        return
    steps = {"sending", "receiving_into", "sending_descriptor", "receiving_descriptor", "accepting"}
    plain = {"fileno", "has_arrived", "is_alive", "is_quiet", "peer_pid", "peer_uid", "socket_file"}
    names = {name for name in dir(model) if not name.startswith("_")} - steps
    assert names == {name for name in dir(twin) if not name.startswith("_")} - {"aclose"}
    for name in names:
        ours, theirs = getattr(model, name), getattr(twin, name)
        assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
        assert inspect.iscoroutinefunction(theirs) is (name not in plain)


def test_port_in_a_folder_that_is_not_there_says_that_the_folder_is_missing(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="cannot listen: there is no such folder"):
        listening.listen(UnixAddress(str(tmp_path / "missing" / "port")))


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells")
def test_what_a_peer_over_tcp_has_not_taken_is_unsent(short_tmp: Path) -> None:
    for address, expected in ((TcpAddress("127.0.0.1", 0), True), (UnixAddress(f"{short_tmp}/a"), False)):
        with listening.listen(address) as listener, connecting.connect(listener.address, Deadline(20)) as peer:
            with listener.accept(Deadline(20)) as stream:
                assert isinstance(stream, SocketStream)
                assert not stream.has_unsent()
                with suppress(BlockingIOError):
                    while True:
                        stream.send_nowait(memoryview(bytes(1 << 16)))
                assert stream.has_unsent() is expected
                peer.close()
            assert not stream.has_unsent()
