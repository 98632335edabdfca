"""One session: what may be called when, from where, and what is true afterwards."""

from __future__ import annotations

import _thread
import asyncio
import itertools
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

import pytest
from tests.client.dialling import DiallingRuntime
from tests.client.scripted import (
    HEAD_BYTES,
    PATIENCE_S,
    REFUSAL,
    SESSION,
    UNKNOWN,
    ScriptedRuntime,
    eventually,
    obeys,
    pattern,
    says,
    says_and_waits,
    streams,
)
from tests.client.shells import Act, Stage, within_limits

from dotnetdiag.client import Client, progress, saving
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.progress import STOPPED_TICKS, TICK_S, SessionProgress
from dotnetdiag.client.sink import FileSink
from dotnetdiag.errors import (
    GrammarError,
    OutputError,
    RuntimeTooOld,
    ServerError,
    TargetStopped,
    TimedOut,
    TransportError,
    UsageError,
)
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.session_life import State
from dotnetdiag.testing import Script, Talk
from dotnetdiag.transport import Deadline

COLLECT, STOP = Command.CollectTracing2, Command.StopTracing
GOOD: dict[Command, Script] = {COLLECT: streams(None), STOP: obeys}
FLOWS: dict[Command, Script] = {COLLECT: streams(0.01), STOP: obeys}
SILENT: dict[Command, Script] = {COLLECT: streams(None), STOP: says_and_waits()}


# read -------------------------------------------------------------------------------------------------------------------


def test_a_read_that_timed_out_can_be_repeated(stage: Stage) -> None:
    more = threading.Event()

    def script(talk: Talk) -> None:
        talk.send(SESSION)
        assert more.wait(PATIENCE_S)
        talk.send(b"late")
        talk.wait_until_hung_up()

    session = stage.client(stage.runtime({COLLECT: script, STOP: obeys})).trace("A")
    for _ in range(3):
        with pytest.raises(TimedOut, match=r"nothing arrived within 0\.02 s"):
            session.read(timeout_s=0.02)
        assert session.state is State.STREAMING
        assert session.problem is None
    more.set()
    assert session.read(2) == b"la"
    assert session.read() == b"te"
    assert session.received_bytes == 4
    session.abort()
    session.close()


def test_a_read_of_no_bytes_is_a_mistake_that_costs_nothing(stage: Stage) -> None:
    with stage.client(stage.runtime(GOOD)).trace("A") as session:
        for size in (0, -1):
            with pytest.raises(UsageError):
                session.read(size)
        with pytest.raises(UsageError):
            session.read(timeout_s=-1.0)
        assert session.problem is None
        assert session.read() == pattern(HEAD_BYTES)


def test_a_session_that_ends_by_itself_was_not_stopped(stage: Stage, tmp_path: Path) -> None:
    runtime = stage.runtime({COLLECT: says(SESSION, b"x" * 1000)})
    session = stage.client(runtime).trace("A")
    assert session.save(tmp_path / "out", duration=PATIENCE_S) == 1000
    assert (session.state, session.problem, session.was_stopped) == (State.ENDED, None, False)
    session.close()
    assert not session.was_stopped
    assert runtime.asked == [COLLECT]


@pytest.mark.parametrize("drain_timeout_s", [0.3])
def test_the_limit_of_the_end_is_for_all_reads_together(stage: Stage, drain_timeout_s: float) -> None:
    """A stream that never ends, although the stop was answered, is not read for ever: each piece begins no new wait."""
    runtime = stage.runtime({COLLECT: streams(0.02, size=1), STOP: says(SESSION)})
    session = stage.client(runtime).trace("A", drain_timeout_s=drain_timeout_s)
    session.stop()

    def read_all() -> None:
        while session.read(1):
            pass

    act = Act(read_all).finish()
    assert isinstance(act.error, TimedOut)
    assert act.error is session.problem
    assert act.error.timeout_s == drain_timeout_s
    assert session.state is State.BROKEN
    assert session.received_bytes < 1000
    session.close()


