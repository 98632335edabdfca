from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.recorded import LIMIT_S

from dotnetdiag.server import thread_dump
from dotnetdiag.server.thread_dump import write_thread_dump

TITLE = re.compile(r"^(?:Current thread|Thread) 0x([0-9a-f]{16})(?: \[(.*)\])? \(most recent call first\):$")


def stacks(path: Path) -> dict[int, tuple[str, list[str]]]:
    """By thread: its name, and its frames."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        write_thread_dump(descriptor)
    finally:
        os.close(descriptor)
    found: dict[int, tuple[str, list[str]]] = {}
    for part in path.read_text("utf-8").removesuffix("\n").split("\n\n"):
        title, *frames = part.split("\n")
        match = TITLE.match(title)
        assert match, title
        found[int(match[1], 16)] = match[2] or "", frames
    return found


@contextmanager
def waiting(*threads: threading.Thread) -> Iterator[None]:
    """They run within, and end when ``END`` is set."""
    END.clear()
    for thread in threads:
        thread.start()
    for _ in threads:
        assert BEGAN.acquire(timeout=LIMIT_S)
    try:
        yield
    finally:
        END.set()
        for thread in threads:
            thread.join(LIMIT_S)


END = threading.Event()
BEGAN = threading.Semaphore(0)


def wait(depth: int = 0) -> None:
    if depth:
        wait(depth - 1)
    else:
        BEGAN.release()
        END.wait()


def test_a_dump_has_every_frame_of_every_thread_with_its_name(tmp_path: Path) -> None:
    threads = [threading.Thread(target=wait, args=(number,), name=f"worker {number}") for number in range(150)]
    with waiting(*threads):
        found = stacks(tmp_path / "dump")
    for number, thread in enumerate(threads):
        assert thread.ident is not None
        name, frames = found[thread.ident]
        assert name == f"worker {number}"
        mine = [frame for frame in frames if frame.endswith("in wait")]
        assert len(mine) == number + 1
        assert mine[-1].startswith(f'  File "{__file__}", line ')
    name, frames = found[threading.get_ident()]
    assert name == "MainThread"
    assert any(frame.endswith("in test_a_dump_has_every_frame_of_every_thread_with_its_name") for frame in frames)


def test_threads_are_looked_at_no_more_at_once_than_may_be_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held: list[int] = []
    all_stacks = thread_dump._all_stacks

    def counted() -> Iterator[list[Any]]:
        for some in all_stacks():
            held.append(len(some))
            yield some

    monkeypatch.setattr(thread_dump, "_all_stacks", counted)
    monkeypatch.setattr(thread_dump, "HELD_FRAMES", 100)
    threads = [threading.Thread(target=wait, args=(60,)) for _ in range(20)]
    with waiting(*threads):
        found = stacks(tmp_path / "dump")
    assert {thread.ident for thread in threads} <= found.keys()
    assert max(held) <= 10  # short ones of others may be among them
    assert sum(held) == len(found)


def test_a_thread_that_has_ended_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_dump, "HELD_FRAMES", 1)
    threads = [threading.Thread(target=wait) for _ in range(5)]
    all_stacks = thread_dump._all_stacks

    def ended() -> Iterator[list[Any]]:
        for some in all_stacks():
            END.set()
            for thread in threads:
                thread.join(LIMIT_S)
            yield some

    monkeypatch.setattr(thread_dump, "_all_stacks", ended)
    with waiting(*threads):
        found = stacks(tmp_path / "dump")
    assert len(found.keys() & {thread.ident for thread in threads}) <= 1


@pytest.mark.parametrize(
    ("name", "written"),
    [("Müller", "Müller"), ("two\nlines", r"two\nlines"), ("half \udc80", r"half \udc80"), ("x" * 10_000, "x" * 500)],
)
def test_a_name_is_in_one_line(name: str, written: str, tmp_path: Path) -> None:
    thread = threading.Thread(target=wait, name=name)
    with waiting(thread):
        found = stacks(tmp_path / "dump")
    assert thread.ident is not None
    assert found[thread.ident][0] == written


def test_no_code_of_the_program_is_run(tmp_path: Path) -> None:
    class Job(threading.Thread):
        @property
        def name(self) -> str:
            raise AssertionError("nobody may ask")

        @name.setter
        def name(self, value: object) -> None:
            pass

    with waiting(Job(target=wait)):
        assert len(stacks(tmp_path / "dump")) >= 2


def test_threads_that_start_and_hang_hold_no_dump_up(tmp_path: Path) -> None:
    lock: Any = threading._active_limbo_lock  # type: ignore[attr-defined]
    dumped = threading.Event()

    def dump() -> None:
        wait()
        assert stacks(tmp_path / "dump")
        dumped.set()

    with waiting(threading.Thread(target=dump, daemon=True)), lock:
        END.set()
        assert dumped.wait(LIMIT_S)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="the system has no disk that is always full")
def test_a_disk_that_is_full_is_an_error() -> None:
    descriptor = os.open("/dev/full", os.O_WRONLY)
    try:
        with pytest.raises(OSError, match="No space left"):
            write_thread_dump(descriptor)
        os.fstat(descriptor)  # it is still the caller's
    finally:
        os.close(descriptor)
