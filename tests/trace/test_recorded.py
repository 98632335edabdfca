"""Which part of the time a recording tells of."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analysis.traces import managed, traced
from tests.nettrace.recordings import data_of, recording, recordings
from tests.nettrace.test_parts import divided, with_points

from dotnetdiag.analysis.allocations import allocations
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.gc_collections import gc
from dotnetdiag.analysis.loader import loader
from dotnetdiag.events.well_known import EVENT_PIPE
from dotnetdiag.nettrace import read
from dotnetdiag.nettrace.part_range import moment, range_of
from dotnetdiag.recipes.exporting import ConvertOptions, convert_file
from dotnetdiag.recipes.trace_rewrite import filter_events, merge_files, trim
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.part import RUNDOWN
from dotnetdiag.trace.recorded import SESSION, Recorded, length_of, recorded_of, sessions
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize("name", recordings())
def test_a_recording_ends_where_its_session_does(name: str) -> None:
    """And not with the names that are written afterwards: nothing else comes then."""
    trace = Trace(data_of(name), name=name)
    recorded = recorded_of(trace)
    rows = trace.raw.summary()
    says_so = any(row.provider == EVENT_PIPE for row in rows)
    others = [row.last_ns for row in rows if row.provider != RUNDOWN or not says_so]
    assert recorded.begin_s == 0
    assert recorded.end_s == pytest.approx(max(others) / 1e9)
    if says_so and any(row.provider == RUNDOWN for row in rows):
        assert recorded.end_s < trace.raw.duration_ns / 1e9


def test_without_an_event_that_says_so_it_ends_with_the_last() -> None:
    trace = traced(managed(3, 1), managed(5, 2))
    assert recorded_of(trace) == Recorded(0.0, trace.duration.total_seconds())


@pytest.mark.parametrize(("start_s", "end_s"), [(2.0, 2.5), (None, 2.5), (2.0, None)])
def test_a_part_tells_of_its_own_time(start_s: float | None, end_s: float | None, tmp_path: Path) -> None:
    whole = tmp_path / "whole.nettrace"
    whole.write_bytes(data_of("default-10.nettrace"))
    trim(whole, tmp_path / "part.nettrace", start_s=start_s, end_s=end_s)
    trim(tmp_path / "part.nettrace", tmp_path / "again.nettrace", start_s=start_s, end_s=end_s)
    assert not read(whole.read_bytes()).begins_late
    for name in ("part", "again"):
        data = (tmp_path / f"{name}.nettrace").read_bytes()
        contents, trace = read(data), Trace(data)
        assert contents.begins_late
        assert contents.lost.total == 0
        recorded = recorded_of(trace)
        assert recorded.begin_s == pytest.approx(start_s or 0.0, abs=1e-6)
        assert recorded.end_s == pytest.approx(end_s or recorded_of(Trace(whole.read_bytes())).end_s, abs=1e-6)
        made = exceptions(trace)
        assert made.totals.per_second == pytest.approx(made.count / recorded.seconds)


def test_a_part_says_when_it_begins_and_ends_in_every_version_and_when_it_is_cut_again(tmp_path: Path) -> None:
    whole = recording("default-10.nettrace")
    trim(whole, tmp_path / "a.nettrace", start_s=1.0, end_s=None)
    convert_file(tmp_path / "a.nettrace", ["nettrace"], tmp_path / "b.nettrace", ConvertOptions(nettrace_version=6))
    trim(tmp_path / "b.nettrace", tmp_path / "c.nettrace", start_s=0.5, end_s=2.25)
    trim(tmp_path / "c.nettrace", tmp_path / "d.nettrace", start_s=1.5, end_s=99.0)
    filter_events(tmp_path / "d.nettrace", tmp_path / "e.nettrace", providers=["Microsoft-Windows-DotNETRuntime"])
    ends = recorded_of(Trace(whole.read_bytes())).end_s
    for name, begin_s, end_s in (
        ("a", 1.0, ends),
        ("b", 1.0, ends),
        ("c", 1.0, 2.25),
        ("d", 1.5, 2.25),
        ("e", 1.5, 2.25),
    ):
        data = (tmp_path / f"{name}.nettrace").read_bytes()
        assert recorded_of(Trace(data)).span == pytest.approx((begin_s, end_s), abs=1e-6)
        contents = read(data)
        assert contents.info is not None
        assert contents.lost.total == 0
        assert len([time for time, _, _ in contents.sequence_points if time < contents.info.sync_ticks]) == 3


@pytest.mark.parametrize("rotated", [False, True])
def test_a_part_that_is_written_again_has_lost_as_much(rotated: bool, tmp_path: Path) -> None:
    """Also what was lost ahead of the first event of a thread in it."""
    path = recording("lossy-10.nettrace")
    if rotated:
        parts = divided(with_points(path.read_bytes(), 2000, 5)).files
        path = tmp_path / "rotated.nettrace"
        path.write_bytes(max((file.getvalue() for file in parts[1:]), key=lambda data: read(data).lost.total))
    part = tmp_path / "part.nettrace"
    trim(path, part, start_s=2.35, end_s=None)
    lost = read(part.read_bytes()).lost
    assert lost.total == read(path.read_bytes()).lost.total > 0
    for version in (5, 6):
        again = tmp_path / f"{version}.nettrace"
        convert_file(part, ["nettrace"], again, ConvertOptions(nettrace_version=version))
        assert read(again.read_bytes()).lost.total == lost.total
        trim(again, tmp_path / f"t{version}.nettrace", start_s=2.35, end_s=None)
        assert read((tmp_path / f"t{version}.nettrace").read_bytes()).lost.total == lost.total
        assert recorded_of(Trace(again.read_bytes())) == recorded_of(Trace(part.read_bytes()))


def test_the_shares_of_a_part_that_is_all_of_it_are_those_of_the_whole(tmp_path: Path) -> None:
    whole, part = recording("gccollect-10.nettrace"), tmp_path / "part.nettrace"
    trim(whole, part, start_s=0, end_s=None)
    ours, theirs = (gc(Trace(path.read_bytes())).totals for path in (part, whole))
    assert ours.pause_percent == pytest.approx(theirs.pause_percent, rel=1e-6)


def test_a_part_without_an_event_is_as_long_as_it_was_asked_for(tmp_path: Path) -> None:
    """The rate of a burst is that of the time that was asked for, not of the burst."""
    trim(recording("default-10.nettrace"), tmp_path / "part.nettrace", start_s=1.0000, end_s=1.0001)
    assert recorded_of(Trace((tmp_path / "part.nettrace").read_bytes())).seconds == pytest.approx(0.0001, abs=1e-8)


@pytest.mark.parametrize(
    ("times", "told"),
    [
        ([], None),
        ([99], None),
        ([99, 88], (110, None)),
        ([99, 98, 88], (100, 110)),
        ([99, 99, 98, 88, 1], (100, 110)),
        ([99, 88, 98], None),  # it ends before it begins
        ([98, 88], None),  # no mark
    ],
)
def test_what_is_told_of_a_part(times: list[int], told: tuple[int, int | None] | None) -> None:
    assert range_of(times, 100) == told


@pytest.mark.parametrize("ticks", [-(1 << 63), -1, 0, 1 << 62, (1 << 63) - 1])
def test_every_moment_is_a_time_of_a_file(ticks: int) -> None:
    for sync in (0, 100, 1 << 50):
        assert -(1 << 63) <= moment(ticks, sync) < sync - 1


def test_of_several_processes_each_has_its_own_time(tmp_path: Path) -> None:
    parts, whole = [recording(f"{name}-10.nettrace") for name in ("events", "gccollect")], tmp_path / "both.nettrace"
    merge_files(parts, whole)
    alone, both = [Trace(part.read_bytes()) for part in parts], Trace(whole.read_bytes())
    times, pids = [recorded_of(trace).seconds for trace in alone], [trace.raw.process.pid for trace in alone]
    recorded = recorded_of(both)
    assert [recorded.of(pid or 0).seconds for pid in pids] == pytest.approx(times, abs=0.01)
    assert recorded.seconds == length_of(recorded.by_process.values()) == pytest.approx(sum(times), abs=0.01)
    assert recorded.seconds < recorded.end_s - recorded.begin_s  # they were recorded minutes apart
    paused = [gc(trace).totals.pause_ms for trace in alone]
    own = [recorded.of(pid or 0).seconds for pid in pids]
    assert gc(both).totals.pause_percent == pytest.approx(sum(paused) / sum(own) / 10)
    assert recorded.of(1) == Recorded(recorded.begin_s, recorded.end_s)  # nobody's
    merge_files([whole, parts[0]], tmp_path / "again.nettrace")
    again = recorded_of(Trace((tmp_path / "again.nettrace").read_bytes()))
    assert [again.of(pid or 0) for pid in pids] == [recorded.of(pid or 0) for pid in pids]
    assert sorted(one.seconds for one in map(again.of, again.by_process)) == pytest.approx(
        sorted([*times, times[0]]), abs=0.01
    )


@pytest.mark.parametrize(
    "said", ["", "77", "77 5", "77 -5 6", "77 5 6 7 8", "77 5 6 ", "x 5 6", "77 5 9999999999999999999"]
)
def test_what_a_session_is_not_told_as_is_passed_over(said: str) -> None:
    trace = traced(managed(3, 1), managed(5, 2), version=6, key_values=[(SESSION, said)])
    assert sessions(trace.raw.info) == {}
    told = traced(managed(3, 1), version=6, key_values=[(SESSION, said), (SESSION, "77 500000000 2000000000")])
    assert sessions(told.raw.info) == {77: (0.5, 2.0)}


def merged(folder: Path, *parts: Path, says: bool = True) -> Trace:
    """As the verb merges them, or as one does that does not write when each was recorded."""
    whole = folder / "merged.nettrace"
    if says:
        merge_files(parts, whole, force=True)
    else:
        with whole.open("wb") as file:
            merge([Trace(part.read_bytes()).raw.contents for part in parts], file)
    return Trace(whole.read_bytes())


def test_a_rate_is_of_the_time_of_those_that_did_it(tmp_path: Path) -> None:
    """And not of others that were merged with them."""
    parts = [recording(f"{name}-10.nettrace") for name in ("events", "counters", "http")]
    alone, both = Trace(parts[0].read_bytes()), merged(tmp_path, *parts)
    assert exceptions(both).totals.per_second == pytest.approx(exceptions(alone).totals.per_second, rel=1e-3)
    made = recording("gcverbose-10.nettrace")
    rates = [
        allocations(one).totals.bytes_per_second for one in (Trace(made.read_bytes()), merged(tmp_path, made, parts[1]))
    ]
    assert rates[0] == pytest.approx(rates[1], rel=1e-3)


@pytest.mark.parametrize("says", [True, False])
def test_one_that_breaks_off_ends_with_its_last_event(says: bool, tmp_path: Path) -> None:
    parts = [recording(f"{name}-10.nettrace") for name in ("events", "killed")]
    recorded = recorded_of(merged(tmp_path, *parts, says=says))
    alone = [recorded_of(Trace(part.read_bytes())) for part in parts]
    if says:
        assert sorted(one.seconds for one in map(recorded.of, recorded.by_process)) == pytest.approx(
            sorted(one.seconds for one in alone), abs=0.01
        )
    else:  # nobody knows
        assert not recorded.by_process
        assert recorded.seconds == recorded.end_s


def test_a_part_that_is_merged_has_the_time_of_the_part(tmp_path: Path) -> None:
    part = tmp_path / "part.nettrace"
    trim(recording("default-10.nettrace"), part, start_s=1.0, end_s=2.0)
    alone, pid = recorded_of(Trace(part.read_bytes())), Trace(part.read_bytes()).raw.process.pid
    made = merged(tmp_path, part, recording("gccollect-10.nettrace"))
    assert recorded_of(made).of(pid or 0).seconds == pytest.approx(alone.seconds, abs=0.001)


@pytest.mark.parametrize(
    ("spans", "length"),
    [([], 0.0), ([(1, 2), (5, 9)], 5.0), ([(5, 9), (1, 6)], 8.0), ([(1, 9), (2, 3)], 8.0), ([(1, 2), (2, 3)], 2.0)],
)
def test_what_several_have_counts_once(spans: list[tuple[float, float]], length: float) -> None:
    assert length_of(spans) == length


def test_what_a_part_keeps_for_names_does_not_count(tmp_path: Path) -> None:
    whole, part = recording("startup-10.nettrace"), tmp_path / "part.nettrace"
    loaded = loader(Trace(whole.read_bytes())).assemblies.values("start_ms")
    begin_ms, end_ms = loaded[2] + 0.01, loaded[-1] - 0.01
    trim(whole, part, start_s=begin_ms / 1000, end_s=end_ms / 1000)
    trace = Trace(part.read_bytes())
    recorded = recorded_of(trace)
    inside = [ms for ms in loaded if 1000 * recorded.begin_s <= ms <= 1000 * recorded.end_s]
    assert 0 < len(inside) < len(loaded)
    assert loader(trace).assemblies.values("start_ms") == inside
    assert trace.counts()["Microsoft-Windows-DotNETRuntime"]["Loader/AssemblyLoad"] == len(loaded)