@pytest.mark.parametrize(("first", "second"), [(0.2, None), (None, 0.2), (0.2, PATIENCE_S), (PATIENCE_S, 0.2)])
def test_of_two_limits_of_the_end_the_shorter_one_holds(
    stage: Stage, first: float | None, second: float | None
) -> None:
    session = stage.client(stage.runtime(SILENT)).trace("A", drain_timeout_s=first)
    if second is None:
        session.stop()
        with pytest.raises(TimedOut):
            within_limits(lambda: session.read(10_000) and session.read())
    else:
        within_limits(lambda: session.close(timeout_s=second))
    assert isinstance(session.problem, TimedOut)
    assert session.problem.timeout_s == 0.2
    session.close()


# stop, abort, close -----------------------------------------------------------------------------------------------------


def test_stop_is_sent_once_however_often_and_wherever_it_is_called(stage: Stage) -> None:
    runtime = stage.runtime(GOOD)
    session = stage.client(runtime).trace("A")
    callers = [Act(session.stop) for _ in range(20)]
    for caller in callers:
        caller.result()
    session.stop()
    assert session.was_stopped
    assert sum(map(len, session)) > HEAD_BYTES
    session.stop()
    session.close()
    assert runtime.asked.count(STOP) == 1
    assert session.state is State.ENDED


def test_another_thread_may_stop_what_a_thread_saves(stage: Stage, tmp_path: Path) -> None:
    """Of an asyncio session too: by itself, without a way into the loop."""
    runtime = stage.runtime(FLOWS)
    session = stage.client(runtime).trace("A")
    saving = Act(lambda: session.save(tmp_path / "out"))
    eventually(lambda: session.received_bytes > HEAD_BYTES, "nothing came")
    stop = session.inner.stop if stage.is_async else session.stop
    Act(stop).result()
    assert saving.result() == (tmp_path / "out").stat().st_size
    assert session.state is State.ENDED
    session.close()


def test_abort_lets_save_return_what_it_has(stage: Stage, tmp_path: Path) -> None:
    session = stage.client(stage.runtime(SILENT)).trace("A")
    saving = Act(lambda: session.save(tmp_path / "out"))
    eventually(lambda: session.received_bytes == HEAD_BYTES, "nothing came")
    session.abort()
    assert saving.result() == HEAD_BYTES
    assert (tmp_path / "out").read_bytes() == pattern(HEAD_BYTES)
    assert (session.state, session.problem) == (State.BROKEN, None)
    session.close()


@pytest.mark.parametrize("stopped", [True, False])
def test_a_session_that_was_aborted_and_closed_is_over(stage: Stage, stopped: bool) -> None:
    runtime = stage.runtime(SILENT)
    session = stage.client(runtime).trace("A")
    if stopped:
        session.stop()
        runtime.wait_for(STOP)
    session.abort()
    session.abort()
    within_limits(session.close)
    within_limits(session.close)
    assert session.state is State.BROKEN
    assert session.was_stopped is stopped
    assert session.read() == b""
    stage.check()


def test_close_of_a_silent_target_is_over_after_its_time_and_says_why(stage: Stage) -> None:
    session = stage.client(stage.runtime(SILENT)).trace("A")
    within_limits(lambda: session.close(timeout_s=0.2))
    assert isinstance(session.problem, TimedOut)
    assert session.state is State.BROKEN
    stage.check()


def test_close_reads_what_comes_before_the_end(stage: Stage) -> None:
    session = stage.client(stage.runtime(FLOWS)).trace("A")
    session.close()
    assert session.received_bytes > HEAD_BYTES
    assert (session.state, session.problem, session.was_stopped) == (State.ENDED, None, True)


def test_close_ends_the_wait_of_a_stop_that_is_not_answered(stage: Stage) -> None:
    """The stream has ended, the answer does not come, and nobody waits half an hour for it."""

    def ends_only(talk: Talk) -> None:
        talk.stop_session()
        talk.wait_until_hung_up()

    session = stage.client(stage.runtime({COLLECT: streams(None), STOP: ends_only})).trace("A")
    session.stop()
    while session.read():
        pass
    assert session.state is State.ENDED
    within_limits(session.close)
    stage.check()


