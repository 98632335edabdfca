"""The runtimes that dial a port of ours, played by threads: who is there, who is gone, whose turn it is."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import DONE, PATIENCE_S, eventually, says
from tests.client.shells import Act, Stage
from tests.client.test_reverse import dial

import dotnetdiag as dd
from dotnetdiag.client.server import RuntimeServer
from dotnetdiag.client.server_aio import AsyncRuntimeServer
from dotnetdiag.errors import ConnectFailed, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.frames import HEADER_SIZE
from dotnetdiag.testing import Talk


@pytest.fixture
def port(stage: Stage) -> Path:
    return stage.folder / "port"


def numbers(server: Any) -> list[int]:
    return [runtime.cookie.int for runtime in server.runtimes]


def test_runtimes_are_given_as_they_come_until_the_server_is_closed(stage: Stage, port: Path) -> None:
    came: list[int] = []
    with stage.server(str(port)) as server, ExitStack() as runtimes:
        assert server.address == str(port)
        assert port.stat().st_mode & 0o777 == 0o600
        runtimes.enter_context(DiallingRuntime(port, number=1))
        assert server.wait(timeout_s=PATIENCE_S).cookie.int == 1

        def all_of_them() -> None:
            for runtime in server:
                came.append(runtime.cookie.int)

        act = Act(all_of_them)
        for number in (2, 3):
            runtimes.enter_context(DiallingRuntime(port, number=number))
            eventually(lambda: len(came) >= number, "it came")  # noqa: B023 - waited for at once
        assert numbers(server) == [1, 2, 3]
        server.close()
        act.result()
    assert came == [1, 2, 3]
    assert not port.exists()


def test_each_command_takes_a_connection_of_its_own(stage: Stage, port: Path) -> None:
    with stage.server(str(port)) as server, DiallingRuntime(port, number=1) as runtime:
        found = server.wait()
        assert found.pid == os.getpid()
        assert found.namespace_pid == os.getpid()
        for _ in range(3):
            assert found.client.process_info().pid == 1
            assert server.runtimes == (found,), "the same object"
        found.resume()
        assert runtime.asked == [Command.ProcessInfo3] * 3 + [Command.ResumeRuntime]


def test_information_is_asked_once(stage: Stage, port: Path) -> None:
    with stage.server(str(port)) as server, DiallingRuntime(port, number=5) as runtime:
        found = server.wait()
        assert found.info.pid == 5
        assert found.info is found.info
        assert runtime.asked == [Command.ProcessInfo3]


def test_two_runtimes_are_asked_each_its_own(stage: Stage, port: Path) -> None:
    with stage.server(str(port)) as server, DiallingRuntime(port, number=1), DiallingRuntime(port, number=2):
        eventually(lambda: len(server.runtimes) == 2, "all are there")
        for _ in range(3):
            assert sorted(runtime.client.process_info().pid for runtime in server.runtimes) == [1, 2]


def test_who_asks_first_gets_the_connection_first(stage: Stage, port: Path) -> None:
    hold, asked = threading.Event(), list[bytes]()

    def slow(talk: Talk) -> None:
        hold.wait(PATIENCE_S)
        asked.append(talk.asked.data[HEADER_SIZE:])
        says(DONE)(talk)

    with (
        stage.server(str(port), timeout_s=PATIENCE_S) as server,
        DiallingRuntime(port, {Command.SetEnvironmentVariable: slow}, number=1) as runtime,
    ):
        client = server.wait().client

        def ask(turn: int) -> None:
            client.set_environment_variable("TURN", str(turn))

        acts = [Act(lambda: ask(0))]
        runtime.wait_for(Command.SetEnvironmentVariable)
        for turn in range(1, 5):
            acts.append(Act(lambda turn=turn: ask(turn)))  # type: ignore[misc]
            eventually(lambda: waiting_in_line(server) == turn, "it waits")  # noqa: B023 - waited for at once
        hold.set()
        for act in acts:
            act.result()
    values = [payload.decode("utf-16-le").rstrip("\0")[-1] for payload in asked]
    assert values == list("01234")


def waiting_in_line(server: Any) -> int:
    presence = getattr(server, "inner", server)._presence
    return sum(map(len, presence.port._queues.values()))


def test_a_runtime_that_is_gone_is_forgotten_and_says_so(stage: Stage, port: Path) -> None:
    with stage.server(str(port)) as server:
        with DiallingRuntime(port, number=1):
            first = server.wait()
            assert first.is_connected
            assert "gone" not in repr(first)
        eventually(lambda: not server.runtimes, "it is forgotten")
        assert not first.is_connected
        assert repr(first).endswith(", gone>")
        with pytest.raises(ConnectFailed, match="the runtime is not there any more"):
            first.client.process_info()
        with DiallingRuntime(port, number=1):  # the same cookie, after all
            again = server.wait()
            assert again is not first
            assert again.client.process_info().pid == 1


def test_a_runtime_that_answers_slowly_is_there_meanwhile(stage: Stage, port: Path) -> None:
    hold = threading.Event()

    def slow(_: Talk) -> None:
        hold.wait(PATIENCE_S)

    with (
        stage.server(str(port), timeout_s=PATIENCE_S) as server,
        DiallingRuntime(port, {Command.ProcessInfo3: slow}, number=1) as runtime,
    ):
        found = server.wait()
        act = Act(found.client.process_info)
        runtime.wait_for(Command.ProcessInfo3)
        threading.Event().wait(1.6)  # more than two looks
        assert found.is_connected
        hold.set()
        with pytest.raises(TransportError):
            act.result()


def test_silent_connections_delay_nobody(stage: Stage, port: Path) -> None:
    with stage.server(str(port)) as server, ExitStack() as held:
        for number in range(1, 101):
            silent = held.enter_context(socket.socket(socket.AF_UNIX))
            silent.connect(str(port))
            silent.sendall(b"ADVR_V1"[: number % 8])
            held.enter_context(dial(port, number))
        eventually(lambda: len(server.runtimes) == 100, "all are there")
        assert sorted(numbers(server)) == list(range(1, 101))


def test_waiting_ends_after_its_time_and_when_the_server_is_closed(stage: Stage, port: Path) -> None:
    with stage.server(str(port)) as server:
        with pytest.raises(TimedOut, match="no runtime has connected"):
            server.wait(timeout_s=0.05)
        act = Act(server.wait)
        server.close()
        with pytest.raises(TransportError, match="the port is closed"):
            act.result()
        assert list(server) == []
        server.close()


def test_clients_of_a_closed_server_say_so(stage: Stage, port: Path) -> None:
    with stage.server(str(port)) as server, DiallingRuntime(port, number=1):
        found = server.wait()
        server.close()
        with pytest.raises(TransportError, match="the port is closed"):
            found.client.process_info()


def test_a_socket_in_use_is_refused_with_the_name_of_who_has_it(stage: Stage, port: Path) -> None:
    name = re.escape(Path("/proc/self/comm").read_text("utf-8").strip()) if os.path.exists("/proc/self/comm") else ".*"
    with (
        stage.server(str(port)),
        pytest.raises(TransportError, match=rf"process {os.getpid()} \({name}\) listens there already"),
    ):
        stage.server(str(port)).__enter__()
    with pytest.raises(UsageError, match="beyond loopback"):
        stage.server("0.0.0.0:0").__enter__()


def test_a_stale_socket_is_replaced(stage: Stage, port: Path) -> None:
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(port))
    os.utime(port, (0, 0))
    with stage.server(str(port)) as server, DiallingRuntime(port, number=4):
        assert server.wait().info.pid == 4


def test_listen_makes_a_server() -> None:
    with dd.listen("127.0.0.1:0") as server:
        assert isinstance(server, RuntimeServer)
        assert re.fullmatch(r"<RuntimeServer tcp://127\.0\.0\.1:[1-9]\d*: 0 runtimes>", repr(server))


def test_an_asynchronous_server_listens_in_its_block_only(tmp_path: Path) -> None:
    server = AsyncRuntimeServer("127.0.0.1:0")
    assert repr(server) == "<AsyncRuntimeServer 127.0.0.1:0: not listening>"
    with pytest.raises(TransportError, match="does not listen yet"):
        assert server.runtimes

    async def cancelled() -> None:
        task = asyncio.create_task(AsyncRuntimeServer(str(tmp_path / "s")).__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    eventually(lambda: not (tmp_path / "s").exists(), "closed")


def test_an_address_that_no_runtime_can_be_told_is_refused(stage: Stage, tmp_path: Path) -> None:
    for name in ("a,b", "a;b"):
        with pytest.raises(UsageError, match="comma"), stage.server(str(tmp_path / name)):
            pass
