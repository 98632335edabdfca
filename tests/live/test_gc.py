"""Collections as TraceEvent's own analysis sees them, value by value, and as the workload counts its own."""

from __future__ import annotations

import math
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.live.compiling import compiled
from tests.live.runtimes import REQUIRED, command, workload
from tests.live.test_reference_reader import oracle
from tests.nettrace.recordings import data_of, recordings

import dotnetdiag as dd
from dotnetdiag.analysis.gc_collections import GcReport
from dotnetdiag.analysis.gc_events import GENERATIONS

pytestmark = pytest.mark.live

COMMITTED = (
    "TotalCommittedInUse",
    "TotalCommittedInGlobalDecommit",
    "TotalCommittedInFree",
    "TotalCommittedInGlobalFree",
    "TotalBookkeepingCommitted",
)
SAME: Mapping[str, tuple[str, float]] = {
    "start_ms": ("start_ms", 1),
    "duration_ms": ("duration_ms", 1),
    "pause_start_ms": ("pause_start_ms", 1),
    "pause_ms": ("pause_ms", 1),
    "suspend_ms": ("suspend_ms", 1),
    "before_bytes": ("before_mb", 1e6),
    "after_bytes": ("after_mb", 1e6),
    "promoted_bytes": ("promoted_mb", 1e6),
    "allocated_bytes": ("allocated_since_last_mb", 1e6),
    "heaps": ("heaps", 1),
}
Row = Mapping[str, Any]
DIFFERENCES: Mapping[str, tuple[str, Callable[[Row, Row], bool]]] = {
    "allocated_bytes": (
        "since when the first allocated is not known, and what was young when one in the background began is not told: there it is what ticks "
        "tell, ours those before the begin; TraceEvent divides otherwise what one in the background and the next have together",
        lambda ours, _: ours["is_first"] or ours["is_near_background"],
    ),
    "before_bytes": (
        "the history of one in the background may come behind its stop (several heaps), or where a young one has begun within it: TraceEvent "
        "counts it for neither, or for both together for the young one",
        lambda ours, theirs: (
            ours["type"] == "BackgroundGC"
            or (ours["type"] == "ForegroundGC" and ours["before_bytes"] < theirs["before_mb"] * 1e6)
        ),
    ),
    "pause_ms": (
        "TraceEvent leaves out what one in the background had of the pause that it begins in, where a young one has the rest, and takes for its "
        "own what passed between the begins of its first and its last; and leaves out what passed of one that another follows in its pause",
        lambda ours, theirs: ours["type"] == "BackgroundGC" or (ours["is_followed"] and not theirs["pause_ms"]),
    ),
    "heaps": (
        "TraceEvent has the number of the first that tells it, also where that changes (DATAS), and none of those before",
        lambda ours, theirs: ours["heaps"] > max(theirs["heaps"], 1),
    ),
}
"""What is not the same, why, and where it may be so."""

BACKGROUND = """
using System;
class Background
{
    static void Main()
    {
        Console.WriteLine("ready");
        Console.ReadLine();
        var random = new Random(1);
        var kept = new object[60 * 1024 / 8];
        var until = DateTime.UtcNow.AddSeconds(2);
        for (long made = 1; DateTime.UtcNow < until; made++)
        {
            kept[random.Next(kept.Length)] = new byte[random.Next(16000)];
            if (made % 5000 == 0) kept[0] = new byte[200000];
            if (made % 20000 == 0) GC.Collect(2, GCCollectionMode.Default, false);
        }
        Console.WriteLine("done " + GC.CollectionCount(0) + " " + GC.CollectionCount(2));
    }
}
"""