@pytest.mark.parametrize("dials_again", [False, True])
def test_a_stop_that_still_tries_to_connect_ends_with_the_session(stage: Stage, dials_again: bool) -> None:
    """The connection is tried for ``timeout_s``, but not for a session that was closed: its number may be another one's by then."""
    with (
        stage.client(f"{stage.folder}/port,listen", timeout_s=3600.0) as client,
        DiallingRuntime(stage.folder / "port", SILENT, dials=1) as runtime,
    ):
        session = client.trace("A")
        before = _thread._count()
        session.stop()
        session.abort()
        within_limits(session.close)
        runtime.wait_until_idle()  # it dials no more
        if dials_again:
            with DiallingRuntime(stage.folder / "port", {STOP: says(SESSION)}) as again:
                assert client.process_info().pid == 1
            assert STOP not in again.asked
        eventually(lambda: _thread._count() < before and not stage.shell.tasks(), "the stop still tries")


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("stream", [streams(0.01), streams(None)], ids=["flows", "is silent"])
def test_a_stop_that_failed_makes_the_end_short(stage: Stage, tmp_path: Path, stream: Script) -> None:
    """Whatever the limit of the end is: nothing more is to be expected."""
    session = stage.client(stage.runtime({COLLECT: stream, STOP: says(REFUSAL)})).trace("A", drain_timeout_s=None)
    with pytest.raises(ServerError):
        within_limits(lambda: session.save(tmp_path / "out", duration=0.1))
    assert session.state is State.BROKEN
    session.close()


def test_many_saves_at_once_all_hear_of_their_stop(stage: Stage, tmp_path: Path) -> None:
    """More than a pool of threads has for things that take a moment."""
    count = 20
    sessions = [stage.client(stage.runtime(FLOWS)).trace("A", drain_timeout_s=PATIENCE_S) for _ in range(count)]
    saves = [
        Act(lambda session=session, number=number: session.save(tmp_path / str(number), duration=0.3))  # type: ignore[misc]
        for number, session in enumerate(sessions)
    ]
    for number, (session, saved) in enumerate(zip(sessions, saves, strict=True)):
        assert saved.result() == (tmp_path / str(number)).stat().st_size > HEAD_BYTES
        assert (session.state, session.problem) == (State.ENDED, None)
        session.close()


# signal handlers --------------------------------------------------------------------------------------------------------


def interrupted_before_each_line(
    act: Callable[[], object], handler: Callable[[], object], modules: tuple[str, ...], prepare: Callable[[], None]
) -> int:
    """Call ``act`` again and again, with ``handler`` called by a signal before another line of ``modules`` each time."""
    wanted, lines = 0, 0

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal lines
        if not frame.f_code.co_filename.endswith(modules):
            return None
        if event == "line":
            lines += 1
            if lines == wanted:
                signal.raise_signal(signal.SIGUSR1)
        return trace

    before = signal.signal(signal.SIGUSR1, lambda *_: handler())
    tracer = sys.gettrace()
    try:
        while wanted <= lines:
            prepare()
            wanted, lines = wanted + 1, 0
            sys.settrace(trace)
            try:
                act()
            finally:
                sys.settrace(tracer)
    finally:
        signal.signal(signal.SIGUSR1, before)
    return wanted - 1


@pytest.mark.parametrize(
    ("act", "signalled"),
    [("stop", "stop"), ("stop", "abort"), ("stop", "close"), ("close", "stop"), ("close", "abort"), ("close", "close")],
)
@pytest.mark.parametrize("stage", ["sync"], indirect=True)
@pytest.mark.usefixtures("hasty")
def test_a_signal_handler_may_end_a_session_before_any_line_of_its_end(stage: Stage, act: str, signalled: str) -> None:
    """As Ctrl-C in the very moment when the duration is over. The handler is called in the thread that it interrupts."""
    runtime = stage.runtime(GOOD)
    sessions: list[Any] = []

    def prepare() -> None:
        sessions.append(stage.client(runtime).trace("A"))

    def call(name: str) -> None:
        getattr(sessions[-1], name)(**({"timeout_s": 0.3} if name == "close" else {}))

    modules = tuple(os.path.join("client", name) for name in ("session.py", "progress.py"))
    tried = interrupted_before_each_line(lambda: call(act), lambda: call(signalled), modules, prepare)
    assert tried >= 5
    for session in sessions:
        session.close()
        assert session.state in (State.ENDED, State.BROKEN)
    assert runtime.asked.count(STOP) <= len(sessions)


