"""Starts in recordings of several processes."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.analysis import startup as room
from dotnetdiag.analysis.fold import seconds_of
from dotnetdiag.analysis.kept_events import Kept
from dotnetdiag.analysis.native import RuntimeFacts, facts_of
from dotnetdiag.analysis.startup_phases import PHASES, Counted
from dotnetdiag.errors import UnknownName
from dotnetdiag.events.columns import Scalar, Text
from dotnetdiag.recipes.trace_rewrite import trim, write_nettrace
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.recorded import Recorded

NO_JIT = "no compiled methods: there were none, or they were not recorded (--clrevents jit --clreventlevel verbose)"


@pytest.mark.parametrize("second", ["events-10.nettrace", "startup-10.nettrace", "killed-10.nettrace"])
def test_of_several_processes_the_first_that_started_is_told(second: str, tmp_path: Path) -> None:
    alone = recording("startup-10.nettrace")
    path = tmp_path / "two.nettrace"
    if "killed" in second:  # as one merges them that does not write when each was recorded
        with path.open("wb") as file:
            merge([dd.open(one).raw.contents for one in (alone, recording(second))], file)
    else:
        dd.merge([alone, recording(second)], path)
    one, both = dd.startup(alone), dd.startup(path)
    assert both.totals.program == one.totals.program
    # where nothing says when each was recorded what came before its start may be another's
    first, last = (1, -1) if "killed" in second else (0, None)
    for name in ("phase", "duration_ms", "assemblies", "methods", "collections", "exceptions"):
        assert both.phases.values(name)[:last] == pytest.approx(one.phases.values(name)[first:last])
    assert both.phases.values("phase")[-1] == PHASES[-1]
    assert both.longest.values("name")[:3] == one.longest.values("name")[:3]
    assert "the others in the recording (1) are left out" in both.notes[0]
    # which has not said that its session ends: so nobody's end is told
    notes = [room.NO_END] if "killed" in second else []
    assert (one.notes, [*both.notes[1:]]) == ((NO_JIT,), [*notes, NO_JIT])


@pytest.mark.parametrize("second", ["http-10.nettrace", "counters-10.nettrace", "web-10.nettrace"])
def test_a_start_beside_a_process_that_tells_of_nothing_is_what_it_is_alone(second: str, tmp_path: Path) -> None:
    """And that process is said to be left out."""
    alone, path = recording("startup-10.nettrace"), tmp_path / "two.nettrace"
    dd.merge([recording(second), alone], path)
    one, both = dd.startup(alone), dd.startup(path)
    for name in ("phase", "duration_ms", "assemblies", "methods", "collections", "exceptions", "cpu_ms"):
        assert both.phases.values(name) == pytest.approx(one.phases.values(name), nan_ok=True)
    assert both.totals.cpu_ms == pytest.approx(one.totals.cpu_ms)
    assert "the others in the recording (1) are left out" in both.notes[0]


def later(source: Path, path: Path, ms: int) -> Path:
    """The same recording so much later, by the date of its file, whose seconds and thousandths these are."""
    data = bytearray(source.read_bytes())
    seconds, thousandths = struct.unpack_from("<HH", data, 0x35 + 12)
    struct.pack_into("<HH", data, 0x35 + 12, seconds + (thousandths + ms) // 1000, (thousandths + ms) % 1000)
    path.write_bytes(data)
    return path


def kept(path: Path, event: str, *, after_ms: float) -> Path:
    """A recording of a start, with those of an event alone that come so late."""
    trace = dd.open(recording("startup-10.nettrace"))
    contents, meaning = trace.raw.contents, trace.raw.meaning
    is_early = meaning.info.elapsed_ns(contents.headers.time) < after_ms * 1e6
    is_of = np.isin(contents.headers.metadata_id, trace.raw.types.find(event))
    with path.open("wb") as file:
        write_nettrace(trace, file, keep=~(is_of & is_early))
    return path


def test_the_process_that_started_first_is_that_whose_runtime_did(tmp_path: Path) -> None:
    """It takes longer to start, and its first assembly is loaded behind that of the other."""
    slow = kept(tmp_path / "slow.nettrace", "Loader/AssemblyLoad", after_ms=70)
    quick = later(recording("startup-10.nettrace"), tmp_path / "quick.nettrace", 10)
    path = tmp_path / "both.nettrace"
    dd.merge([slow, quick], path)
    pid = dd.open(slow).raw.process.pid
    assert next(iter(dd.open(path).events("Loader/AssemblyLoad"))).pid != pid
    made = dd.startup(path)
    assert made.notes[0].startswith(f"this is process {pid}, the first that started")
    alone = dd.startup(slow)
    for name in ("phase", "duration_ms", "assemblies", "collections", "exceptions"):
        assert made.phases.values(name) == pytest.approx(alone.phases.values(name))


def test_a_start_behind_one_that_is_not_recorded_is_told_whole(tmp_path: Path) -> None:
    """What loads assemblies long before, and began before it was recorded, did not start first in the recording."""
    running = kept(tmp_path / "running.nettrace", "Microsoft-Windows-DotNETRuntime/Runtime/Start", after_ms=70)
    slow = kept(tmp_path / "slow.nettrace", "Loader/AssemblyLoad", after_ms=70)
    path, started = tmp_path / "both.nettrace", later(slow, tmp_path / "started.nettrace", 20_000)
    dd.merge([running, started], path)
    trace = dd.open(path)
    fold = room.StartupFold(seconds=seconds_of(trace), runtime=facts_of(trace))
    for window in trace.windows(fold.wants, size=20):
        fold.feed(window)
    made, alone = fold.result(), dd.startup(started)
    assert alone.totals.program == made.totals.program
    for name in ("phase", "duration_ms", "assemblies", "bind_ms", "collections", "exceptions", "cpu_ms"):
        assert made.phases.values(name) == pytest.approx(alone.phases.values(name))


def test_a_part_that_was_merged_is_still_a_part(tmp_path: Path) -> None:
    """What it keeps for names is not counted, and its begin is no start."""
    part, path = tmp_path / "part.nettrace", tmp_path / "two.nettrace"
    trim(recording("startup-10.nettrace"), part, start_s=0.08, end_s=None)
    dd.merge([recording("gccollect-10.nettrace"), part], path)
    pid = dd.open(part).raw.process.pid
    names = [
        [row["assembly"] for row in dd.loader(one).assemblies.to_pylist() if row["pid"] == pid] for one in (part, path)
    ]
    assert 0 < len(names[0]) < len(dd.loader(recording("startup-10.nettrace")).assemblies)
    assert names[1] == names[0]
    assert dd.startup(path).phases.to_pylist() == dd.startup(part).phases.to_pylist() == []
    early = tmp_path / "early.nettrace"
    trim(recording("startup-10.nettrace"), early, start_s=0.06, end_s=None)
    dd.merge([early, recording("gccollect-10.nettrace")], path, force=True)
    assert dd.startup(early).notes[0] == room.PART.format(0.06)
    assert room.PART.format(0.06) in dd.startup(path).notes


def test_what_was_not_recorded_is_not_none_that_there_were() -> None:
    made = dd.startup(recording("startup-10.nettrace"))
    assert {*made.phases.values("methods"), *made.phases.values("compile_ms")} == {None}
    assert sum(made.phases.values("collections")) == 10
    assert 0 in made.phases.values("exceptions")  # of a phase without any, of a recording that has some
    assert made.notes == (NO_JIT,)


def without(events: str, path: Path) -> Path:
    """A recording of a start in which no event came whose name matches."""
    there = dd.open(recording("startup-10.nettrace")).counts()
    names = [f"{provider}/{name}" for provider, own in there.items() for name in own if not re.search(events, name)]
    dd.filter(recording("startup-10.nettrace"), path, events=names)
    return path


@pytest.mark.parametrize("left_out", ["GC/Start$", "GC/(?!CreateSegment)", "GC/(Start|Stop)$"])
def test_a_keyword_that_was_recorded_is_not_asked_for_and_does_not_tell_that_all_its_events_were(
    left_out: str, tmp_path: Path
) -> None:
    """Segments of the heap have that of the collector, ends of collections too, whose begins a filter left out: of 10 it said 0."""
    made = dd.startup(without(left_out, tmp_path / "some.nettrace"))
    assert {*made.phases.values("collections"), *made.phases.values("pause_ms")} == {None}
    assert made.notes == ("no collections: there were none, or their events were left out by a filter", NO_JIT)


@pytest.mark.parametrize("keep", [("GC/CreateSegment", "ExceptionCatch/Start"), ("GC/Stop", "Exception/Stop")])
def test_what_was_thrown_and_collected_is_not_told_by_other_events(keep: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "some.nettrace"
    needed = ("Runtime/Start", "Loader/AssemblyLoad", "Loader/ModuleLoad")
    dd.filter(recording("startup-10.nettrace"), path, events=[*needed, *keep])
    made = dd.startup(path)
    assert {*made.phases.values("collections"), *made.phases.values("exceptions")} == {None}
    assert made.notes[0].startswith("no collections or exceptions: there were none, or their events")


def test_a_keyword_of_which_nothing_came_is_asked_for(tmp_path: Path) -> None:
    made = dd.startup(without("GC/|AppDomainResourceManagement", tmp_path / "bare.nettrace"))
    assert {*made.phases.values("collections"), *made.phases.values("pause_ms")} == {None}
    assert made.notes == (room.no_events(["compile", "pause"]),)


def test_of_what_has_no_end_nothing_tells_how_long_it_took(tmp_path: Path) -> None:
    made = dd.startup(without("AssemblyLoader/Stop", tmp_path / "begun.nettrace"))
    whole = dd.startup(recording("startup-10.nettrace"))
    assert any(whole.phases.values("bind_ms"))
    took = zip(whole.phases.values("bind_ms"), made.phases.values("bind_ms"), strict=True)
    assert [ms for before, ms in took if before] == [None] * sum(map(bool, whole.phases.values("bind_ms")))
    assert "assembly" not in made.longest.values("kind")


def test_an_event_that_comes_later_tells_that_there_were_none_before() -> None:
    made = dd.startup(recording("startup-10.nettrace"), 0.05)
    assert sum(made.phases.values("collections")) == sum(made.phases.values("exceptions")) == 0
    assert made.notes == (NO_JIT,)


@pytest.mark.parametrize(
    ("events", "keywords", "note"),
    [
        ("Runtime/Start$", 0x8, room.TOO_LATE),
        ("Loader/", 0, room.NO_LOADS),
        ("Loader/|Runtime/Start$", 0, room.NO_START),
        ("Loader/AssemblyLoad$", 0x8, room.NO_PROGRAM),
    ],
)
def test_where_no_start_is_told_what_the_recording_has_is_not_asked_for(events: str, keywords: int, note: str) -> None:
    fold = room.StartupFold(runtime=lambda: RuntimeFacts(keywords=keywords, level=4))
    trace = dd.open(recording("startup-10.nettrace"))
    for window in trace.windows(lambda schema: fold.wants(schema) and not re.search(events, schema.name)):
        fold.feed(window)
    made = fold.result()
    assert (made.notes, len(made.phases)) == ((note,), 0)


@pytest.mark.parametrize("is_told", [False, True])
def test_the_process_is_chosen(is_told: bool, tmp_path: Path) -> None:
    """Each by its number, one that begins late too, whether or not the recording says when each was recorded."""
    alone, path = recording("startup-10.nettrace"), tmp_path / "two.nettrace"
    files = [recording("gccollect-10.nettrace"), alone]
    if is_told:
        dd.merge(files, path)
    else:
        with path.open("wb") as file:
            merge([dd.open(one).raw.contents for one in files], file)
    trace = dd.open(path)
    pid = dd.open(alone).raw.process.pid
    (other,) = {one.pid for one in trace.processes} - {pid}
    one, chosen = dd.startup(alone), dd.startup(trace, process=pid)
    first, last = (0, None) if is_told else (1, -1)
    for name in ("phase", "duration_ms", "assemblies", "methods", "collections", "exceptions"):
        assert chosen.phases.values(name)[:last] == pytest.approx(one.phases.values(name)[first:last])
    assert chosen.totals.program == one.totals.program
    assert (dd.startup(trace).totals.others, chosen.totals.others, one.totals.others) == (1, None, None)
    assert not any("left out" in note for note in chosen.notes)
    assert len(dd.startup(trace, process=other).phases) == 0


def test_a_process_that_is_not_there_is_an_error_that_lists_those_that_are() -> None:
    trace = dd.open(recording("gccollect-10.nettrace"))
    with pytest.raises(UnknownName, match=f"^no process '5' in the recording; there is {trace.raw.process.pid}$"):
        dd.startup(trace, process=5)


def test_of_many_processes_an_error_lists_some() -> None:
    fold = room.StartupFold(process=5)
    fold._pids = {*range(100, 130), 0}
    with pytest.raises(UnknownName, match=r"there are 100, .*, 119, 10 others$"):
        fold.result()


def test_of_a_recording_without_a_start_nothing_is_told() -> None:
    made = dd.startup(recording("default-10.nettrace"))
    assert (len(made.phases), len(made.longest), made.totals.cpu_ms, made.totals.program) == (0, 0, None, None)
    assert made.notes == (room.NO_START,)


def test_what_comes_long_behind_the_start_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = dd.open(recording("default-10.nettrace"))
    kept = []
    for waited in (5.0, 0.0):
        monkeypatch.setattr(room, "WAITED_S", waited)
        fold = room.StartupFold(first_s=0.5)
        for window in trace.windows(fold.wants, size=100):
            fold.feed(window)
        kept.append((len(fold._exceptions._rows), len(fold._jitted.all())))
        fold.result()
    assert kept[0][0] == dd.exceptions(trace).count > kept[1][0]
    assert kept[0][1] == kept[1][1]


@pytest.mark.parametrize(
    ("has", "note"),
    [
        (
            ("assemblyloader", "jit"),
            "no collections or exceptions: there were none, or they were not recorded (--clrevents gc+exception)",
        ),
        (("assemblyloader", "jit", "gc", "exception"), None),
        (
            ("gc", "exception"),
            "no binds or compiled methods: there were none, or they were not recorded "
            "(--clrevents assemblyloader+jit --clreventlevel verbose)",
        ),
    ],
)  # fmt: skip
def test_keywords_that_would_tell_are_named(has: tuple[str, ...], note: str | None) -> None:
    lacking = [name for name, (_, keyword) in room.KINDS.items() if keyword not in has]
    assert (room.no_events(lacking) if lacking else None) == note


def test_where_nothing_came_in_time_there_is_an_answer() -> None:
    trace = dd.open(recording("startup-10.nettrace"))
    fold = room.StartupFold(first_s=1e-6)
    late = list(trace.windows(fold.wants, size=64))[-1]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "WAITED_S", 0.0)
        fold.feed(late)
        fold.feed(late)
        made = fold.result()
    assert (len(made.phases), made.notes) == (0, (room.NO_START,))


def test_what_took_longest_is_of_the_time_that_was_asked_for() -> None:
    """What comes behind it is looked at too, for a while, and there is more of it that takes longer."""
    at, took = np.arange(250.0), np.where(np.arange(250) < 50, 10.0, 11.0)
    rows = dd.Table({"start_ms": Scalar(at), "compile_ms": Scalar(took), "method": Text.from_pylist(["A"] * 250)})
    none = rows[:0]
    counted = Counted(assemblies=none, binds=none, methods=rows, collections=none, thrown=none)
    assert counted.longest(50.0)["start_ms"].to_pylist() == [float(one) for one in range(50)]


@pytest.mark.parametrize(
    ("path", "is_framework"),
    [
        ("/usr/share/dotnet/shared/Microsoft.NETCore.App/10.0.14/System.Console.dll", True),
        ("C:\\dotnet\\shared\\Microsoft.AspNetCore.App\\8.0.1\\A.dll", True),
        ("/srv/Microsoft.Shop.App/Shop.dll", False),
        ("/srv/Microsoft.Shop.App/bin/Shop.dll", False),
    ],
)
def test_the_shared_framework_lies_in_a_folder_of_its_version(path: str, is_framework: bool) -> None:
    fold = room.StartupFold()
    modules = Kept(
        np.zeros(1), np.ones(1), np.ones(1), {"AssemblyID": np.ones(1), "ModuleILPath": np.zeros(1, np.int64)}
    )
    fold._texts.each([path])
    assert fold._is_framework(modules, 1) == is_framework


def test_a_session_that_lasted_no_time_has_spent_none() -> None:
    fold = room.StartupFold(seconds=lambda: 0.0)
    for window in dd.open(recording("startup-10.nettrace")).windows(fold.wants):
        fold.feed(window)
    assert fold.result().totals.end_ms == 0.0


@pytest.mark.parametrize(("start_s", "has_note"), [(0.03, False), (0.06, True), (None, False)])
def test_of_a_part_it_is_said_where_it_begins(start_s: float | None, has_note: bool, tmp_path: Path) -> None:
    path = tmp_path / "part.nettrace"
    dd.trim(recording("startup-10.nettrace"), path, start=start_s, end=0.2)
    notes = dd.startup(path).notes
    assert [note for note in notes if "a part of a recording" in note] == ([notes[0]] if has_note else [])


@pytest.mark.parametrize(("begin_s", "has_begun"), [(0.07, False), (0.1, True)])
def test_of_a_part_behind_the_load_of_the_program_no_phases_are_told(begin_s: float, has_begun: bool) -> None:
    """An assembly that is not of .NET, and is loaded later, was told as the program, and all before as what that waits for."""
    fold = room.StartupFold(seconds=lambda: Recorded(begin_s, 0.3))
    for window in dd.open(recording("startup-10.nettrace")).windows(fold.wants):
        fold.feed(window)
    made = fold.result()
    assert (room.BEGUN.format(begin_s) in made.notes, len(made.phases) == 0) == (has_begun, has_begun)
    assert (made.totals.main_ms is None) == has_begun
