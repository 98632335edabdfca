"""However a session is left, and whatever the runtime makes of it: it ends, and says how.

Each test runs one way of the runtime to take StopTracing, and at the same time every way of the stream to go on with every way of a
caller to leave.
"""

from __future__ import annotations

import _thread
import math
import socket
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import pytest
from tests.client.scripted import (
    PATIENCE_S,
    PIECE_BYTES,
    REFUSAL,
    SESSION,
    ScriptedRuntime,
    obeys,
    obeys_and_answers_late,
    pattern,
    says,
    says_and_waits,
    streams,
)
from tests.client.shells import Act, Stage, within_limits

from dotnetdiag.client import Client, progress
from dotnetdiag.client.routes import Route, WhileOpen
from dotnetdiag.client.session import STOPPER_EXIT_S, fill_from
from dotnetdiag.errors import (
    ConnectFailed,
    ConnectionEnded,
    DiagnosticsError,
    ServerError,
    TargetStopped,
    TimedOut,
    TransportError,
    UsageError,
)
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.session_life import State
from dotnetdiag.testing import Script
from dotnetdiag.transport import Deadline, Stream
from dotnetdiag.transport.deadline import LONGEST_WAIT_S

DRAIN_TIMEOUT_S = 2.0

STREAMS: dict[str, Script] = {
    "flows": streams(0.01),
    "is silent": streams(None),
    "was never heard": streams(None, head=0),
    "trickles": streams(0.05, size=1),
    "ends": says(SESSION, pattern(PIECE_BYTES)),
    "resets": says(SESSION, pattern(PIECE_BYTES)),
}
ENDED_BY_ITSELF = ("ends", "resets")

STOPS: dict[str, tuple[Script | None, type[DiagnosticsError] | None]] = {
    "obeyed": (obeys, None),
    "answered late": (obeys_and_answers_late, None),
    "refused": (says(REFUSAL), ServerError),
    "unanswered": (says_and_waits(), TimedOut),
    "hung up": (says(), ConnectionEnded),
    "answered, and nothing else": (says(SESSION), TimedOut),
    "undeliverable": (None, ConnectFailed),
}
"""What the runtime makes of StopTracing, and what the session's problem is then. None: its socket is deleted meanwhile."""


class Broken(Exception):
    """Of the caller's own block."""


def stops_and_reads(session: Any, file: Path) -> None:
    session.stop()
    with file.open("wb") as out:
        while data := session.read():
            out.write(data)


def stops_and_iterates(session: Any, file: Path) -> None:
    with file.open("wb") as out:
        session.stop()
        for data in session:
            out.write(data)


def saves(session: Any, file: Path) -> None:
    assert session.save(file, duration=0.1) == file.stat().st_size


def stops_and_reads_into_a_buffer(session: Any, file: Path) -> None:
    session.stop()
    view = memoryview(bytearray(1000))
    with file.open("wb") as out:
        while size := session.read_into(view):
            out.write(view[:size])


def closes(session: Any, file: Path) -> None:
    session.close()


def leaves_its_block(session: Any, file: Path) -> None:
    with session:
        pass


def fails_in_its_block(session: Any, file: Path) -> None:
    with session:
        raise Broken


LEAVES: tuple[Callable[[Any, Path], None], ...] = (
    stops_and_reads,
    stops_and_iterates,
    stops_and_reads_into_a_buffer,
    saves,
    closes,
    leaves_its_block,
    fails_in_its_block,
)
KEEPS = (stops_and_reads, stops_and_iterates, stops_and_reads_into_a_buffer, saves)


