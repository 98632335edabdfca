"""A session kept in several files: rotated, and the last of it, while it goes on."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from tests.nettrace.recordings import data_of
from tests.nettrace.test_parts import rows, with_points

from dotnetdiag.errors import DiagnosticsError, OutputError, OutputExists, TimedOut, TransportError, UsageError
from dotnetdiag.nettrace import Contents, read
from dotnetdiag.recipes.kept_files import FileNames, KeptFile, receive
from dotnetdiag.recipes.ring_files import DumpTrigger, RingFiles
from dotnetdiag.recipes.rotated_files import RotatedFiles
from dotnetdiag.recipes.rundown import Rundown

SESSION = with_points(data_of("events-10.nettrace"), 100, 5)
NAMES = data_of("cpu-only-10.nettrace")
WINDOW_S = 100.0


class Names:
    """A runtime that tells names, or an error, when it may."""

    def __init__(self, *, fails: DiagnosticsError | None = None, wanted: bool = True) -> None:
        self.fails, self.is_wanted = fails, wanted
        self.taken = 0
        self.may = threading.Event()
        self.may.set()

    def take(self) -> Contents | None:
        assert self.may.wait(20)
        self.taken += 1
        if self.fails is not None:
            raise self.fails
        return read(NAMES) if self.is_wanted else None

    def end(self) -> None:
        self.may.set()


def rotated(folder: Path, names: Names, *, size: int = 100_000, keep: int | None = None, **more: Any) -> RotatedFiles:
    files = FileNames(folder / "app.nettrace", force=False)
    return RotatedFiles(files, size_bytes=size, keep=keep, rundown=cast(Rundown, names), **more)


def test_a_full_file_has_all_of_its_blocks_before_its_names_have_come(tmp_path: Path) -> None:
    """The recorder may be killed meanwhile."""
    names = Names()
    names.may.clear()
    files = rotated(tmp_path, names)
    feed(files.take)
    files.look()
    there = [read(path.read_bytes()) for path in sorted(tmp_path.iterdir())]
    assert len(there) > 2
    assert sum(len(one.headers) for one in there) == len(read(SESSION).headers)
    names.may.set()
    files.close()


def feed(take: Callable[[bytes], None], data: bytes = SESSION) -> None:
    for at in range(0, len(data), 5000):
        take(data[at : at + 5000])


def check(file: KeptFile, *, named: bool | None) -> Contents:
    contents = read(file.path.read_bytes())
    assert (contents.complete, contents.lost.total) == (file.complete, file.lost_events) == (True, 0)
    assert not contents.warnings
    assert file.path.stat().st_size == file.size_bytes
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.named is named
    return contents


def test_rotated_files_are_the_session_with_names_in_each(tmp_path: Path) -> None:
    keeper = rotated(tmp_path, names := Names())
    feed(keeper.take)
    keeper.look()
    keeper.close()
    files = keeper.files
    assert len(files) > 3
    assert [file.path.name for file in files] == [f"app.{n}.nettrace" for n in range(1, len(files) + 1)]
    told = len(read(NAMES))
    parts = [check(file, named=True) for file in files]
    assert [len(part) - told for part in parts[:-1]] == [len(part) for part in map(_session_rows, parts[:-1])]
    assert sum(len(_session_rows(part)) for part in parts) == len(read(SESSION))
    assert 1 <= names.taken < len(files)
    assert keeper.notes() == []


def _session_rows(part: Contents) -> list[int]:
    """Those that are of the session: names have later times, for those of the recording are of another start."""
    times = set(read(SESSION).headers.time.tolist())
    return [time for time in part.headers.time.tolist() if time in times]


def test_one_rundown_serves_all_files_that_wait_for_one(tmp_path: Path) -> None:
    keeper = rotated(tmp_path, names := Names())
    names.may.clear()
    feed(keeper.take)
    names.may.set()
    keeper.close()
    assert names.taken <= 2
    assert all(file.named for file in keeper.files)


def test_only_the_last_files_stay(tmp_path: Path) -> None:
    keeper = rotated(tmp_path, Names(), keep=2)
    feed(keeper.take)
    keeper.close()
    files = keeper.files
    assert len(files) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(file.path.name for file in files)
    assert keeper.notes()[-1].endswith("older files were removed.")
    for file in files:
        check(file, named=True)


@pytest.mark.parametrize("keep", [None, 1])
def test_a_runtime_that_has_gone_leaves_files_without_names_and_that_is_said(keep: int | None, tmp_path: Path) -> None:
    keeper = rotated(tmp_path, Names(fails=TransportError("it has gone")), keep=keep)
    feed(keeper.take, SESSION[:-1])
    keeper.close()
    *before, last = keeper.files
    assert len(before) == (0 if keep else len(before))
    assert not any(file.named for file in (*before, last))
    assert last.complete is False
    if before:
        assert f"Names of methods may be missing in {before[0].path.name}: it has gone" in keeper.notes()


def test_without_a_rundown_no_thread_takes_one(tmp_path: Path) -> None:
    keeper = rotated(tmp_path, names := Names(wanted=False))
    feed(keeper.take)
    keeper.close()
    assert not names.taken
    assert [row for file in keeper.files for row in rows(check(file, named=None))] == list(rows(read(SESSION)))


def test_files_that_are_there_are_passed_over_or_overwritten_when_that_is_wanted(tmp_path: Path) -> None:
    for number in (1, 3):
        (tmp_path / f"app.{number}.nettrace").write_bytes(b"mine")
    names = FileNames(tmp_path / "app.nettrace", force=False)
    assert [names.next().name for _ in range(3)] == ["app.2.nettrace", "app.4.nettrace", "app.5.nettrace"]
    assert FileNames(tmp_path / "app", force=True).next().name == "app.1.nettrace"
    assert FileNames(tmp_path / "app.nettrace", force=False).next().name == "app.2.nettrace"


def test_a_folder_that_takes_no_file_is_an_error(tmp_path: Path) -> None:
    keeper = rotated(tmp_path / "gone", Names(wanted=False))
    with pytest.raises(OutputError, match=r"app\.1\.nettrace: No such file"):
        feed(keeper.take)


# the ring -------------------------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def ring(folder: Path | None, names: Names, trigger: DumpTrigger | None = None, **more: Any) -> RingFiles:
    options: dict[str, Any] = {"window_s": WINDOW_S, "size_bytes": 1 << 30, "settle_s": 0.0, "clock": Clock(), **more}
    return RingFiles(
        None if folder is None else FileNames(folder / "app.nettrace", force=False),
        rundown=cast(Rundown, names),
        trigger=trigger or DumpTrigger(),
        **options,
    )


def test_a_dump_is_a_recording_with_names_and_the_session_goes_on(tmp_path: Path) -> None:
    trigger = DumpTrigger()
    keeper = ring(tmp_path, Names(), trigger)
    half = len(SESSION) // 2
    keeper.take(SESSION[:half])
    first = trigger.dump(tmp_path / "first.nettrace", force=False, timeout_s=20)
    keeper.take(SESSION[half:])
    second = trigger.dump(tmp_path / "second.nettrace", force=False, timeout_s=20)
    keeper.close()
    whole, told = list(rows(read(SESSION))), len(read(NAMES))
    for file in (first, second):
        found = list(rows(check(file, named=True)))
        assert found[:-told] == whole[: len(found) - told]
    assert second.size_bytes > first.size_bytes
    (last,) = keeper.files
    assert last.path == tmp_path / "app.1.nettrace"
    assert list(rows(check(last, named=True))) == whole


def test_what_is_asked_while_a_dump_is_written_is_answered_by_the_next_one_together(tmp_path: Path) -> None:
    trigger, dumped = DumpTrigger(), list[KeptFile]()
    begun = threading.Event()

    class Slow(Names):
        def take(self) -> Contents | None:
            begun.set()
            return super().take()

    names = Slow()
    names.may.clear()
    keeper = ring(tmp_path, names, trigger, dump_at_end=False, dumped=dumped.append)
    keeper.take(SESSION)
    trigger.ask()
    assert begun.wait(20)
    for _ in range(1000):
        trigger.ask()
    names.may.set()
    keeper.close()
    assert len(dumped) == 2
    assert names.taken <= 2
    assert [file.path for file in dumped] == [file.path for file in keeper.files]


def test_a_dump_asked_for_before_anything_came_is_told_and_the_next_is_written(tmp_path: Path) -> None:
    trigger = DumpTrigger()
    keeper = ring(tmp_path, Names(), trigger, dump_at_end=False)
    with pytest.raises(DiagnosticsError, match="nothing has come"):
        trigger.dump(tmp_path / "x", force=False, timeout_s=20)
    keeper.take(SESSION)
    trigger.dump(tmp_path / "x", force=False, timeout_s=20)
    with pytest.raises(OutputExists):
        trigger.dump(tmp_path / "x", force=False, timeout_s=20)
    trigger.dump(tmp_path / "x", force=True, timeout_s=20)
    keeper.close()
    assert os.listdir(tmp_path) == ["x"]


def test_a_dump_of_a_runtime_that_has_gone_has_no_names_and_says_so(tmp_path: Path) -> None:
    trigger = DumpTrigger()
    keeper = ring(tmp_path, Names(fails=TransportError("it has gone")), trigger)
    keeper.take(SESSION[:-1])
    asked = trigger.dump(tmp_path / "x", force=False, timeout_s=20)
    assert (asked.named, asked.problem, asked.complete) == (False, "it has gone", True)
    keeper.close()
    (last,) = keeper.files
    assert (last.named, last.complete) == (False, True)
    assert keeper.notes() == ["Names of methods may be missing in app.1.nettrace: the session was gone before its end"]


def test_a_full_ring_holds_less_than_the_window_and_that_is_a_fact_of_the_dump(tmp_path: Path) -> None:
    clock = Clock()
    trigger = DumpTrigger(clock=clock)
    keeper = ring(tmp_path, Names(wanted=False), trigger, size_bytes=150_000, clock=clock)
    for at in range(0, len(SESSION), 5000):
        clock.now += 1
        keeper.take(SESSION[at : at + 5000])
        assert keeper.held_bytes <= 150_000
    file = trigger.dump(tmp_path / "x", force=False, timeout_s=20)
    assert file.is_cut
    assert file.window_s is not None
    assert 0 < file.window_s < 40
    assert keeper.held_s == pytest.approx(file.window_s)
    keeper.close()


def test_the_end_of_a_session_is_not_too_old_for_its_own_window(tmp_path: Path) -> None:
    clock = Clock()
    keeper = ring(tmp_path, Names(), clock=clock)
    keeper.take(SESSION[: len(SESSION) // 2])
    clock.now = 50.0
    keeper.hold()
    clock.now = 5000.0
    keeper.look()
    keeper.take(SESSION[len(SESSION) // 2 :])
    keeper.close()
    (file,) = keeper.files
    assert list(rows(check(file, named=True))) == list(rows(read(SESSION)))


def test_the_window_of_a_dump_that_has_to_wait_is_that_of_when_it_was_asked_for(tmp_path: Path) -> None:
    clock = Clock()
    trigger, names, begun = DumpTrigger(clock=clock), Names(), threading.Event()
    keeper = ring(tmp_path, names, trigger, clock=clock, dump_at_end=False, dumped=lambda _: begun.set())
    names.may.clear()
    keeper.take(SESSION)
    clock.now = WINDOW_S - 1
    trigger.ask()
    while trigger.asked_at is not None:  # its snapshot is made, its names are waited for
        pass
    trigger.ask()
    for clock.now in (WINDOW_S + 1, 2 * WINDOW_S - 10):
        keeper.look()
        assert keeper.held_bytes > len(SESSION) // 2
    names.may.set()
    keeper.close()
    assert [list(rows(check(file, named=True)))[: len(read(SESSION))] for file in keeper.files] == [
        list(rows(read(SESSION)))
    ] * 2
    keeper.look()
    assert not keeper.held_bytes


@pytest.mark.parametrize("kind", [ring, rotated])
def test_who_ends_all_at_once_does_not_wait_for_names(kind: Callable[..., Any], tmp_path: Path) -> None:
    names, trigger, cancelled = Names(), DumpTrigger(), threading.Event()
    names.may.clear()
    more = {"trigger": trigger} if kind is ring else {}
    keeper = kind(tmp_path, names, **more, is_cancelled=cancelled.is_set)
    feed(keeper.take)
    trigger.ask()
    cancelled.set()
    keeper.close()
    assert names.may.is_set(), "they were not waited for"
    assert all(read(file.path.read_bytes()).complete for file in keeper.files)


def test_only_the_last_dumps_stay(tmp_path: Path) -> None:
    trigger = DumpTrigger()
    written = threading.Semaphore(0)
    keeper = ring(tmp_path, Names(), trigger, keep=2, dumped=lambda _: written.release())
    keeper.take(SESSION)
    for _ in range(3):
        trigger.ask()
        assert written.acquire(timeout=20)
    keeper.close()
    assert sorted(os.listdir(tmp_path)) == ["app.3.nettrace", "app.4.nettrace"]
    assert keeper.notes() == ["2 older dumps were removed."]


def test_a_ring_that_keeps_no_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="must be 1 or more"):
        ring(tmp_path, Names(), keep=0)
    with pytest.raises(UsageError, match="must be 1 or more"):
        rotated(tmp_path, Names(), keep=0)


# receiving ------------------------------------------------------------------------------------------------------------


class Session:
    """Gives its pieces, and None for silence."""

    def __init__(self, pieces: list[bytes | TimedOut | None]) -> None:
        self.pieces, self.problem, self.was_stopped = pieces, cast(Exception | None, None), False

    def read(self, size: int = 0, *, timeout_s: float | None = None) -> bytes:
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, TimedOut):
            self.problem = piece
            raise piece
        if piece is None:
            raise TimedOut("nothing arrived", timeout_s=timeout_s)
        return piece

    def stop(self) -> None:
        self.was_stopped = True


class Kept:
    files: list[KeptFile] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.calls: list[object] = []

    def take(self, data: bytes) -> None:
        self.calls.append(data)

    def look(self) -> None:
        self.calls.append("look")

    def hold(self) -> None:
        self.calls.append("hold")

    def close(self) -> None:
        self.calls.append("close")

    def notes(self) -> list[str]:
        return []


def test_what_comes_is_kept_until_the_end_and_the_window_is_held_when_that_is_asked_for() -> None:
    times = iter(range(1000))
    kept, told, seen = Kept(), list[int](), list[bytes]()
    count = receive(
        Session([b"a", None, b"bc", None, b"d"]),
        kept,
        duration_s=2.5,
        tee=lambda data: seen.append(bytes(data)),
        report=told.append,
        clock=lambda: float(next(times)),
    )
    assert count == 4
    assert b"".join(seen) == b"abcd"
    assert [call for call in kept.calls if call != "look"] == [b"a", "hold", b"bc", b"d"]
    assert told == [1, 1, 3, 3, 4, 4]


def test_a_session_that_does_not_end_is_an_error_and_a_quiet_one_is_none() -> None:
    late = TimedOut("the session did not end")
    with pytest.raises(TimedOut) as caught:
        receive(
            Session([b"a", None, late]),
            Kept(),
            duration_s=None,
            tee=lambda _: None,
            report=lambda _: None,
            clock=lambda: 0.0,
        )
    assert caught.value is late