def test_a_signal_handler_may_stop_an_asyncio_session_that_waits(tmp_path: Path) -> None:
    """Nothing else happens on the loop: the signal alone must wake it."""
    runtime = ScriptedRuntime(tmp_path / "s", GOOD)

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace("A")
        before = signal.signal(signal.SIGUSR1, lambda *_: session.stop())
        try:
            assert len(await session.read()) == HEAD_BYTES
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            while await session.read():
                pass
            timer.join()
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert session.state is State.ENDED
        await session.aclose()

    try:
        asyncio.run(asyncio.wait_for(use(), PATIENCE_S))
    finally:
        runtime.close()


# save -------------------------------------------------------------------------------------------------------------------


def test_a_disk_that_is_full_is_told_and_the_session_can_be_ended(stage: Stage) -> None:
    session = stage.client(stage.runtime(FLOWS)).trace("A")
    with pytest.raises(OutputError, match="No space left on device; 0 bytes were written"):
        within_limits(lambda: session.save("/dev/full", duration=PATIENCE_S))
    assert (session.state, session.problem, session.was_stopped) == (State.STREAMING, None, False)
    session.close()
    assert session.state is State.ENDED


def test_a_file_that_cannot_be_made_costs_no_byte(stage: Stage, tmp_path: Path) -> None:
    session = stage.client(stage.runtime(GOOD)).trace("A")
    with pytest.raises(OutputError, match="No such file"):
        session.save(tmp_path / "missing" / "out")
    with pytest.raises(OutputError, match="Is a directory"):
        session.save(tmp_path)
    assert session.received_bytes == 0
    session.stop()
    assert session.save(tmp_path / "out") > HEAD_BYTES
    session.close()


def test_a_second_recording_into_a_file_waits_for_the_end_of_the_first(stage: Stage, tmp_path: Path) -> None:
    first, second = (stage.client(stage.runtime(FLOWS)).trace("A") for _ in range(2))
    saving = Act(lambda: first.save(tmp_path / "out"))
    eventually(lambda: first.received_bytes > 0, "nothing came")
    with pytest.raises(OutputError, match="another recording writes into this file"):
        second.save(tmp_path / "out")
    first.stop()
    assert saving.result() == (tmp_path / "out").stat().st_size
    second.stop()
    assert second.save(tmp_path / "out") == (tmp_path / "out").stat().st_size
    for session in (first, second):
        session.close()


class Mine(BaseException):
    """Not even an Exception."""


@pytest.mark.parametrize(
    "error", [BrokenPipeError("mine"), KeyError("mine"), Mine()], ids=lambda error: type(error).__name__
)
@pytest.mark.parametrize("call", ["tee", "progress"])
def test_what_the_caller_s_own_functions_raise_goes_through(
    stage: Stage, tmp_path: Path, call: str, error: BaseException
) -> None:
    """It is not blamed on the file, which holds what had arrived, and the session can still be ended."""
    calls: list[int] = []

    def fails(argument: Any) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise error

    session = stage.client(stage.runtime(FLOWS)).trace("A")
    act = Act(lambda: session.save(tmp_path / "out", duration=PATIENCE_S, **{call: fails})).finish()
    assert act.error is error
    data = (tmp_path / "out").read_bytes()
    assert data == pattern(1 << 20)[: len(data)]
    assert len(data) == session.received_bytes
    assert (session.state, session.problem) == (State.STREAMING, None)
    session.close()
    assert session.state is State.ENDED


def test_a_tee_that_runs_out_of_its_own_items_ends_the_save(stage: Stage, tmp_path: Path) -> None:
    """A coroutine that raises StopIteration raises RuntimeError (PEP 479)."""
    session = stage.client(stage.runtime(FLOWS)).trace("A")
    act = Act(lambda: session.save(tmp_path / "out", tee=lambda _: next(iter(())))).finish()
    assert isinstance(act.error, RuntimeError if stage.is_async else StopIteration)
    session.close()