def assert_the_same(path: Path) -> GcReport:
    """Ours and theirs agree but for :data:`DIFFERENCES`. Returns ours."""
    made = dd.gc(path)
    theirs = {(row["pid"], row["number"]): row for row in oracle("gcstats", path) if "number" in row}
    wrong: Counter[str] = Counter()
    first = True
    behind, until = 9, 0.0
    """How many collections ago the last one in the background began, or was under way."""
    rows = made.collections.to_pylist()
    for row, following in zip(rows, (*rows[1:], None), strict=False):
        other = theirs.pop((row["pid"], row["number"]))
        ours = {**row, "is_first": first, "is_near_background": behind < 3 or row["type"] == "BackgroundGC"}
        ours["is_followed"] = following is not None and following["reason"] == "PMFullGC"
        if row["type"] == "BackgroundGC":
            until = math.inf if row["duration_ms"] is None else row["start_ms"] + row["duration_ms"]
        first, behind = False, 0 if row["start_ms"] <= until else behind + 1
        for name in ("generation", "reason", "type"):
            wrong[name] += ours[name] != other[name]
        if not other["complete"]:  # the recording ended before it
            wrong["complete"] += ours["duration_ms"] is not None
            continue
        for name, (their_name, scale) in SAME.items():
            value = ours[name]
            expected = other[their_name] * scale
            is_equal = value is not None and math.isclose(
                value, expected, rel_tol=1e-6, abs_tol=1e-3 if scale == 1 else 1
            )
            wrong[name] += not is_equal and not (name in DIFFERENCES and DIFFERENCES[name][1](ours, other))
    assert not theirs
    assert +wrong == Counter()
    assert_pauses_of_background(path, rows)
    return made


STEPS = ("GC/SuspendEEStart", "GC/RestartEEStop", "GC/Start", "GC/Stop")


def assert_pauses_of_background(path: Path, rows: Sequence[Row]) -> None:
    """Of collections in the background, of which TraceEvent has others: each has the suspension that it begins in, where it alone does, and those
    in its midst.
    """
    trace = dd.open(path)
    tables = [found for name in STEPS if (found := trace.get(name)) is not None]
    steps = [event for table in tables for event in table.to_pylist()]
    paused: dict[int, float] = {}
    for pid in {event["pid"] for event in steps}:
        stopped: Row = {}
        begun, under_way = list[Row](), 0
        for event in sorted((one for one in steps if one["pid"] == pid), key=lambda one: one["time"]):
            match event["event"]:
                case "GC/SuspendEEStart":
                    stopped, begun = event, []
                case "GC/Start":
                    begun.append(event)
                    under_way = event["Count"] if event["Type"] == "BackgroundGC" else under_way
                case "GC/Stop":
                    under_way = 0 if event["Count"] == under_way else under_way
                case "GC/RestartEEStop" if stopped:
                    is_prepared = stopped["Reason"] == "SuspendForGCPrep" and under_way
                    if is_prepared or [one["Type"] for one in begun] == ["BackgroundGC"]:
                        paused[under_way] = paused.get(under_way, 0.0) + event["ms"] - stopped["ms"]
                    elif any(one["Type"] == "BackgroundGC" for one in begun):
                        paused[under_way] = math.nan
    told = {row["number"]: row["pause_ms"] for row in rows if row["type"] == "BackgroundGC" and row["duration_ms"]}
    known = {number: pause for number, pause in paused.items() if number in told and not math.isnan(pause)}
    assert {number: told[number] for number in known} == pytest.approx(known, abs=1e-3)


@pytest.mark.parametrize("name", [name for name in recordings() if not name.startswith("killed")])
def test_recordings(name: str, tmp_path: Path) -> None:
    """But for the one that was killed, of which TraceEvent tells no collection: we tell its ten."""
    path = tmp_path / "x.nettrace"
    path.write_bytes(data_of(name))
    assert_the_same(path)


