"""Runtimes that dial us, played by threads: who is taken, who is dropped, what becomes of others."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from pathlib import Path
from uuid import UUID

import pytest
from tests.descriptors import descriptors

from dotnetdiag.client import Client
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.frames import Frame, FrameReader
from dotnetdiag.ipc.process_info import ProcessInfo3Reply
from dotnetdiag.ipc.replies import ResultReply


class FakeRuntime(threading.Thread):
    """Keeps one connection at a port, as a runtime does: advertises, answers one command, dials again."""

    def __init__(self, path: Path, number: int) -> None:
        super().__init__(daemon=True)
        self.path, self.cookie, self.number = path, UUID(int=number), number
        self.asked: list[Command] = []
        self.ended = threading.Event()
        self.dialled = threading.Event()

    def run(self) -> None:
        while not self.ended.is_set():
            try:
                self._serve_one()
            except OSError:
                if self.ended.wait(0.01):
                    return

    def _serve_one(self) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.path))
            connection.sendall(Advertise(cookie=self.cookie, pid=self.number).pack())
            self.dialled.set()
            reader, frame = FrameReader(), None
            while frame is None:
                data = connection.recv(reader.wanted)
                if not data:
                    return
                frame = reader.feed(data)
            connection.sendall(self._answer(frame))

    def _answer(self, frame: Frame) -> bytes:
        self.asked.append(Command(frame.code))
        if frame.code == Command.ProcessInfo3:
            return ProcessInfo3Reply(
                pid=self.number,
                cookie=self.cookie,
                command_line="x",
                os="Linux",
                arch="x64",
                entry_assembly="x",
                runtime_version="9",
            ).pack()
        return ResultReply().pack()

    def stop(self) -> None:
        self.ended.set()
        self.join(5)


@pytest.fixture
def port(tmp_path: Path) -> Path:
    return tmp_path / "port"


def test_the_first_runtime_that_dials_is_the_client_s(port: Path) -> None:
    before = descriptors()
    with Client.connect(f"{port},listen", timeout_s=5) as client:
        assert port.stat().st_mode & 0o777 == 0o600
        runtime = FakeRuntime(port, 1)
        runtime.start()
        assert client.target_pid() == os.getpid(), "the pid as we see it"
        for _ in range(5):
            assert client.process_info().pid == 1
        runtime.ended.set()
    runtime.stop()
    assert not port.exists()
    assert descriptors() == before


def test_others_are_resumed_and_left_alone(port: Path) -> None:
    with Client.connect(f"{port},listen", timeout_s=5) as client:
        first, other = FakeRuntime(port, 1), FakeRuntime(port, 2)
        first.start()
        assert client.process_info().pid == 1
        other.start()
        for _ in range(3):
            assert client.process_info().pid == 1
        while not other.asked:
            assert client.process_info().pid == 1
        assert other.asked == [Command.ResumeRuntime]
        first.ended.set()
        other.ended.set()
    first.stop()
    other.stop()


def test_who_is_no_runtime_is_dropped(port: Path) -> None:
    with Client.connect(f"{port},listen", timeout_s=5) as client:
        with socket.socket(socket.AF_UNIX) as silent, socket.socket(socket.AF_UNIX) as wrong:
            silent.connect(str(port))
            wrong.connect(str(port))
            wrong.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            runtime = FakeRuntime(port, 3)
            runtime.start()
            assert client.process_info().pid == 3
            wrong.settimeout(5)
            with pytest.raises(ConnectionResetError):  # closed with what it had sent unread
                wrong.recv(1)
        runtime.ended.set()
    runtime.stop()


def test_a_dead_connection_is_not_used(port: Path) -> None:
    with Client.connect(f"{port},listen", timeout_s=5) as client:
        with socket.socket(socket.AF_UNIX) as gone:
            gone.connect(str(port))
            gone.sendall(Advertise(cookie=UUID(int=7), pid=7).pack())
            assert client.target_pid() == os.getpid()
        runtime = FakeRuntime(port, 7)  # the same cookie dials again
        runtime.start()
        assert client.process_info().pid == 7
        runtime.ended.set()
    runtime.stop()


def test_nobody_comes_is_a_timeout(port: Path) -> None:
    with (
        Client.connect(f"{port},listen", timeout_s=0.1) as client,
        pytest.raises(TimedOut, match="no runtime has connected"),
    ):
        client.process_info()


def test_a_port_in_use_and_one_for_the_world_are_refused(port: Path) -> None:
    with Client.connect(f"{port},listen"), pytest.raises(TransportError):
        Client.connect(f"{port},listen")
    with pytest.raises(UsageError):
        Client.connect("0.0.0.0:0,listen")


def test_a_closed_port_says_so(port: Path) -> None:
    client = Client.connect(f"{port},listen", timeout_s=1)
    client.close()
    with pytest.raises(TransportError, match="closed"):
        client.process_info()


def test_the_asyncio_twin_does_the_same(port: Path) -> None:
    async def use() -> None:
        async with AsyncClient.connect(f"{port},listen", timeout_s=5) as client:
            first, other = FakeRuntime(port, 1), FakeRuntime(port, 2)
            waiting = asyncio.ensure_future(client.target_pid())
            await asyncio.sleep(0)
            first.start()
            assert await waiting == os.getpid()
            answers = await asyncio.gather(*(client.process_info() for _ in range(5)))
            assert {answer.pid for answer in answers} == {1}
            other.start()
            while not other.asked:
                assert (await client.process_info()).pid == 1
            assert other.asked == [Command.ResumeRuntime]
            first.ended.set()
            other.ended.set()
        await asyncio.to_thread(first.stop)
        await asyncio.to_thread(other.stop)

    before = descriptors()
    asyncio.run(use())
    assert not port.exists()
    assert descriptors() == before


def test_the_asyncio_twin_times_out(port: Path) -> None:
    async def use() -> None:
        async with AsyncClient.connect(f"{port},listen", timeout_s=0.1) as client:
            with pytest.raises(TimedOut):
                await client.process_info()

    asyncio.run(use())
