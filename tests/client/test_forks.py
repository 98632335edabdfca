"""What a forked child closes of its parent's sessions, on purpose or by leaving their block, it closes for itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.client.scripted import HEAD_BYTES, TAIL_BYTES, obeys, streams
from tests.client.shells import Stage, within_limits
from tests.client.test_user_events import KNOWN, PROVIDER, START, WHO, kernel, starts

import dotnetdiag as dd
from dotnetdiag.errors import TransportError
from dotnetdiag.ipc.commands import Command

__all__ = ["kernel"]  # for user_events
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="makes no copy of a process"),
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
]
COLLECT, STOP = Command.CollectTracing2, Command.StopTracing


def in_a_child(act: Callable[[], object]) -> int:
    """The exit code of a forked child: 0 when it could do that."""
    child = os.fork()
    if not child:
        try:
            act()
            os._exit(0)
        finally:
            os._exit(1)
    return within_limits(lambda: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def closing(stage: Stage, session: Any) -> Callable[[], object]:
    """Closes it, and sees that this is so; in a loop of the child's own."""

    def close() -> None:
        if stage.is_async:
            asyncio.run(session.inner.aclose())
            assert session.inner._stream.fileno() == -1
        else:
            session.close()
            assert session._stream.fileno() == -1

    return close


def test_a_session_that_a_forked_child_closes_goes_on_for_its_parent(stage: Stage, tmp_path: Path) -> None:
    runtime = stage.runtime({COLLECT: streams(None), STOP: obeys})
    session = stage.client(runtime).trace("A")
    assert in_a_child(closing(stage, session)) == 0
    assert runtime.asked == [COLLECT]
    assert within_limits(lambda: session.save(tmp_path / "x", duration=0.05)) == HEAD_BYTES + TAIL_BYTES
    session.close()
    assert session.problem is None


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_a_forked_child_that_fails_in_the_block_of_a_session_leaves_it_to_its_parent(
    stage: Stage, tmp_path: Path
) -> None:
    runtime = stage.runtime({COLLECT: streams(None), STOP: obeys})
    with stage.client(runtime).trace("A") as session:

        def fail() -> None:
            with pytest.raises(SystemExit), session:
                raise SystemExit

        assert in_a_child(fail) == 0
        assert runtime.asked == [COLLECT]
        assert within_limits(lambda: session.save(tmp_path / "x", duration=0.05)) == HEAD_BYTES + TAIL_BYTES


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_a_forked_child_may_stop_a_session_when_it_says_so(stage: Stage) -> None:
    runtime = stage.runtime({COLLECT: streams(None), STOP: obeys})
    session = stage.client(runtime).trace("A")

    data: bytes = within_limits(session.read)
    assert len(data) == HEAD_BYTES
    child = os.fork()
    if not child:
        try:
            session.stop()
            session._stop_ends_within(5)
        finally:
            os._exit(0)
    while part := within_limits(session.read):
        data += part
    os.waitpid(child, 0)
    assert len(data) == HEAD_BYTES + TAIL_BYTES
    assert not session.was_stopped
    session.close()


def test_a_user_events_session_that_a_forked_child_closes_goes_on_for_its_parent(stage: Stage) -> None:
    runtime = stage.runtime({START: starts, STOP: obeys, WHO: KNOWN})
    session = stage.client(runtime).trace_user_events(None, [PROVIDER])
    assert in_a_child(closing(stage, session)) == 0
    assert runtime.asked == [START]
    assert session.is_alive
    session.close()
    assert runtime.asked == [START, WHO, STOP]


def test_in_a_forked_child_a_port_is_closed(tmp_path: Path) -> None:
    with dd.listen(str(tmp_path / "p")) as server:

        def act() -> None:
            assert server.runtimes == ()
            with pytest.raises(TransportError, match="closed"):
                server.wait()
            assert list(server) == []
            server.close()

        assert in_a_child(act) == 0
        assert (tmp_path / "p").exists()
        assert server.runtimes == ()