@pytest.mark.parametrize("runtime", REQUIRED)
def test_the_collections_of_the_workload(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "gc.nettrace"
    with workload(runtime, "gc", "wait=stdin", "linger=stdin") as target:
        dd.collect(target.pid, path, preset="gc-collect", stop=None, duration=2, progress=_once(target.say))
        said = dict(word.split("=") for word in target.expect("done gc").split()[2:])
    made = assert_the_same(path)
    rows = made.collections.to_pylist()
    induced = Counter(row["generation"] for row in rows if row["reason"] == "Induced")
    assert sum(induced.values()) == sum(map(int, said.values())), "of which generation is the collector's choice"
    assert made.totals.induced == sum(induced.values())
    assert made.totals.count == len(rows)


def _once(say: Callable[[], None]) -> Callable[[int, float], None]:
    """Called with the progress of a recording: the first time it begins the work."""
    asked: list[bool] = []

    def progress(*_: object) -> None:
        if not asked:
            asked.append(True)
            say()

    return progress


def recorded_with(
    settings: Mapping[str, str], source: str, runtime: str, path: Path, *, preset: str, duration: float
) -> tuple[int, int]:
    """Record a program that says when it is ready, waits for a line, and says in the end how many collections there were, and of the oldest
    generation, with settings of its runtime.
    """
    program = compiled(source, path.parent, "recorded")
    words, environment = command(runtime)
    process = subprocess.Popen(
        [*words[:-1], str(program)],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment, **{f"DOTNET_{name}": value for name, value in settings.items()}},
    )
    stdin, stdout = process.stdin, process.stdout
    assert stdin is not None
    assert stdout is not None
    try:
        assert stdout.readline() == "ready\n"

        def say() -> None:
            stdin.write("\n")
            stdin.flush()

        dd.collect(process.pid, path, preset=preset, duration=duration, progress=_once(say))
        young, old = map(int, stdout.readline().split()[1:])
        return young, old
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("server", ["0", "1"])
@pytest.mark.parametrize("runtime", ["8", "9", "10"])
def test_collections_in_the_background_and_of_several_heaps(runtime: str, server: str, tmp_path: Path) -> None:
    path = tmp_path / "gc.nettrace"
    settings = {"gcServer": server, "GCHeapCount": "2"}
    young, old = recorded_with(settings, BACKGROUND, runtime, path, preset="gc-verbose", duration=20)
    made = assert_the_same(path)
    rows, heaps = made.collections.to_pylist(), made.by_heap.to_pylist()
    assert [row["heap"] for row in heaps] == ([0, 1] if server == "1" else [0])
    survived = sum(row[f"{one}_survived_bytes"] or 0 for row in rows for one in GENERATIONS)
    assert sum(row["survived_bytes"] for row in heaps) == survived > 0
    assert sum(row["survived_percent"] for row in heaps) == pytest.approx(100)
    assert {row["collections"] for row in heaps} <= {len(rows), len(rows) - 1}
    assert len(rows) == young
    assert sum(row["generation"] == 2 for row in rows) == old
    if server == "1":
        # the last may not be over yet when the program is
        assert {row["heaps"] for row in rows if row["duration_ms"] is not None} == {2}
    else:
        assert any(row["type"] == "BackgroundGC" for row in rows)
    pauses = sorted((row["pause_start_ms"], row["pause_ms"]) for row in rows if row["type"] != "BackgroundGC")
    assert all(begin + length <= later + 1e-6 for (begin, length), (later, _) in pairwise(pauses))


def test_what_is_committed_and_who_asked_is_told(tmp_path: Path) -> None:
    path = tmp_path / "gc.nettrace"
    path.write_bytes(data_of("gcverbose-10.nettrace"))
    made = dd.gc(path)
    usage = dd.open(path)["GC/CommittedUsage"]
    totals = [sum(row[name] for name in COMMITTED) for row in usage.to_pylist()]
    # each collection tells it twice: when it begins, and when it ends
    assert made.collections.values("committed_bytes") == totals[1::2]
    asked = {row["induced_by"] for row in made.collections.to_pylist() if row["reason"] == "Induced"}
    assert asked == {"workload!Workload.Collections.Run(int32,int32,int32)"}
    assert made.induced.total == made.totals.induced
    reasons = {row["condemned"] for row in made.collections.to_pylist() if row["generation"] == 2}
    assert "induced" in reasons
