"""``timeout_s`` is for all connecting and quick answers of a call together; slow answers have a limit of their own; whatever ends a
call, nothing of it stays open.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.hooks import USABLE
from tests.client.scripted import (
    DONE,
    HEAD_BYTES,
    INFO,
    PATIENCE_S,
    REFUSAL,
    SESSION,
    UNKNOWN,
    after,
    drips,
    eventually,
    pattern,
    says,
    says_and_waits,
    streams,
)
from tests.client.shells import Stage, within_limits

from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import RequestRefused, ServerError, TimedOut, TransportError, UsageError
from dotnetdiag.ipc.commands import OK_ID, SERVER_SET, Command
from dotnetdiag.ipc.frames import HEADER_SIZE, Frame
from dotnetdiag.ipc.process_info import ProcessInfoReply
from dotnetdiag.testing import Script

INFOS = [Command.ProcessInfo3, Command.ProcessInfo2, Command.ProcessInfo]
DUMPS = [Command.GenerateCoreDump3, Command.GenerateCoreDump2, Command.GenerateCoreDump]


@pytest.fixture
def hook(tmp_path: Path) -> str:
    path = tmp_path / "hook.dll"
    path.write_bytes(USABLE["public"])
    return str(path)


SLOW: dict[str, tuple[Command, Callable[..., object]]] = {
    "dump": (Command.GenerateCoreDump3, lambda client, hook, **limit: client.write_dump("/dump", **limit)),
    "profiler": (
        Command.AttachProfiler,
        lambda client, hook, **limit: client.attach_profiler(UUID(int=1), "/p.so", **limit),
    ),
    "hook": (Command.ApplyStartupHook, lambda client, hook, **limit: client.apply_startup_hook(hook, **limit)),
}


# how long ---------------------------------------------------------------------------------------------------------------


def test_the_timeout_is_for_all_fall_backs_together(stage: Stage) -> None:
    runtime = stage.runtime(after(0.5, says(UNKNOWN)))
    with pytest.raises(TimedOut):
        within_limits(stage.client(runtime, timeout_s=0.8).process_info)
    assert runtime.asked == INFOS[:2], "each of them alone would have been in time"


@pytest.mark.parametrize("what", SLOW)
def test_a_slow_answer_may_take_longer_than_the_timeout(stage: Stage, hook: str, what: str) -> None:
    command, call = SLOW[what]
    client = stage.client(stage.runtime({command: after(0.4, says(DONE))}), timeout_s=0.2)
    within_limits(lambda: call(client, hook))


@pytest.mark.parametrize(
    "answer", [says_and_waits(), says_and_waits(DONE[:21]), drips(DONE)], ids=["no", "half", "drip"]
)
@pytest.mark.parametrize("what", SLOW)
def test_a_slow_answer_has_a_limit_of_its_own(stage: Stage, hook: str, what: str, answer: Script) -> None:
    command, call = SLOW[what]
    client = stage.client(stage.runtime({command: answer}), timeout_s=PATIENCE_S)
    with pytest.raises(TimedOut):
        within_limits(lambda: call(client, hook, answer_timeout_s=0.1))
    stage.check()


def test_the_begin_of_a_session_may_be_waited_for_longer_than_a_quick_answer(stage: Stage) -> None:
    late = {Command.CollectTracing2: after(0.4, says_and_waits(SESSION)), Command.StopTracing: says(DONE)}
    client = stage.client(stage.runtime(late), timeout_s=0.2)
    with pytest.raises(TimedOut, match=r"the runtime has the request, and did not answer within 0\.2 s"):
        within_limits(lambda: client.trace("Some-Provider"))
    session = within_limits(lambda: client.trace("Some-Provider", answer_timeout_s=PATIENCE_S))
    session.abort()
    within_limits(session.close)
    with pytest.raises(TimedOut, match=r"within 0\.1 s"):
        within_limits(lambda: client.trace("Some-Provider", answer_timeout_s=0.1))


def test_the_limit_of_slow_answers_is_for_all_fall_backs_together(stage: Stage) -> None:
    runtime = stage.runtime(after(0.5, says(UNKNOWN)))
    with pytest.raises(TimedOut):
        within_limits(lambda: stage.client(runtime).write_dump("/dump", answer_timeout_s=0.8))
    assert runtime.asked == DUMPS[:2]


@pytest.mark.parametrize("what", SLOW)
@pytest.mark.parametrize("limit", [-1.0, math.nan])
def test_a_limit_that_makes_no_sense_is_refused_before_anything_is_sent(
    stage: Stage, hook: str, what: str, limit: float
) -> None:
    runtime = stage.runtime(says(DONE))
    with pytest.raises(UsageError):
        SLOW[what][1](stage.client(runtime), hook, answer_timeout_s=limit)
    with pytest.raises(UsageError):
        SLOW[what][1](stage.client(runtime, timeout_s=limit), hook)
    assert runtime.asked == []


@pytest.mark.parametrize("timeout_s", [-1.0, math.inf, math.nan, 2**32 / 1000])
def test_a_time_that_a_profiler_cannot_be_given_is_refused_before_anything_is_sent(
    stage: Stage, timeout_s: float
) -> None:
    runtime = stage.runtime(says(DONE))
    with pytest.raises(UsageError, match="a timeout of"):
        stage.client(runtime).attach_profiler(UUID(int=1), "/p.so", timeout_s=timeout_s)
    assert runtime.asked == []


@pytest.mark.parametrize("timeout_s", [30 * 86400.0, 1e300, math.inf])
def test_any_timeout_can_be_waited_for(stage: Stage, timeout_s: float) -> None:
    client = stage.client(stage.runtime(after(0.05, says(REFUSAL))), timeout_s=timeout_s)
    with pytest.raises(ServerError):
        within_limits(client.process_info)
    with stage.client(f"{stage.folder}/port,listen", timeout_s=timeout_s) as client:
        runtime = DiallingRuntime(stage.folder / "port", dials=1)
        timer = threading.Timer(0.05, runtime.start)
        timer.start()
        assert within_limits(client.process_info).pid == 1
        timer.join()
        runtime.stop()


@pytest.fixture
def full_backlog(tmp_path: Path) -> Iterator[str]:
    """An address where nobody accepts, as that of a process that was stopped long ago."""
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as first:
        listener.bind(str(tmp_path / "full"))
        listener.listen(0)
        first.connect(str(tmp_path / "full"))
        yield str(tmp_path / "full")


@pytest.mark.parametrize("what", SLOW)
def test_connecting_is_bound_by_the_timeout_also_for_slow_answers(
    stage: Stage, hook: str, full_backlog: str, what: str
) -> None:
    with pytest.raises(TimedOut):
        within_limits(lambda: SLOW[what][1](stage.client(full_backlog, timeout_s=0.2), hook))
    with (
        stage.client(f"{stage.folder}/port,listen", timeout_s=0.2) as client,
        pytest.raises(TimedOut, match="no runtime has connected"),
    ):
        within_limits(lambda: SLOW[what][1](client, hook))


def test_asking_who_the_target_is_and_asking_it_share_the_timeout(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two steps of one call, each of which would be in time alone."""
    # the threads of this process would tell that it does not wait
    monkeypatch.setattr("dotnetdiag.transport.suspension.is_suspended", lambda *_, **__: None)
    with stage.client(f"{stage.folder}/port,listen", timeout_s=0.8) as client:
        slowly = after(0.6, says(replace(INFO, runtime_version="10.0").pack()))
        runtime = DiallingRuntime(
            stage.folder / "port", {Command.ProcessInfo3: slowly, Command.EnablePerfMap: says(DONE)}
        )
        timer = threading.Timer(0.5, runtime.start)
        timer.start()
        try:
            with pytest.raises(TimedOut):
                within_limits(client.enable_perf_map)
        finally:
            timer.join()
            runtime.stop()


