"""A recording into a pipe ends when it is to, also when nobody opens the pipe or nobody reads it."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.scripted import SESSION, eventually, obeys, pattern, says, streams
from tests.client.shells import Act, Stage, within_limits

from dotnetdiag.client import saving, sink
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.sink import FileSink
from dotnetdiag.errors import OutputError, TimedOut
from dotnetdiag.ipc.commands import Command
from dotnetdiag.testing import Script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="has no pipes in its file system")
SCRIPTS: dict[Command, Script] = {Command.CollectTracing2: streams(0.01, size=100_000), Command.StopTracing: obeys}
PIPE_BYTES = 1 << 16
"""What a pipe holds."""


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "fifo")
    return tmp_path / "fifo"


@pytest.fixture
def idle_reader(fifo: Path) -> Iterator[int]:
    """Holds its end and does not read."""
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    yield descriptor
    os.close(descriptor)


def test_a_pipe_that_nobody_has_opened_is_refused(stage: Stage, fifo: Path) -> None:
    session = stage.client(stage.runtime(SCRIPTS)).trace("A")
    with pytest.raises(OutputError, match="nobody reads this pipe"):
        within_limits(lambda: session.save(fifo))
    session.close()


@pytest.mark.usefixtures("idle_reader")
def test_a_duration_and_the_limit_of_the_end_hold_for_a_pipe_that_nobody_reads(stage: Stage, fifo: Path) -> None:
    session = stage.client(stage.runtime(SCRIPTS)).trace("A", duration=0.1, drain_timeout_s=0.2)
    with pytest.raises(TimedOut):
        within_limits(lambda: session.save(fifo))
    session.close()


@pytest.mark.usefixtures("idle_reader")
def test_an_abort_ends_a_save_into_a_pipe_that_nobody_reads(stage: Stage, fifo: Path) -> None:
    session = stage.client(stage.runtime(SCRIPTS)).trace("A")
    saving = Act(lambda: session.save(fifo))
    eventually(lambda: session.received_bytes > PIPE_BYTES, "the pipe was not filled")
    session.abort()
    assert isinstance(saving.finish().error, OutputError)
    session.close()


@pytest.mark.usefixtures("idle_reader")
@pytest.mark.parametrize("stream", ["goes on", "has ended by itself"])
def test_a_pipe_that_takes_nothing_after_the_stop_is_given_up(
    stage: Stage, fifo: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    """Long before the limit of the end; also when there was nothing left to stop."""
    monkeypatch.setattr(saving, "UNREAD_S", 0.1)
    ending: Script = says(SESSION, pattern(2 * PIPE_BYTES))
    scripts = SCRIPTS if stream == "goes on" else {**SCRIPTS, Command.CollectTracing2: ending}
    session = stage.client(stage.runtime(scripts)).trace("A")
    descriptor = os.open(fifo, os.O_WRONLY)
    saving_it = Act(lambda: session.save(descriptor))
    eventually(lambda: session.received_bytes > PIPE_BYTES, "the pipe was not filled")
    session.stop()
    with pytest.raises(
        OutputError, match=rf"^descriptor {descriptor}: nobody reads this pipe; \d+ bytes were written$"
    ):
        saving_it.result()
    session.close()
    os.close(descriptor)


@pytest.mark.usefixtures("idle_reader")
def test_a_pipe_that_nobody_reads_is_waited_for_while_nobody_asks_for_the_end(
    stage: Stage, fifo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "UNREAD_S", 0.0)
    looks: list[bool] = []
    monkeypatch.setattr(sink, "is_ready", lambda *_: looks.append(True))
    session = stage.client(stage.runtime(SCRIPTS)).trace("A")
    saving_it = Act(lambda: session.save(fifo))
    eventually(lambda: len(looks) > 100, "it was not waited for")
    assert saving_it.is_alive()
    session.abort()
    assert "was aborted while nobody read this pipe" in str(saving_it.finish().error)
    session.close()


def test_a_reader_that_comes_late_gets_every_byte(
    stage: Stage, fifo: Path, idle_reader: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(select, "select")  # which takes no descriptor above 1,023
    session = stage.client(stage.runtime(SCRIPTS)).trace("A")
    saving = Act(lambda: session.save(fifo))
    eventually(lambda: session.received_bytes > PIPE_BYTES, "the pipe was not filled")
    session.stop()
    os.set_blocking(idle_reader, True)
    with open(idle_reader, "rb", closefd=False) as pipe:
        data = pipe.read()
    assert len(data) == saving.result() == session.received_bytes
    assert data == pattern(1 << 20)[: len(data)]
    session.close()


@pytest.mark.usefixtures("idle_reader")
@pytest.mark.parametrize("stage", ["sync"], indirect=True)
def test_a_cancelled_save_into_a_pipe_that_nobody_reads_ends(stage: Stage, fifo: Path) -> None:
    runtime = stage.runtime(SCRIPTS)

    async def use() -> None:
        session = await AsyncClient.connect(str(runtime.path), timeout_s=5).trace("A")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(session.save(fifo), 0.2)
        await session.aclose()

    within_limits(lambda: asyncio.run(use()))


@pytest.mark.usefixtures("idle_reader")
def test_ctrl_c_gets_out_of_a_write_into_a_pipe_that_nobody_reads(fifo: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    def fill() -> None:
        with FileSink(fifo, interrupt) as sink:
            while True:
                sink.take(len(sink.view))

    with pytest.raises(KeyboardInterrupt):
        within_limits(fill)


@pytest.mark.parametrize("kind", ["pipe", "socket", "file"])
def test_an_open_descriptor_is_written_and_left_as_it_was(stage: Stage, kind: str, tmp_path: Path) -> None:
    ours, theirs = os.pipe() if kind == "pipe" else (one.detach() for one in socket.socketpair())
    if kind == "file":
        os.close(theirs)
        theirs = os.open(tmp_path / "x", os.O_RDWR | os.O_CREAT)
        os.write(theirs, b"before")
    scripts = {**SCRIPTS, Command.CollectTracing2: streams(0.01, size=30_000)}
    session = stage.client(stage.runtime(scripts)).trace("A", duration=0.1)
    saving = Act(lambda: session.save(theirs))
    got = b""
    if kind != "file":
        os.set_blocking(ours, False)
        while saving.is_alive() or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.1)[0]:
                got += os.read(ours, 1 << 20)
    size = saving.result()
    assert os.get_blocking(theirs)
    if kind == "file":
        os.write(theirs, b"after")
        got = (tmp_path / "x").read_bytes()
        assert (got[:6], got[-5:]) == (b"before", b"after")
        got = got[6:-5]
    assert got == pattern(size)
    for descriptor in (ours, theirs):
        os.close(descriptor)
    session.close()
