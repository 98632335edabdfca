"""Chromium's trace events: the reference's layout and weights, and stacks that have more than one caller."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import replace
from typing import Any

import pytest
from tests.analysis.reference import UNRESOLVED, is_pseudo, opened
from tests.export.made import DEEP, SMALL, hostile, profile_of, sample, written
from tests.nettrace.recordings import data_of, recording, recordings

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace

Weights = dict[tuple[int, str], float]


def made(profile: StackProfile, style: Style | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written(profile, "chromium", style).decode("ascii"))
    check(document)
    return document


def check(document: dict[str, Any]) -> None:
    """Events are nested within each thread; each stack leads to a root, with the frames that are open."""
    assert document["displayTimeUnit"] == "ms"
    frames = document["stackFrames"]
    for frame in frames.values():
        assert str(frame.get("parent", next(iter(frames)))) in frames
    open_frames: defaultdict[tuple[int, int], list[Any]] = defaultdict(list)
    last: defaultdict[tuple[int, int], float] = defaultdict(float)
    for event in document["traceEvents"]:
        whose = event["pid"], event["tid"]
        if event["ph"] in "BE":
            assert event["ts"] >= last[whose]
            last[whose] = event["ts"]
            assert frames[str(event["sf"])]["name"] == event["name"]
        if event["ph"] == "B":
            above = open_frames[whose][-1]["sf"] if open_frames[whose] else None
            assert frames[str(event["sf"])].get("parent") == above
            open_frames[whose].append(event)
        elif event["ph"] == "E":
            assert open_frames[whose].pop()["sf"] == event["sf"]
    assert not any(open_frames.values())


def inclusive_of(document: dict[str, Any], tids: bool = True) -> Weights:
    """Milliseconds by thread and method; a method within itself counts once."""
    weights: Weights = defaultdict(float)
    stacks: defaultdict[tuple[int, int], list[str]] = defaultdict(list)
    last: dict[tuple[int, int], float] = {}
    for event in document["traceEvents"]:
        if event["ph"] not in "BE":
            continue
        whose = event["pid"], event["tid"]
        for name in set(stacks[whose]):
            weights[event["tid"], name] += (event["ts"] - last[whose]) / 1e3
        last[whose] = event["ts"]
        if event["ph"] == "B":
            frame = document["stackFrames"][str(event["sf"])]
            stacks[whose].append(f"{frame['category']}!{frame['name']}" if frame["category"] else frame["name"])
        else:
            stacks[whose].pop()
    return weights


def test_events_have_the_layout_of_the_reference() -> None:
    document = made(profile_of(*SMALL), Style.FULL)
    assert document["otherData"]["name"] == "made"
    first = next(event for event in document["traceEvents"] if event["ph"] == "B")
    assert first == {
        "name": "App.Main()", "cat": "sampleEvent", "ph": "B", "ts": 0.0, "pid": 77, "tid": 1, "sf": first["sf"],
    }  # fmt: skip
    assert document["stackFrames"][str(first["sf"])] == {"name": "App.Main()", "category": "app"}


@pytest.mark.parametrize("style", Style)
def test_the_category_is_the_module_whatever_style_names_have(style: Style) -> None:
    frames = made(profile_of(*SMALL), style)["stackFrames"].values()
    real = [frame for frame in frames if not frame["name"].endswith("_TIME")]
    assert {frame["category"] for frame in real} == {"app"}
    assert {frame["name"].partition("(")[0] for frame in real} == {
        f"App.{name}" for name in ("Main", "Work", "Inner", "Wait", "Loop")
    }
    assert {frame["category"] for frame in frames if frame not in real} == {""}


def test_a_method_has_as_many_parents_as_callers() -> None:
    frames = made(profile_of(*SMALL), Style.SHORT)["stackFrames"]
    callers = {frames[str(one["parent"])]["name"] for one in frames.values() if one["name"] == "App.Work"}
    assert callers == {"App.Main", "App.Loop"}
    loops = [one for one in frames.values() if one["name"] == "App.Loop"]
    assert len(loops) == 2


@pytest.mark.parametrize("name", ["default-10", "cpu-only-10"])
def test_weights_of_each_thread_and_method_are_those_of_the_reference(name: str) -> None:
    with gzip.open(recording(f"{name}.chromium.json.gz"), "rt", encoding="utf-8") as file:
        theirs = inclusive_of(json.load(file))
    profile = cpu(opened(name))
    unresolved = {frame.name() for frame in profile.frames[:] if frame.address is not None}
    found: Weights = defaultdict(float)
    for (tid, text), weight in inclusive_of(made(profile)).items():
        found[tid, UNRESOLVED if text in unresolved else text] += weight
    states = {"CPU_TIME", "UNMANAGED_CODE_TIME"}
    for key in {*found, *(key for key in theirs if key[1] in states or not is_pseudo(key[1]))}:
        assert found[key] == pytest.approx(theirs.get(key, 0), abs=0.1), key


@pytest.mark.parametrize("name", recordings())
def test_every_recording_gives_a_valid_file(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    made(cpu(trace))
    document = made(stacks(trace))
    assert sum(event["ph"] == "i" for event in document["traceEvents"]) == len(trace)


def test_what_has_no_length_is_an_instant_with_its_weight() -> None:
    profile = profile_of(sample(1, 5, 0, "A.Main", "A.New", weight=100), sample(1, 6, 0, weight=2), unit="bytes")
    instants = [event for event in made(profile, Style.SHORT)["traceEvents"] if event["ph"] == "i"]
    assert [(event["ts"], event["args"]) for event in instants] == [
        (5000.0, {"bytes": 100.0}),
        (6000.0, {"bytes": 2.0}),
    ]


def test_equal_thread_names_do_not_clash() -> None:
    document = made(profile_of(*SMALL, names={1: "worker", 2: "worker"}))
    named = {event["tid"]: event["args"]["name"] for event in document["traceEvents"] if event["name"] == "thread_name"}
    assert named == {1: "Thread (1) (worker)", 2: "Thread (2) (worker)"}


def test_threads_of_other_processes_are_theirs() -> None:
    profile = profile_of(*SMALL, sample(3, 0, 1, "App.Main"), sample(3, 4, 0, "App.Main"))
    processes = (78, 79, None)
    threads = tuple(replace(thread, process_id=pid) for thread, pid in zip(profile.threads, processes, strict=True))
    events = made(replace(profile, threads=threads))["traceEvents"]
    assert {(event["pid"], event["tid"]) for event in events} == {(78, 1), (79, 2), (77, 3)}
    assert {event["ph"] for event in events if event["tid"] == 3} == {"M", "B", "E", "i"}


def test_the_command_line_is_the_name_of_the_process() -> None:
    origin = Origin(name="made.nettrace", process_id=77, command_line='dotnet "app"', events=6, lost=0)
    events = made(profile_of(*SMALL, origin=origin))["traceEvents"]
    assert [event for event in events if event["name"] == "process_name"] == [
        {"name": "process_name", "ph": "M", "ts": 0, "pid": 77, "tid": 0, "args": {"name": 'dotnet "app"'}}
    ]


def test_hostile_names_and_deep_stacks_give_a_valid_file() -> None:
    document = made(hostile())
    parents = {key: one.get("parent") for key, one in document["stackFrames"].items()}
    depth = 0
    at = max(parents, key=int)
    while at is not None:
        depth, at = depth + 1, None if parents[at] is None else str(parents[at])
    assert depth >= DEEP


def test_nothing_gives_a_valid_file() -> None:
    assert made(profile_of())["traceEvents"] == []


def test_a_difference_is_refused() -> None:
    profile = profile_of(*SMALL)
    with pytest.raises(UsageError, match="cannot show a difference"):
        written(diff(profile, profile), "chromium")
