"""Recordings that end by themselves, that are divided, and of which only the last is kept: on real runtimes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.live.runtimes import workload
from tests.live.test_collect_outcome import _take_the_terminal
from tests.live.test_reference_reader import assert_agree
from tests.live.test_trace_collect import CLR, PYTHON, collecting
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.nettrace import read

pytestmark = [
    pytest.mark.live,
    needs("dotnet", "the workload on real runtimes"),
]
FLOOD = "Workload-Manifest:0xffffffffffffffff:5"
EACH, THREADS = 300_000, 2
WORDS = ("flood", f"threads={THREADS}", f"each={EACH}", "size=64", "wait=stdin", "linger=stdin")
RUNTIMES = ["8", "9", "10", "NativeAOT"]


def numbers_of(path: Path) -> dict[int, Any]:
    """The numbers of the events of each thread of a flood, in time order."""
    contents = read(path.read_bytes())
    headers = contents.headers[contents.order()]
    blobs = [number for number, known in contents.metadata.items() if known.name == "Blob"]
    starts = headers.payload_offset[np.isin(headers.metadata_id, blobs)]
    words = contents.buffer[starts[:, None] + np.arange(8)].copy().view("<u4")  # two fields that no runtime describes
    return {thread: words[words[:, 0] == thread, 1].astype(np.int64) for thread in np.unique(words[:, 0]).tolist()}


def check_dump(path: Path, runtime: str, lost: int | None) -> None:
    """Whole, with names, and what is missing in it are the events that it says were lost."""
    contents = read(path.read_bytes())
    assert contents.complete
    assert contents.lost.total == lost
    assert not contents.warnings
    has_names = any(known.provider.endswith("Rundown") for known in contents.metadata.values())
    assert has_names == (runtime != "NativeAOT"), "NativeAOT writes no rundown"
    if runtime != "NativeAOT":
        assert len(dd.open(path)["Method/DCStopVerbose"]) > 100
    gaps = sum(int((steps - 1).sum()) for steps in map(np.diff, numbers_of(path).values()) if len(steps))
    assert gaps <= contents.lost.total
    assert all((np.diff(one) > 0).all() for one in numbers_of(path).values()), "none twice"


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_recorder_dumps_while_the_target_floods_and_loses_nothing(runtime: str, tmp_path: Path) -> None:
    with (
        workload(runtime, *WORDS) as target,
        dd.FlightRecorder(target.pid, FLOOD, window="60s", size_bytes="512MB", buffer_mb=256) as recorder,
    ):
        first = recorder.dump(tmp_path / "before.nettrace")
        target.say()
        during = [recorder.dump(tmp_path / f"{number}.nettrace") for number in range(3)]
        target.expect("done flood")
        last = recorder.dump(tmp_path / "last.nettrace")
        assert recorder.is_running
        assert recorder.problem is None
    assert (first.complete, first.lost_events, "Blob" in dd.open(first.path)) == (True, 0, False)
    for file in (*during, last):
        assert (file.named, file.problem) == (True, None)
        check_dump(file.path, runtime, file.lost_events)
    sizes = [sum(map(len, numbers_of(file.path).values())) for file in (*during, last)]
    assert sizes == sorted(sizes)
    assert sizes[-1] + (last.lost_events or 0) >= THREADS * EACH
    if not last.lost_events:
        for numbers in numbers_of(last.path).values():
            assert numbers.tolist() == list(range(int(numbers[0]), int(numbers[0]) + EACH))


def test_a_full_ring_has_the_last_events_without_a_gap(tmp_path: Path) -> None:
    with (
        workload("10", *WORDS) as target,
        dd.FlightRecorder(target.pid, FLOOD, window="60s", size_bytes="10MB", buffer_mb=256) as recorder,
    ):
        target.say()
        target.expect("done flood")
        file = recorder.dump(tmp_path / "x.nettrace")
        assert recorder.held_bytes <= 10_000_000
    assert file.is_cut
    assert file.window_s is not None
    assert file.window_s < 60
    check_dump(file.path, "10", file.lost_events)
    numbers = numbers_of(file.path)
    assert sum(map(len, numbers.values())) < THREADS * EACH // 2
    assert max(int(one[-1]) for one in numbers.values()) in (EACH - 1, EACH)


def test_after_the_exit_of_the_target_the_last_is_still_there(tmp_path: Path) -> None:
    with workload("10", *WORDS) as target:
        with dd.FlightRecorder(target.pid, FLOOD) as recorder:
            target.say()
            target.expect("done flood")
            recorder.dump(tmp_path / "x.nettrace")
            target.process.kill()
            target.process.wait()
            file = recorder.dump(tmp_path / "x.nettrace", force=True)
        assert file.named is False
        assert file.problem
        assert file.complete
        assert sum(map(len, numbers_of(file.path).values())) + (file.lost_events or 0) >= THREADS * EACH
        with pytest.raises(dd.UsageError):
            recorder.dump(tmp_path / "y.nettrace")


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_signals_write_dumps_and_a_last_one_comes_in_the_end(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "app.nettrace"
    options = ["--providers", FLOOD, "--ring", "60s", "--dump-on", "signal", "--dump-on", "SIGUSR2", "--json"]
    with (
        workload(runtime, *WORDS) as target,
        collecting("-p", str(target.pid), "-o", str(path), *options) as collector,
    ):
        assert collector.stderr is not None
        target.say()
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            collector.send_signal(number)
            assert any(line.startswith("Wrote ") for line in collector.stderr)
        target.expect("done flood")
        collector.send_signal(signal.SIGINT)
        out, err = collector.communicate(timeout=60)
    assert collector.returncode == 0, err
    told = json.loads(out)
    files = told["files"]
    assert [Path(file["path"]).name for file in files] == [f"app.{number}.nettrace" for number in (1, 2, 3)]
    assert sorted(os.listdir(tmp_path)) == [Path(file["path"]).name for file in files]
    for file in files:
        check_dump(Path(file["path"]), runtime, file["lost_events"])
    last = numbers_of(Path(files[-1]["path"]))
    assert sum(map(len, last.values())) + files[-1]["lost_events"] >= THREADS * EACH


def test_an_event_writes_a_dump(tmp_path: Path) -> None:
    options = ["--clrevents", "gc", "--ring", "60s", "--dump-on", "GC/Start where Depth == 2", "--no-dump-at-end"]
    with (
        workload("10", "gc", "gen0=3", "gen1=2", "gen2=1", "wait=stdin", "linger=stdin") as target,
        collecting("-p", str(target.pid), "-o", str(tmp_path / "app"), *options) as collector,
    ):
        assert collector.stderr is not None
        target.say()
        assert any(line.startswith("Wrote ") for line in collector.stderr)
        collector.send_signal(signal.SIGINT)
        out, err = collector.communicate(timeout=60)
    assert collector.returncode == 0, err
    (path,) = tmp_path.iterdir()
    assert path.name == "app.1.nettrace"
    assert str(path) in out
    assert 2 in dd.open(path)["GC/Start"].numpy("Depth")


def test_a_killed_target_leaves_the_last_of_it_and_is_told(tmp_path: Path) -> None:
    with (
        workload("10", *WORDS) as target,
        collecting(
            "-p", str(target.pid), "-o", str(tmp_path / "x.nettrace"), "--providers", FLOOD, "--ring", "60s"
        ) as it,
    ):
        target.say()
        target.expect("done flood")
        target.process.kill()
        _, err = it.communicate(timeout=60)
    assert it.returncode == 2
    assert "Names of methods may be missing in x.1.nettrace" in err
    contents = read((tmp_path / "x.1.nettrace").read_bytes())
    assert contents.complete
    assert len(contents)


@pytest.mark.skipif(os.name == "nt", reason="a terminal of POSIX systems")
def test_enter_writes_a_dump_and_ctrl_c_ends(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    words = ["-o", str(tmp_path / "x.nettrace"), "--clrevents", "gc", "--ring", "60s", "--dump-on", "key"]
    with workload("10", "idle", "seconds=100") as target:
        collector = subprocess.Popen(
            [*PYTHON, "trace", "collect", "-p", str(target.pid), *words],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=_take_the_terminal,
        )
        os.close(theirs)
        seen = b""
        while b"Press <Enter> to write the last 60s" not in seen:
            seen += os.read(ours, 4096)
        os.write(ours, b"\n")
        while b"Wrote " not in seen:
            seen += os.read(ours, 4096)
        os.write(ours, b"\x03")
        assert collector.wait(60) == 0
        os.close(ours)
    assert sorted(os.listdir(tmp_path)) == ["x.1.nettrace", "x.2.nettrace"]


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_rotated_files_have_every_event_once_and_names_in_each(runtime: str, tmp_path: Path) -> None:
    options = ["--providers", FLOOD, "--rotate", "10MB", "--json"]
    with (
        workload(runtime, *WORDS) as target,
        collecting("-p", str(target.pid), "-o", str(tmp_path / "app.nettrace"), *options) as collector,
    ):
        target.say()
        target.expect("done flood")
        collector.send_signal(signal.SIGINT)
        out, err = collector.communicate(timeout=60)
    assert collector.returncode == 0, err
    told = json.loads(out)
    paths = [Path(file["path"]) for file in told["files"]]
    assert len(paths) > 2
    assert sum(file["lost_events"] for file in told["files"]) == told["lost_events"]
    found: dict[int, list[int]] = {}
    for path, file in zip(paths, told["files"], strict=True):
        check_dump(path, runtime, file["lost_events"])
        for thread, numbers in numbers_of(path).items():
            found.setdefault(thread, []).extend(numbers.tolist())
    assert all(one < other for numbers in found.values() for one, other in pairwise(numbers))
    assert sum(map(len, found.values())) + told["lost_events"] >= THREADS * EACH


def test_a_recording_ends_at_a_size_and_has_its_end(tmp_path: Path) -> None:
    with (
        workload("10", *WORDS) as target,
        collecting(
            "-p", str(target.pid), "-o", str(tmp_path / "x"), "--providers", FLOOD, "--max-size", "5MB", "--json"
        ) as it,
    ):
        target.say()
        out, err = it.communicate(timeout=60)
    told = json.loads(out)
    assert it.returncode == 0, err
    assert (told["stopped_by"], told["complete"], told["was_stopped"]) == ("size", True, True)
    assert told["size_bytes"] > 5_000_000


@pytest.mark.parametrize(("hit", "delay"), [(1, "0s"), (3, "0s"), (2, "200ms")])
def test_a_recording_ends_at_the_hit_of_an_event(hit: int, delay: str, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    event = f"{CLR}/GC/Start where Depth >= 1 and Reason == Induced"
    words = ["--clrevents", "gc", "--stop-on", event, "--stop-on-hit", str(hit), "--stop-delay", delay, "--json"]
    with (
        workload("10", "gc", "gen0=3", "gen1=2", "gen2=1", "wait=stdin", "linger=stdin") as target,
        collecting("-p", str(target.pid), "-o", str(path), *words) as collector,
    ):
        target.say()
        out, err = collector.communicate(timeout=60)
    assert collector.returncode == 0, err
    told = json.loads(out)
    assert told["stopped_by"] == "event"
    assert any(note.startswith("Stopped at GC/Start") for note in told["notes"])
    assert read(path.read_bytes()).complete


@pytest.mark.parametrize("runtime", ["8", "10"])
def test_the_reference_reader_reads_dumps_and_rotated_files_as_we_do(runtime: str, tmp_path: Path) -> None:
    with workload(runtime, "events+gc+exceptions", "rounds=200", "wait=stdin", "linger=stdin") as target:
        providers = f"Workload-Manifest:0xffffffffffffffff:5,{CLR}:0x8001:4"
        with dd.FlightRecorder(target.pid, providers, size_bytes="200KB") as recorder:
            target.say()
            target.expect("done exceptions")
            file = recorder.dump(tmp_path / "x.nettrace")
    assert file.is_cut
    assert len(assert_agree(file.path)) > 1000
    with workload(runtime, "flood", "threads=2", "each=40000", "size=64", "wait=stdin", "linger=stdin") as target:
        with collecting(
            "-p", str(target.pid), "-o", str(tmp_path / "y"), "--providers", FLOOD, "--rotate", "1MB"
        ) as it:
            target.say()
            target.expect("done flood")
            it.send_signal(signal.SIGINT)
            it.communicate(timeout=60)
        paths = sorted(tmp_path.glob("y.*"))
    assert len(paths) > 1
    for path in paths:
        assert_agree(path)
