"""Runtimes that dial us, played by threads: who is taken, who is dropped, what becomes of others."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import DONE, PATIENCE_S, REFUSAL, after, eventually, says, says_and_waits
from tests.client.shells import Act, Stage, within_limits
from tests.descriptors import descriptors

from dotnetdiag.client import Client, reverse
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.routes import ReverseRoute
from dotnetdiag.errors import DiagnosticsError, ProcessNotFound, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.frames import FrameReader
from dotnetdiag.transport import Deadline, UnixAddress, listen

QUIET_S = 0.3
"""So long a connection must stay as it is to be left alone."""


@pytest.fixture
def port(stage: Stage) -> Path:
    return stage.folder / "port"


@contextmanager
def listening(stage: Stage, port: Path, timeout_s: float = 5.0) -> Iterator[Any]:
    """A client that listens. The asyncio one does from its first call on."""
    with stage.client(f"{port},listen", timeout_s=timeout_s) as client:
        if stage.is_async:
            with pytest.raises(TimedOut):
                client.target_pid(timeout_s=0.1)
        yield client


def dial(port: Path, number: int) -> socket.socket:
    """A connection of the runtime of that number."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(port))
    connection.settimeout(PATIENCE_S)
    connection.sendall(Advertise(cookie=UUID(int=number), pid=os.getpid()).pack())
    return connection


def command_on(connection: socket.socket) -> Command | None:
    """What is asked on a connection; None when it is closed instead."""
    reader, frame = FrameReader(), None
    while frame is None:
        try:
            data = connection.recv(reader.wanted)
        except ConnectionResetError:
            return None
        if not data:
            return None
        frame = reader.feed(data)
    return Command(frame.code)


def is_left_alone(connection: socket.socket) -> bool:
    connection.settimeout(QUIET_S)
    try:
        connection.recv(1)
    except TimeoutError:
        return True
    return False


# who is taken -----------------------------------------------------------------------------------------------------------