def test_progress_is_told_several_times_a_second_and_of_the_whole_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces, seconds = 1000, itertools.count(5, 0.001)

    class Stream:
        left = pieces

        def receive_into(self, view: memoryview, _: Deadline) -> int:
            self.left -= 1
            return 10 if self.left >= 0 else 0

        def close(self) -> None:
            pass

    monkeypatch.setattr(saving, "time", SimpleNamespace(monotonic=lambda: next(seconds), sleep=lambda _: None))
    told: list[int] = []
    followed = SessionProgress(None, "")
    stream: Any = Stream()
    saving.save_stream(followed, stream, tmp_path / "out", duration_s=None, stop=lambda: None, report=told.append)
    assert told == sorted(told)
    assert told[-1] == 10 * pieces
    assert 3 < len(told) < (next(seconds) - 5) / TICK_S + 3


def test_what_arrives_is_in_the_file_although_nothing_follows(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of a stream that was fast before: a quiet moment brings into the file what waits for more."""
    monkeypatch.setattr(FileSink, "_is_fast", lambda self: True)
    go_on = threading.Event()

    def script(talk: Talk) -> None:
        talk.send(SESSION + b"x" * (12 << 20) + b"y" * 100)
        assert go_on.wait(PATIENCE_S)

    session = stage.client(stage.runtime({COLLECT: script})).trace("A")
    saving = Act(lambda: session.save(tmp_path / "out"))
    eventually(lambda: (tmp_path / "out").exists() and (tmp_path / "out").stat().st_size == (12 << 20) + 100, "held")
    go_on.set()
    assert saving.result() == (12 << 20) + 100
    session.close()


def test_progress_and_tee_are_told_of_every_byte(stage: Stage, tmp_path: Path) -> None:
    told: list[int] = []
    seen = bytearray()
    session = stage.client(stage.runtime(FLOWS)).trace("A")
    size = session.save(tmp_path / "out", duration=0.2, progress=told.append, tee=seen.extend)
    assert seen == (tmp_path / "out").read_bytes()
    assert told == sorted(told)
    assert told[-1] == size
    session.close()


# before anything is sent ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"drain_timeout_s": -1.0}, UsageError),
        ({"drain_timeout_s": float("nan")}, UsageError),
        ({"duration": -1}, UsageError),
        ({"duration": "tomorrow"}, GrammarError),
        ({"buffer_mb": 64.0}, UsageError),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_sent(
    stage: Stage, options: dict[str, Any], error: type[Exception]
) -> None:
    runtime = stage.runtime(GOOD)
    with pytest.raises(error):
        stage.client(runtime).trace("A", **options)
    assert runtime.asked == []


def test_a_session_without_stacks_is_not_started_with_them(stage: Stage) -> None:
    """A runtime that knows neither CollectTracing3 nor 4, as .NET 8."""
    runtime = stage.runtime({COLLECT: says(SESSION), STOP: says(SESSION)})
    with pytest.raises(RuntimeTooOld):
        stage.client(runtime).trace("A", rundown_keyword=1, rundown_fallback=0, stackwalk=False)
    assert COLLECT not in runtime.asked
    session = stage.client(runtime).trace("A", rundown_keyword=1, rundown_fallback=0)
    assert session.command == COLLECT.name
    session.close()


def test_every_refused_start_leaves_nothing(stage: Stage) -> None:
    runtime = stage.runtime({COLLECT: says(UNKNOWN)})
    with pytest.raises(RuntimeTooOld):
        stage.client(runtime).trace("A")


# asyncio only -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["async"], indirect=True)
def test_reading_what_is_there_lets_other_tasks_have_their_turn(stage: Stage) -> None:
    def script(talk: Talk) -> None:
        talk.send(SESSION + bytes(150_000))
        talk.wait_until_hung_up()

    runtime = stage.runtime({COLLECT: script})

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace("A")
        turns = 0

        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        for _ in range(1000):
            assert await session.read(1)
        task.cancel()
        assert turns >= 900

        async def read_on() -> None:
            while await session.read(1):
                pass

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(read_on(), 0.1)
        assert session.state is State.STREAMING
        session.abort()
        await session.aclose()

    within_limits(lambda: asyncio.run(use()))


@pytest.mark.parametrize("stage", ["async"], indirect=True)
@pytest.mark.parametrize("moment", ["read", "save", "aclose", "aclose, twice"])
def test_cancelling_whatever_waits_for_a_session_leaves_nothing(stage: Stage, tmp_path: Path, moment: str) -> None:
    runtime = stage.runtime(SILENT)

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace("A")
        act = {
            "read": lambda: session.read(1000),
            "save": lambda: session.save(tmp_path / "out"),
        }.get(moment, session.aclose)
        if moment == "read":
            assert len(await session.read()) == HEAD_BYTES
        task = asyncio.ensure_future(act())  # type: ignore[no-untyped-call]
        await asyncio.sleep(0.05)
        for _ in range(2 if moment.endswith("twice") else 1):
            task.cancel()
            await asyncio.sleep(0.02)
        with pytest.raises(asyncio.CancelledError):
            await task
        if moment == "save":
            assert (tmp_path / "out").read_bytes() == pattern(HEAD_BYTES)
        await session.aclose(timeout_s=0.1)
        assert len(asyncio.all_tasks()) == 1

    within_limits(lambda: asyncio.run(use()))


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_two_tasks_that_read_a_session_take_turns(stage: Stage) -> None:
    runtime = stage.runtime(GOOD)

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace("A")
        assert len(await session.read()) == HEAD_BYTES
        first = asyncio.ensure_future(session.read())
        await asyncio.sleep(0.02)
        with pytest.raises(TimedOut):
            await session.read(timeout_s=0.3)
        second = asyncio.ensure_future(session.read())
        session.stop()
        assert await first + await second
        assert session.problem is None
        await session.aclose()

    within_limits(lambda: asyncio.run(use()))


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_ctrl_c_while_a_session_is_read_leaves_its_block_at_once(stage: Stage) -> None:
    """The block's end stops the session; a target that obeys has its end read."""
    runtime = stage.runtime(GOOD)
    client: Client = stage.client(runtime)
    before = signal.signal(signal.SIGUSR1, signal.default_int_handler)
    try:
        session = client.trace("A")
        assert len(session.read()) == HEAD_BYTES
        timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
        timer.start()
        with pytest.raises(KeyboardInterrupt), session:
            session.read()
    finally:
        signal.signal(signal.SIGUSR1, before)
    timer.join()
    assert session.state is State.ENDED
    stage.check()


def test_target_that_a_signal_has_stopped_is_waited_for_so_long_in_the_end_of_a_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It may be continued: then the limit of the end holds as before."""
    stopped = TargetStopped("process 7 is stopped", pid=7)
    state = ["T"]
    monkeypatch.setattr(progress, "stopped_error", lambda pid, _: stopped if state == ["T"] and pid == 7 else None)
    followed, tick, patience = SessionProgress(600.0, "x", 7), TimedOut("nothing"), Deadline(None)
    for _ in range(3 * STOPPED_TICKS):
        followed.failed(tick, patience)  # nobody has asked for the end
    assert followed.claim_stop()
    followed.next_wait(patience)
    for state[0] in "TST":
        for _ in range(STOPPED_TICKS):
            followed.failed(tick, patience)
    with pytest.raises(TargetStopped):
        followed.failed(tick, patience)
    assert followed.is_over
    assert followed.problem is stopped


def test_a_look_that_finds_no_free_descriptor_does_not_cut_the_end_of_a_stream(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = threading.Event()

    def none_left(*_: object) -> None:
        looked.set()
        raise TransportError("this program has no free file descriptor left")

    def script(talk: Talk) -> None:
        talk.send(SESSION + b"head")
        assert looked.wait(PATIENCE_S)
        talk.send(b"rundown")

    monkeypatch.setattr(progress, "stopped_error", none_left)
    session = stage.client(stage.runtime({COLLECT: script, STOP: says(SESSION)})).trace("A")
    session.stop()
    assert within_limits(lambda: session.save(tmp_path / "x")) == len(b"headrundown")
    assert (session.state, session.problem) == (State.ENDED, None)
    session.close()


@pytest.mark.parametrize("shell", [Client, AsyncClient])
def test_client_of_something_that_is_neither_a_pid_nor_a_route_says_what_takes_an_address(shell: Any) -> None:
    for target in ("/path,connect", None, 1.5):
        with pytest.raises(UsageError, match=r"connect\(\) takes an address"):
            shell(target)