# what is sent -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/dumps/x", r"C:\dumps\x.dmp", r"\\host\share\x.dmp", "C:/dumps/x", ""])
def test_a_path_that_is_absolute_anywhere_goes_out_as_it_is(stage: Stage, path: str) -> None:
    assert _path_sent(stage, path) == path


def test_a_relative_path_is_one_of_ours(stage: Stage) -> None:
    assert _path_sent(stage, "x.dmp") == f"{os.getcwd()}/x.dmp"


@pytest.mark.skipif(sys.platform == "win32", reason="keeps the working directory of a process")
def test_a_relative_path_from_a_deleted_working_directory_is_an_error_of_ours(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    runtime = stage.runtime(says(DONE))
    with pytest.raises(UsageError, match="our working directory is gone"):
        stage.client(runtime).write_dump("x.dmp")
    with pytest.raises(TransportError, match="our working directory is gone"), stage.client("port,listen") as client:
        client.target_pid()
    assert runtime.asked == []


def _path_sent(stage: Stage, path: str) -> str:
    sent: list[bytes] = []

    def script(talk: Any) -> None:
        sent.append(talk.asked.data[HEADER_SIZE:])
        talk.send(DONE)

    stage.client(stage.runtime({Command.GenerateCoreDump3: script})).write_dump(path)
    size = int.from_bytes(sent[0][:4], "little") * 2
    return sent[0][4 : 4 + size].decode("utf-16-le").rstrip("\0")


def test_a_request_that_cannot_be_packed_dials_nobody(stage: Stage) -> None:
    runtime = stage.runtime(says(DONE))
    with pytest.raises(RequestRefused):
        stage.client(runtime).set_environment_variable("x" * 70_000, "1")
    assert runtime.asked == []


# what ends a call from outside ------------------------------------------------------------------------------------------

ENVIRONMENT = Frame(command_set=SERVER_SET, command_id=OK_ID, payload=(1000).to_bytes(4, "little") + bytes(2)).pack()
CALLS: dict[str, tuple[Script, Callable[[Any], object]]] = {
    "no answer": (says_and_waits(), lambda client: client.process_info()),
    "half an answer": (says_and_waits(INFO.pack()[:30]), lambda client: client.process_info()),
    "an environment without end": (says_and_waits(ENVIRONMENT), lambda client: client.environment()),
    "a dump that takes long": (says_and_waits(), lambda client: client.write_dump("/dump")),
    "a session that does not start": (says_and_waits(), lambda client: client.trace("A")),
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_ctrl_c_in_the_middle_of_a_call_closes_its_connection(stage: Stage, what: str) -> None:
    script, call = CALLS[what]
    runtime = stage.runtime(script)
    client = stage.client(runtime, timeout_s=PATIENCE_S)

    def interrupt() -> None:
        eventually(lambda: bool(runtime.asked), "nothing was asked")
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    thread = threading.Thread(target=interrupt)
    try:
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            call(client)
    finally:
        signal.signal(signal.SIGUSR1, before)
        thread.join()
    stage.check()


@pytest.mark.parametrize("where", ["address", "full backlog", "port"])
@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_ctrl_c_while_connecting_leaves_nothing(stage: Stage, full_backlog: str, where: str) -> None:
    address = {"port": f"{stage.folder}/port,listen", "full backlog": full_backlog}.get(where)
    client = stage.client(address or stage.runtime(says_and_waits()), timeout_s=PATIENCE_S)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt), client:
            client.process_info()
    finally:
        signal.signal(signal.SIGUSR1, before)
        timer.join()


OLD_INFO = ProcessInfoReply(pid=7, cookie=UUID(int=1), command_line="x", os="Linux", arch="x64").pack()
FALLS_BACK: dict[Command, Script] = {Command.ProcessInfo: says(OLD_INFO)}
STARTS: dict[Command, Script] = {
    Command.CollectTracing2: says(SESSION, b"x"),
    Command.StopTracing: says(SESSION),
}


@pytest.mark.parametrize("stage", ["async"], indirect=True)
@pytest.mark.parametrize("what", ["process_info", "trace", "read and close"])
def test_cancelling_a_task_at_any_step_leaves_nothing(stage: Stage, what: str) -> None:
    """The task is cancelled after one turn of the loop, two turns, … until it has ended before."""
    runtime = stage.runtime({**FALLS_BACK, **STARTS})
    moments = 0

    async def act(client: AsyncClient) -> None:
        if what == "process_info":
            await client.process_info()
            return
        session = await client.trace("A", drain_timeout_s=5)
        try:
            if what == "read and close":
                while await session.read():
                    pass
        finally:
            if what == "trace":
                session.abort()
            await session.aclose()

    async def use() -> None:
        nonlocal moments
        client = AsyncClient.connect(str(runtime.path), timeout_s=5)
        while True:
            moments += 1
            task = asyncio.ensure_future(act(client))
            for _ in range(moments):
                await asyncio.sleep(0)
            if not task.cancel():
                task.result()
                break
            try:
                await task
            except asyncio.CancelledError:
                pass
        assert len(asyncio.all_tasks()) == 1

    within_limits(lambda: asyncio.run(use()))
    assert moments >= 3


@pytest.mark.parametrize("stage", ["async"], indirect=True)
def test_a_timeout_around_a_read_loses_nothing(stage: Stage) -> None:
    runtime = stage.runtime({Command.CollectTracing2: streams(0.005, size=3), Command.StopTracing: says(REFUSAL)})

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace("A")
        data, timeouts = bytearray(), 0
        while timeouts < 20 or len(data) < HEAD_BYTES + 20:
            try:
                async with asyncio.timeout(0.002):
                    data += await session.read()
            except TimeoutError:
                timeouts += 1
        assert data == pattern(1 << 20)[: len(data)]
        assert session.received_bytes == len(data)
        session.abort()
        await session.aclose()

    within_limits(lambda: asyncio.run(use()))
