"""Sessions whose events go to the kernel: they end whatever the runtime makes of it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from tests.client.scripted import REFUSAL, SESSION, after, eventually, obeys, says, says_and_waits, says_pid
from tests.client.shells import Act, Stage, within_limits

from dotnetdiag.client import commands, user_events
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import ConnectFailed, ConnectionEnded, DiagnosticsError, RequestRefused, ServerError, TimedOut
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.eventpipe import Provider, Tracepoints
from dotnetdiag.ipc.session_life import State
from dotnetdiag.testing import Script, Talk

PROVIDER = Provider(name="X", tracepoints=Tracepoints(default="x"))
START, STOP, WHO = Command.CollectTracing5, Command.StopTracing, Command.ProcessInfo3
KNOWN = says_pid(os.getpid())


@pytest.fixture(autouse=True)
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One with user_events, and little patience."""
    monkeypatch.setattr(user_events, "PLACES", (str(tmp_path / "user_events_data"),))
    (tmp_path / "user_events_data").write_bytes(b"events")
    monkeypatch.setattr(commands, "CLOSE_TIMEOUT_S", 0.3)


def starts(talk: Talk) -> None:
    """Takes the descriptor, answers, and watches the connection."""
    descriptor = talk.receive_descriptor()
    assert os.read(descriptor, 10) == b"events"
    os.close(descriptor)
    talk.send(SESSION)
    talk.wait_until_hung_up()


STOPS: dict[str, tuple[Script, type[DiagnosticsError] | None]] = {
    "answered": (says(SESSION), None),
    "refused": (says(REFUSAL), ServerError),
    "unanswered": (says_and_waits(), TimedOut),
    "hung up": (says(), ConnectionEnded),
    "undeliverable": (says(), ConnectFailed),
}


@pytest.mark.parametrize("how", STOPS)
def test_a_session_ends_by_the_end_of_its_connection(stage: Stage, how: str) -> None:
    stop, problem = STOPS[how]
    runtime = stage.runtime({START: starts, STOP: stop, WHO: KNOWN})
    session = stage.client(runtime).trace_user_events(None, [PROVIDER])
    assert session.session_id == 5
    assert session.is_alive
    if how == "undeliverable":
        runtime.path.unlink()
    with session:
        pass
    assert not session.is_alive
    assert type(session.problem) is (problem or type(None))
    assert session.state is (State.BROKEN if problem else State.ENDED)
    within_limits(session.close)
    stage.check()


def test_a_session_through_a_relay_ends_by_the_end_of_its_connection_alone(stage: Stage) -> None:
    runtime = stage.runtime({START: starts, STOP: obeys, WHO: says_pid(os.getpid() + 1)})
    session = stage.client(runtime).trace_user_events(None, [PROVIDER])
    within_limits(session.close)
    assert STOP not in runtime.asked
    assert (session.is_alive, session.problem) == (False, None)


def test_two_may_close_one_session(stage: Stage) -> None:
    runtime = stage.runtime({START: starts, STOP: after(0.05, says(SESSION)), WHO: KNOWN})
    session = stage.client(runtime).trace_user_events(None, [PROVIDER])
    for act in [Act(session.close) for _ in range(8)]:
        act.result()
    eventually(lambda: not session.is_alive, "it lives")
    assert runtime.asked.count(STOP) == 1
    assert session.problem is None


def test_a_runtime_that_goes_is_seen(stage: Stage) -> None:
    def script(talk: Talk) -> None:
        starts_only(talk)

    def starts_only(talk: Talk) -> None:
        os.close(talk.receive_descriptor())
        talk.send(SESSION)

    session = stage.client(stage.runtime({START: script, STOP: obeys})).trace_user_events(None, [PROVIDER])
    eventually(lambda: not session.is_alive, "it lives")
    within_limits(session.close)


def test_a_kernel_without_user_events_is_told_before_anything_is_sent(
    stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = stage.runtime(says(SESSION))

    def refused(fd: int | None, reason: str) -> None:
        with pytest.raises(RequestRefused, match=reason):
            stage.client(runtime).trace_user_events(fd, [PROVIDER])

    monkeypatch.setattr(user_events, "PLACES", (str(tmp_path / "missing"),))
    refused(None, "this kernel offers no user_events")
    monkeypatch.setattr(user_events, "PLACES", (str(tmp_path),))
    with open("/dev/null", "rb") as null:
        refused(null.fileno(), "is /dev/null, not")
    refused(9999, "not an open file descriptor")
    refused(None, "Is a directory")
    assert runtime.asked == []


def test_a_runtime_that_refuses_the_start_leaves_nothing(stage: Stage) -> None:
    def script(talk: Talk) -> None:
        os.close(talk.receive_descriptor())
        talk.send(REFUSAL)

    failing: Any = stage.client(stage.runtime({START: script}))
    with pytest.raises(ServerError):
        failing.trace_user_events(None, [PROVIDER])


def test_who_closes_a_session_that_another_one_closes_waits_until_it_is_closed(stage: Stage) -> None:
    runtime = stage.runtime({START: starts, STOP: after(0.2, says(SESSION)), WHO: KNOWN})
    session = stage.client(runtime).trace_user_events(None, [PROVIDER])
    first = Act(session.close)
    runtime.wait_for(STOP)
    within_limits(session.close)
    assert (session.is_alive, session.state) == (False, State.ENDED)
    first.result()


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_a_close_that_is_given_up_says_so(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(_: object) -> None:
        raise KeyboardInterrupt

    session = stage.client(stage.runtime({START: starts})).trace_user_events(None, [PROVIDER])
    session._perform = give_up
    with pytest.raises(KeyboardInterrupt):
        session.close()
    assert (session.is_alive, session.state) == (False, State.BROKEN)
    assert "StopTracing was interrupted" in str(session.problem)


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_an_aclose_that_is_cancelled_says_so(stage: Stage) -> None:
    runtime = stage.runtime({START: starts, STOP: says_and_waits(), WHO: KNOWN})

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace_user_events(None, [PROVIDER])
        closing = asyncio.create_task(session.aclose())
        await asyncio.to_thread(runtime.wait_for, STOP)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        assert (session.is_alive, session.state) == (False, State.BROKEN)
        assert "StopTracing was interrupted" in str(session.problem)
        await session.aclose()

    within_limits(lambda: asyncio.run(use()))