def raised(leave: Callable[[Any, Path], None], problem: type[DiagnosticsError] | None) -> type[BaseException] | None:
    """What the caller is to see."""
    if leave is fails_in_its_block:
        return Broken
    return problem if leave in KEEPS or problem is ServerError else None


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("how", STOPS)
def test_a_session_ends_however_it_is_left(stage: Stage, tmp_path: Path, how: str) -> None:
    stop, problem = STOPS[how]
    acts: list[tuple[str, Callable[[Any, Path], None], Any, Path, Act]] = []
    for kind, stream in STREAMS.items():
        for leave in LEAVES:
            scripts = {Command.CollectTracing2: stream, Command.StopTracing: stop or says()}
            runtime = stage.runtime(scripts, leaves_unread=kind == "resets")
            session = stage.client(runtime).trace("A", drain_timeout_s=DRAIN_TIMEOUT_S)
            if stop is None:
                runtime.path.unlink()
            file = tmp_path / f"{leave.__name__} {kind}"
            acts.append((kind, leave, session, file, _started(leave, session, file)))
    for kind, leave, session, file, act in acts:
        what = f"{leave.__name__}: a stream that {kind}, {how}"
        looks_suspended = kind == "was never heard" and stop is not None  # it answers questions: no StopTracing is sent
        expected = None if kind in ENDED_BY_ITSELF or looks_suspended else problem
        seen = act.finish().error
        assert type(seen) is (raised(leave, expected) or type(None)), (what, seen)
        assert type(session.problem) is (expected or type(None)), what
        assert session.state is (State.ENDED if expected is None else State.BROKEN), what
        if kind not in ENDED_BY_ITSELF:
            assert session.was_stopped, what
        if leave in KEEPS:
            data = file.read_bytes()
            assert data == pattern(1 << 20)[: len(data)], what
            assert len(data) == session.received_bytes, what
        if kind in ENDED_BY_ITSELF:
            assert session.received_bytes == PIECE_BYTES, what
        for _ in range(2):
            session.close()
        assert session.read() == b"", what


def _started(leave: Callable[[Any, Path], None], session: Any, file: Path) -> Act:
    return Act(lambda: leave(session, file), f"{leave.__name__} {file.name}")


def test_whatever_keeps_a_stop_from_being_sent_is_told_to_who_reads(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_: object) -> None:
        raise ValueError("filedescriptor out of range in select()")

    monkeypatch.setattr(progress.Followed, "_is_suspended", fail)
    monkeypatch.setattr(progress, "GRACE_S", 0.2)
    session = stage.client(stage.runtime({Command.CollectTracing2: streams(None, head=0)})).trace("A")
    with pytest.raises(TransportError, match="StopTracing was not sent: filedescriptor out of range"):
        within_limits(lambda: session.save(tmp_path / "out", duration=0.05))
    assert isinstance(session.problem.__cause__, ValueError)
    session.close()


@pytest.mark.parametrize("timeout_s", [math.nan, -1])
def test_a_close_within_what_is_no_time_is_refused_before_anything_is_sent(stage: Stage, timeout_s: float) -> None:
    runtime = stage.runtime({Command.CollectTracing2: streams(0.01), Command.StopTracing: obeys})
    session = stage.client(runtime).trace("A")
    assert session.read()
    with pytest.raises(UsageError):
        session.close(timeout_s=timeout_s)
    assert (session.state, session.was_stopped) == (State.STREAMING, False)
    assert session.read()
    session.close(timeout_s=10**400)
    assert session.state is State.ENDED


# what a synchronous session does with its threads -----------------------------------------------------------------------------


