"""Two at one session: somebody closes it while another one reads or saves. Every byte goes to one of them, and none is lost."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from tests.client.scripted import HEAD_BYTES, eventually, obeys, pattern
from tests.client.shells import Act, Stage, within_limits

from dotnetdiag.client import session, session_aio
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.errors import TimedOut, UsageError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.session_life import State
from dotnetdiag.testing import Script, Talk

PIECES, PIECE_BYTES = 200, 1000
WHOLE_BYTES = HEAD_BYTES + PIECES * PIECE_BYTES


def rundown(talk: Talk) -> None:
    """The head; nothing until the stop; then much, a little at a time."""
    talk.begin_session(pattern(HEAD_BYTES))
    talk.wait_for_stop(None)
    data = memoryview(pattern(WHOLE_BYTES))
    for at in range(HEAD_BYTES, WHOLE_BYTES, PIECE_BYTES):
        talk.send(data[at : at + PIECE_BYTES])
        talk.pause(0.001)


SCRIPTS: dict[Command, Script] = {Command.CollectTracing2: rundown, Command.StopTracing: obeys}


def test_a_close_beside_a_save_leaves_no_hole_in_the_file(stage: Stage, tmp_path: Path) -> None:
    session = stage.client(stage.runtime(SCRIPTS)).trace("A")
    saving = Act(lambda: session.save(tmp_path / "out"))
    eventually(lambda: session.received_bytes == HEAD_BYTES, "nothing came")
    within_limits(session.close)
    assert saving.result() == WHOLE_BYTES
    assert (tmp_path / "out").read_bytes() == pattern(WHOLE_BYTES)
    assert (session.state, session.problem) == (State.ENDED, None)


def test_a_close_beside_a_reader_comes_to_the_end(stage: Stage) -> None:
    """They take turns: the reader gets its pieces in order, and its iteration ends where the session does."""
    session = stage.client(stage.runtime(SCRIPTS)).trace("A")
    got: list[bytes] = []
    reading = Act(lambda: got.extend(session))
    eventually(lambda: session.received_bytes == HEAD_BYTES, "nothing came")
    within_limits(session.close)
    reading.result()
    assert session.received_bytes == WHOLE_BYTES
    assert (session.state, session.problem) == (State.ENDED, None)
    assert b"".join(got).startswith(pattern(HEAD_BYTES))


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_aclose_beside_a_reading_task_comes_to_the_end(stage: Stage) -> None:
    """As above, all on one loop."""
    runtime = stage.runtime(SCRIPTS)

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace("A")
        head = asyncio.Event()

        async def read_all() -> None:
            async for _ in session:
                head.set()

        reading = asyncio.ensure_future(read_all())
        await head.wait()
        await session.aclose()
        await reading
        assert session.received_bytes == WHOLE_BYTES
        assert (session.state, session.problem) == (State.ENDED, None)

    within_limits(lambda: asyncio.run(use()))


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who saves waits a moment only for somebody who saves already."""
    monkeypatch.setattr(session, "CLOSE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(session_aio, "CLOSE_TIMEOUT_S", 0.1)


@pytest.mark.usefixtures("impatient")
def test_a_save_shares_its_stream_with_nobody(stage: Stage, tmp_path: Path) -> None:
    traced = stage.client(stage.runtime(SCRIPTS)).trace("A")
    saving = Act(lambda: traced.save(tmp_path / "out"))
    eventually(lambda: traced.received_bytes == HEAD_BYTES, "nothing came")
    for second in (lambda: traced.save(tmp_path / "second"), lambda: traced.read(timeout_s=0.1)):
        with pytest.raises(TimedOut, match="somebody else reads this session"):
            within_limits(second)
    within_limits(traced.close)
    assert saving.result() == WHOLE_BYTES
    assert (tmp_path / "out").read_bytes() == pattern(WHOLE_BYTES)
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
@pytest.mark.parametrize("where", ["tee", "progress"])
def test_a_signal_handler_that_closes_leaves_the_rest_to_the_save_that_it_has_interrupted(
    stage: Stage, tmp_path: Path, where: str
) -> None:
    traced = stage.client(stage.runtime(SCRIPTS)).trace("A")
    before = signal.signal(signal.SIGUSR1, lambda *_: traced.close())
    calls: list[object] = []

    def interrupted(argument: object) -> None:
        calls.append(argument)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGUSR1)
            assert traced.state is not State.ENDED

    try:
        assert traced.save(tmp_path / "out", **{where: interrupted}) == WHOLE_BYTES
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert (tmp_path / "out").read_bytes() == pattern(WHOLE_BYTES)
    assert (traced.state, traced.problem) == (State.ENDED, None)
    traced.close()


@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_what_has_interrupted_a_save_cannot_read(stage: Stage, tmp_path: Path) -> None:
    traced = stage.client(stage.runtime(SCRIPTS)).trace("A")
    with pytest.raises(UsageError, match="this thread reads this session already"):
        traced.save(tmp_path / "out", tee=lambda _: traced.read())
    traced.close()