def test_the_first_runtime_that_dials_is_the_client_s(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client:
        assert port.stat().st_mode & 0o777 == 0o600
        with DiallingRuntime(port, number=1):
            assert client.target_pid() == os.getpid(), "the pid as we see it"
            for _ in range(5):
                assert client.process_info().pid == 1
    assert not port.exists()


def test_a_runtime_that_dials_later_is_waited_for(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client:
        act = Act(client.process_info)
        with DiallingRuntime(port, number=1):
            assert act.result().pid == 1


def test_of_two_that_dial_in_one_moment_the_first_is_the_client_s(
    stage: Stage, port: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reverse, "IN_ORDER_S", PATIENCE_S)
    for _ in range(10):
        with listening(stage, port) as client:
            choice = Act(client.target_pid)
            with dial(port, 1), dial(port, 2) as second:
                assert choice.result() == os.getpid()
                assert _is_resumed(second)


def test_nobody_comes_is_a_timeout(stage: Stage, port: Path) -> None:
    with listening(stage, port, timeout_s=0.1) as client, pytest.raises(TimedOut, match="no runtime has connected"):
        client.process_info()


def test_who_is_no_runtime_is_dropped(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client, socket.socket(socket.AF_UNIX) as wrong:
        wrong.settimeout(PATIENCE_S)
        wrong.connect(str(port))
        wrong.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        with DiallingRuntime(port, number=3):
            assert client.process_info().pid == 3
            with pytest.raises(ConnectionResetError):  # closed with what it had sent unread
                wrong.recv(1)


def test_a_dead_connection_is_not_used(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client:
        with dial(port, 7):
            assert client.target_pid() == os.getpid()
        with DiallingRuntime(port, number=7):  # the same cookie dials again
            assert client.process_info().pid == 7


def test_a_newer_connection_of_a_runtime_replaces_the_older_one(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client, dial(port, 1) as older:
        assert client.target_pid() == os.getpid()
        with dial(port, 1) as newer:
            assert command_on(older) is None
            act = Act(client.resume)
            assert command_on(newer) is Command.ResumeRuntime
            newer.sendall(DONE)
            act.result()


def test_commands_at_the_same_time_take_turns_on_one_runtime(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client, DiallingRuntime(port, number=1) as runtime:
        acts = [Act(client.process_info) for _ in range(20)]
        assert {act.result().pid for act in acts} == {1}
        assert runtime.asked == [Command.ProcessInfo3] * 20


# who is not -------------------------------------------------------------------------------------------------------------


def test_others_are_resumed_whenever_they_dial_and_left_alone_then(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client, ExitStack() as stack:
        early = [stack.enter_context(dial(port, number)) for number in range(1, 4)]
        eventually(lambda: _waiting(stage, client) == 3, "they were not all seen")
        assert client.target_pid() == os.getpid()
        acts = [Act(lambda connection=connection: _is_resumed(connection)) for connection in early]  # type: ignore[misc]
        assert sorted(act.result() for act in acts) == [False, True, True]
        late = stack.enter_context(dial(port, 9))
        assert _is_resumed(late)
        assert _is_left_alone_at_last(port, 9)


def _waiting(stage: Stage, client: Any) -> int:
    route = client.inner._route.route if stage.is_async else client._route
    return 0 if route._port is None else len(route._port._runtimes)


def _is_resumed(connection: socket.socket, within_s: float = 1) -> bool:
    """Whether ResumeRuntime comes; it is answered."""
    connection.settimeout(within_s)
    try:
        command = command_on(connection)
    except TimeoutError:
        return False
    assert command is Command.ResumeRuntime
    connection.sendall(DONE)
    return True


@pytest.mark.parametrize("way", ["hangs up", "says half", "refuses"])
def test_a_stranger_is_resumed_as_often_as_it_dials_until_it_has_answered(stage: Stage, port: Path, way: str) -> None:
    """A refusal is an answer: it has nothing to resume."""
    with listening(stage, port) as client, dial(port, 1):
        assert client.target_pid() == os.getpid()
        for _ in range(5 if way != "refuses" else 1):
            with dial(port, 2) as stranger:
                assert command_on(stranger) is Command.ResumeRuntime
                if way == "says half":
                    stranger.sendall(DONE[:10])
                if way == "refuses":
                    stranger.sendall(REFUSAL)
                    assert command_on(stranger) is None
        if way != "refuses":
            with dial(port, 2) as stranger:
                assert _is_resumed(stranger)
                assert command_on(stranger) is None
        assert _is_left_alone_at_last(port, 2)


def _is_left_alone_at_last(port: Path, number: int) -> bool:
    """It may dial again before we have noted its answer, and is resumed once more then."""
    for _ in range(20):
        with dial(port, number) as connection:
            if is_left_alone(connection):
                return True
    return False


def test_a_stranger_that_answers_nothing_is_let_go(stage: Stage, port: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reverse, "RESUME_TIMEOUT_S", 0.1)
    with listening(stage, port) as client, dial(port, 1):
        assert client.target_pid() == os.getpid()
        with dial(port, 2) as stranger:
            assert command_on(stranger) is Command.ResumeRuntime
            assert stranger.recv(1) == b""


def test_connections_of_runtimes_that_are_gone_are_dropped(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client, dial(port, 1):
        assert client.target_pid() == os.getpid()
        before = descriptors()
        for number in range(100, 130):
            with dial(port, number) as stranger:
                assert _is_resumed(stranger)
                assert command_on(stranger) is None
            dial(port, number).close()  # as runtimes do after each command
        eventually(lambda: descriptors() <= before, "descriptors of runtimes that are gone")


# what gets in the way ---------------------------------------------------------------------------------------------------


def test_two_hundred_connections_of_which_half_are_silent_are_served_at_once(stage: Stage, port: Path) -> None:
    """One after the other, the silent ones alone would take 25 seconds."""
    with listening(stage, port, timeout_s=8.0) as client, ExitStack() as stack:
        with dial(port, 1):
            assert client.target_pid() == os.getpid()
        strangers = []
        for number in range(100, 200):
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(port))
            stranger = stack.enter_context(dial(port, number))
            strangers.append(Act(lambda stranger=stranger: _is_resumed(stranger, PATIENCE_S)))  # type: ignore[misc]
        with DiallingRuntime(port, number=1):
            assert client.process_info().pid == 1
        assert all(stranger.result() for stranger in strangers)


def test_the_time_to_say_who_one_is_is_for_all_of_it(stage: Stage, port: Path) -> None:
    """A byte now and then does not keep a connection: with a new wait for each of them it would last, and be a runtime in the end."""
    with listening(stage, port) as client, socket.socket(socket.AF_UNIX) as slow:
        slow.settimeout(0.1)
        slow.connect(str(port))

        def say_slowly() -> None:
            for byte in Advertise(cookie=UUID(int=1), pid=os.getpid()).pack():
                slow.sendall(bytes([byte]))
                try:
                    assert slow.recv(1) == b""
                except TimeoutError:
                    pass

        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            say_slowly()
        with pytest.raises(TimedOut):
            client.target_pid(timeout_s=0.1)


SHORTAGE = """
import os, resource, socket, sys
from uuid import UUID
from dotnetdiag.client import Client
from dotnetdiag.ipc.advertise import Advertise

port = sys.argv[1]
client = Client.connect(port + ",listen", timeout_s=20)
early = [socket.socket(socket.AF_UNIX) for _ in range(3)]
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
free = os.dup(0)
os.close(free)
resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
for connection in early:
    connection.connect(port)
    connection.sendall(Advertise(cookie=UUID(int=1), pid=os.getpid()).pack())
try:
    client.target_pid(timeout_s=0.5)
except TimeoutError:
    print("none is left", flush=True)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
print(client.target_pid(timeout_s=20) == os.getpid(), flush=True)
client.close()
"""


def test_a_port_outlives_a_moment_without_free_descriptors(tmp_path: Path) -> None:
    words = [sys.executable, "-c", SHORTAGE, str(tmp_path / "p")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(words, capture_output=True, timeout=60, text=True, env=environment)
    assert done.stdout.split("\n")[:2] == ["none is left", "True"], done.stderr


# the end ----------------------------------------------------------------------------------------------------------------


def test_a_port_in_use_and_one_for_the_world_are_refused(stage: Stage, port: Path) -> None:
    """The synchronous client listens when it is made, the asyncio one at its first call."""

    def use(address: str) -> None:
        with stage.client(f"{address},listen") as client:
            client.process_info()

    with listening(stage, port), pytest.raises(TransportError, match="listens there already"):
        use(str(port))
    with pytest.raises(UsageError):
        use("0.0.0.0:0")


def test_a_closed_port_says_so(stage: Stage, port: Path) -> None:
    with listening(stage, port) as client:
        pass
    for call in (client.process_info, client.target_pid, lambda: client.trace("A")):
        with pytest.raises(TransportError, match="closed"):
            within_limits(call)
    client.close()


def test_closing_ends_whoever_waits_and_what_is_being_said(stage: Stage, port: Path) -> None:
    """Twice, from two threads, while some say who they are, some are resumed, and callers wait for an answer or for a runtime."""
    with listening(stage, port, timeout_s=PATIENCE_S) as client, ExitStack() as stack:
        runtime = stack.enter_context(DiallingRuntime(port, {Command.ProcessInfo3: says_and_waits()}, number=1))
        asking = Act(client.process_info)
        runtime.wait_for(Command.ProcessInfo3)
        waiting = [Act(client.process_info) for _ in range(3)]
        for number in range(50, 60):
            stack.enter_context(dial(port, number))
            stack.enter_context(socket.socket(socket.AF_UNIX)).connect(str(port))
        closing = [Act(client.close) for _ in range(2)]
        for act in closing:
            act.result()
        for act in waiting:
            assert isinstance(act.finish().error, TransportError)
            assert "closed" in str(act.error)
        assert not port.exists()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("dotnetdiag port")]
        runtime.stop()  # the command that it has is not the port's any more
        assert isinstance(asking.finish().error, DiagnosticsError)


def test_a_port_can_be_opened_again_where_one_was_closed(stage: Stage, port: Path) -> None:
    for _ in range(3):
        with listening(stage, port) as client, DiallingRuntime(port, number=1):
            assert client.process_info().pid == 1


@pytest.mark.parametrize("stage", ["async"], indirect=True)
def test_cancelling_a_call_that_waits_leaves_the_port_usable(stage: Stage, port: Path) -> None:
    async def use() -> None:
        async with AsyncClient.connect(f"{port},listen", timeout_s=PATIENCE_S) as client:
            for turns in range(12):
                task = asyncio.ensure_future(client.process_info())
                for _ in range(turns):
                    await asyncio.sleep(0.001)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            runtime = DiallingRuntime(port, number=1)
            runtime.start()
            assert (await client.process_info()).pid == 1
        await asyncio.to_thread(runtime.stop)
        assert len(asyncio.all_tasks()) == 1

    within_limits(lambda: asyncio.run(use()))
    assert not port.exists()


@pytest.mark.parametrize("stage", ["async"], indirect=True)
def test_a_call_that_is_cancelled_while_the_port_is_opened_hands_it_to_the_next(stage: Stage, port: Path) -> None:
    """The thread that opens it cannot be cancelled. A stale file makes it take a moment."""
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(port))

    async def use(*, again: bool) -> None:
        async with AsyncClient.connect(f"{port},listen", timeout_s=PATIENCE_S) as client:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(client.process_info(), 0.02)
            if again:
                runtime = DiallingRuntime(port, number=1)
                runtime.start()
                assert (await client.process_info()).pid == 1
                await asyncio.to_thread(runtime.stop)

    for again in (True, False):
        within_limits(lambda again=again: asyncio.run(use(again=again)))  # type: ignore[misc]
        assert not port.exists()
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("dotnetdiag port")]


@pytest.mark.parametrize("stage", ["async"], indirect=True)
def test_closing_while_a_call_opens_the_port_leaves_none(stage: Stage, port: Path) -> None:
    async def use() -> None:
        client = AsyncClient.connect(f"{port},listen", timeout_s=PATIENCE_S)
        calls = [asyncio.ensure_future(client.process_info()) for _ in range(3)]
        await asyncio.sleep(0)
        await client.aclose()
        for call in calls:
            with pytest.raises(TransportError, match="closed"):
                await call

    within_limits(lambda: asyncio.run(use()))
    assert not port.exists()


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_a_call_on_a_port_keeps_to_its_limits_step_by_step(stage: Stage, port: Path) -> None:
    calls: list[tuple[Callable[[Client], object], type[Exception]]] = [
        (lambda client: client.process_info(), TimedOut),
        (lambda client: client.write_dump("/x", answer_timeout_s=0.1), TimedOut),
    ]
    for call, error in calls:
        with (
            listening(stage, port, timeout_s=0.3) as client,
            DiallingRuntime(
                port, {Command.GenerateCoreDump3: says_and_waits(), Command.ProcessInfo3: after(5, says(DONE))}
            ),
            pytest.raises(error),
        ):
            within_limits(lambda call=call, client=client: call(client))  # type: ignore[misc]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="makes no copy of a process")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_a_forked_child_that_leaves_the_block_leaves_the_port_to_its_parent(stage: Stage, port: Path) -> None:
    with stage.client(f"{port},listen") as client:
        child = os.fork()
        if not child:
            try:
                client.close()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        with DiallingRuntime(port, number=3):
            assert within_limits(client.process_info).pid == 3
    assert not port.exists()


# what a port may meet -----------------------------------------------------------------------------------------------------


def no_thread(_: threading.Thread) -> None:
    raise TransportError("no more threads")


def test_a_runtime_that_was_not_resumed_for_want_of_a_thread_is_resumed_when_it_dials_again(
    stage: Stage, port: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(stage, port) as client, dial(port, 1), dial(port, 2) as second:
        runtimes = port_of(stage, client)._runtimes
        eventually(lambda: len(runtimes) == 2, "they do not wait")
        with monkeypatch.context() as context:
            context.setattr(reverse, "start", no_thread)
            assert client.target_pid() == os.getpid()
        assert command_on(second) is None, "it was resumed: there was a thread"
        with dial(port, 2) as again:
            assert _is_resumed(again)


def port_of(stage: Stage, client: Any) -> Any:
    return (client.inner._route.route if stage.is_async else client._route)._port


@pytest.mark.parametrize("error", [RuntimeError("no"), MemoryError()])
def test_a_port_that_was_not_made_leaves_nothing(
    stage: Stage, port: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """For want of a thread, or of something else at the moment when its thread is started."""
    start = threading.Thread.start

    def fail(thread: threading.Thread) -> None:
        if thread.name == "dotnetdiag port":
            assert port.exists()
            raise error
        start(thread)

    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", fail)
        with pytest.raises(TransportError if isinstance(error, RuntimeError) else MemoryError):
            stage.client(f"{port},listen").target_pid()
    assert not port.exists()


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_a_port_that_is_given_up_when_it_was_just_made_is_closed(
    stage: Stage, port: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = ReverseRoute._open

    def interrupted(route: ReverseRoute, deadline: Deadline) -> Any:
        opened(route, deadline)
        assert port.exists()
        raise KeyboardInterrupt

    monkeypatch.setattr(ReverseRoute, "_open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Client.connect(f"{port},listen")
    assert not port.exists()


def test_who_wants_a_port_that_another_one_opens_waits_no_longer_than_it_may(
    stage: Stage, port: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slowly(*_: object, **__: object) -> Any:
        asked.set()
        answer.wait(PATIENCE_S)
        raise TransportError("cannot listen")

    monkeypatch.setattr(reverse, "listen", slowly)
    route = ReverseRoute(UnixAddress(str(port)))
    client = stage.shell.wrap((AsyncClient if stage.is_async else Client)(route))
    first = Act(client.process_info)
    assert asked.wait(PATIENCE_S)
    with pytest.raises(TimedOut, match="the port is not open yet"):
        within_limits(lambda: client.target_pid(timeout_s=0.05))
    within_limits(client.close)
    answer.set()
    with pytest.raises(TransportError, match="cannot listen"):
        first.result()


def test_a_port_that_is_closed_while_it_is_opened_leaves_nothing(
    stage: Stage, port: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def slowly(*arguments: Any, **options: Any) -> Any:
        asked.set()
        answer.wait(PATIENCE_S)
        return listen(*arguments, **options)

    monkeypatch.setattr(reverse, "listen", slowly)
    client = stage.shell.wrap((AsyncClient if stage.is_async else Client)(ReverseRoute(UnixAddress(str(port)))))
    first = Act(client.process_info)
    assert asked.wait(PATIENCE_S)
    within_limits(client.close)
    answer.set()
    with pytest.raises(TransportError, match="the port is closed"):
        first.result()
    assert not port.exists()


RUNTIME = """
import os, socket, sys
connection = socket.socket(socket.AF_UNIX)
connection.connect(sys.argv[1])
said = bytearray.fromhex(sys.argv[2])
said[24:32] = os.getpid().to_bytes(8, "little")
connection.sendall(said)
sys.stdin.read()
"""


def test_that_the_process_of_the_chosen_runtime_has_ended_is_told(stage: Stage, port: Path) -> None:
    """Also while its parent has not collected it; and who waits for it is told at the next sweep."""
    says_who = Advertise(cookie=UUID(int=1), pid=1).pack().hex()
    with listening(stage, port, timeout_s=PATIENCE_S) as client:
        command = [sys.executable, "-c", RUNTIME, str(port), says_who]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert client.target_pid() == process.pid
            process.stdin.close()  # type: ignore[union-attr]
            with pytest.raises(DiagnosticsError):  # on the connection that it has left, or already as below
                client.resume()
            with pytest.raises(ProcessNotFound, match=f"process {process.pid} has ended"):
                client.resume()


def test_a_chosen_runtime_that_does_not_dial_again_is_told_from_one_that_never_came(stage: Stage, port: Path) -> None:
    with listening(stage, port, timeout_s=0.2) as client:
        with dial(port, 1):
            assert client.target_pid() == os.getpid()
        with pytest.raises(TimedOut, match="the runtime has not connected again"):
            client.resume()