class Lock:
    """Held by somebody who never gives it up."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def acquire(self, timeout: float) -> bool:
        self.waited.append(timeout)
        return False


def sync_session(tmp_path: Path, stream: Script, stop: Script) -> tuple[Any, Any]:
    runtime = ScriptedRuntime(tmp_path / "socket", {Command.CollectTracing2: stream, Command.StopTracing: stop})
    return runtime, Client.connect(str(runtime.path), timeout_s=5).trace("A", drain_timeout_s=DRAIN_TIMEOUT_S)


def test_somebody_who_reads_is_waited_for_as_long_as_the_close_may_take(tmp_path: Path) -> None:
    runtime, session = sync_session(tmp_path, streams(0.01), obeys)
    with closing(runtime):
        lock, session._reading = session._reading, Lock()
        session.close(timeout_s=0.3)
        assert session._reading.waited == [pytest.approx(0.3 + 2 * progress.TICK_S)]
        session._reading = lock


@pytest.mark.parametrize("size", [1000, 1 << 20])
def test_a_buffer_is_filled_until_nothing_more_comes(tmp_path: Path, size: int) -> None:
    runtime, session = sync_session(tmp_path, streams(0.001), obeys)
    with closing(runtime):
        session.stop()
        view, data = memoryview(bytearray(size)), b""
        while count := fill_from(session, view, timeout_s=5, quiet_s=0.05):
            data += view[:count]
        assert data == pattern(1 << 20)[: len(data)]
        assert len(data) == session.received_bytes > 0
        assert session.state is State.ENDED
        assert fill_from(session, view, timeout_s=5, quiet_s=0.05) == 0


def test_what_breaks_a_session_is_told_to_who_fills(tmp_path: Path) -> None:
    runtime, session = sync_session(tmp_path, streams(0.001), says())
    with closing(runtime):
        session.stop()
        view = memoryview(bytearray(1000))

        def fill_all() -> None:
            while fill_from(session, view, timeout_s=5, quiet_s=0.001):
                pass

        with pytest.raises(ConnectionEnded):
            fill_all()


@pytest.mark.parametrize(("timeout_s", "waited"), [(0.2, 0.2), (None, LONGEST_WAIT_S), (1e9, LONGEST_WAIT_S)])
def test_who_reads_waits_for_its_turn(tmp_path: Path, timeout_s: float | None, waited: float) -> None:
    runtime, session = sync_session(tmp_path, streams(0.01), obeys)
    with closing(runtime):
        lock, session._reading = session._reading, Lock()
        with pytest.raises(TimedOut, match="somebody else reads this session"):
            session.read(timeout_s=timeout_s)
        assert session._reading.waited == [waited]
        session._reading = lock
        session.close()


@pytest.mark.parametrize("is_aborted", [False, True])
def test_an_answer_to_a_stop_is_waited_for_unless_nobody_wants_the_rest(tmp_path: Path, is_aborted: bool) -> None:
    runtime, session = sync_session(tmp_path, streams(0.01), obeys)
    with closing(runtime):
        session.stop()
        if is_aborted:
            session.abort()
        waited: list[float] = []
        session._stop_ends_within = waited.append  # it never does
        session.close()
        assert waited == [0 if is_aborted else STOPPER_EXIT_S, STOPPER_EXIT_S]


def test_a_stop_without_a_thread_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    runtime, session = sync_session(tmp_path, streams(0.01), obeys)
    with closing(runtime):
        with monkeypatch.context() as context:
            context.setattr(_thread, "start_new_thread", no_thread)
            session.stop()
        with pytest.raises(TransportError, match="StopTracing was not sent: can't start new thread"):
            list(session)
        assert Command.StopTracing not in runtime.asked
        session.close()


def test_a_session_that_ended_by_itself_waits_for_no_stop(tmp_path: Path) -> None:
    runtime, session = sync_session(tmp_path, says(SESSION, pattern(PIECE_BYTES)), obeys)
    with closing(runtime):
        assert b"".join(session) == pattern(PIECE_BYTES)
        session._stop_ends_within = None  # nobody may wait
        session.close()
        assert session.state is State.ENDED


def test_a_target_that_is_stopped_when_its_session_is_to_end_is_dialled_until_it_goes_on() -> None:
    """It was taken for a stop that failed: what it still had was lost after a second."""
    ours, theirs = socket.socketpair()

    class Stopped(Route):
        left = 3

        def dial(self, deadline: Deadline) -> Any:
            self.left -= 1
            if self.left:
                raise TargetStopped("process 7 is stopped (state T)", pid=7)
            return ours

    class Open:
        address = "x"

        def fileno(self) -> int:
            return 0

    found: Any = WhileOpen(Stopped(), cast("Stream", Open())).dial(Deadline(PATIENCE_S))
    assert found is ours
    with pytest.raises(TimedOut, match="no connection"):
        WhileOpen(Stopped(), cast("Stream", Open())).dial(Deadline(0.1))
    ours.close()
    theirs.close()
