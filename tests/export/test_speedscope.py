"""speedscope files: what the published schema takes, the reference's layout and weights, and what it gets wrong."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.analysis.reference import (
    PSEUDO_FRAMES,
    UNRESOLVED,
    Sums,
    is_pseudo,
    opened,
    speedscope_of,
    sums_of,
)
from tests.export.made import DEEP, HOSTILE_NAMES, SMALL, hostile, profile_of, sample, written
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace

SCHEMA = Path(__file__).parents[1] / "data" / "export" / "speedscope.schema.json"
TOLERANCE_MS = 0.1


@cache
def validator() -> Any:
    return jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))


def made(profile: StackProfile, style: Style | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written(profile, "speedscope", style).decode("ascii"))
    for one in document["profiles"]:
        check_nesting(document, one)
    return document


def check_nesting(document: dict[str, Any], profile: dict[str, Any]) -> None:
    """What speedscope itself demands: times that never go back, and what is closed is what was opened last."""
    stack: list[int] = []
    last = profile["startValue"]
    for event in profile["events"]:
        assert last <= event["at"] <= profile["endValue"]
        last = event["at"]
        if event["type"] == "O":
            assert 0 <= event["frame"] < len(document["shared"]["frames"])
            stack.append(event["frame"])
        else:
            assert stack.pop() == event["frame"]
    assert not stack


def events_of(document: dict[str, Any], index: int) -> list[tuple[str, str, float]]:
    names = [frame["name"] for frame in document["shared"]["frames"]]
    return [(event["type"], names[event["frame"]], event["at"]) for event in document["profiles"][index]["events"]]


def test_a_frame_stays_open_as_long_as_it_is_seen_and_a_gap_closes_all() -> None:
    document = made(profile_of(*SMALL), Style.SHORT)
    assert document["profiles"][1]["name"] == "Thread (1)"
    assert document["profiles"][1]["unit"] == "milliseconds"
    assert (document["profiles"][1]["startValue"], document["profiles"][1]["endValue"]) == (0.0, 40.0)
    assert events_of(document, 1) == [
        ("O", "App.Main", 0.0),
        ("O", "App.Work", 0.0),
        ("O", "App.Inner", 0.0),
        ("O", "CPU_TIME", 0.0),
        ("C", "CPU_TIME", 10.0),
        ("C", "App.Inner", 10.0),
        ("O", "CPU_TIME", 10.0),
        ("C", "CPU_TIME", 15.0),
        ("C", "App.Work", 15.0),
        ("O", "App.Wait", 15.0),
        ("O", "UNMANAGED_CODE_TIME", 15.0),
        ("C", "UNMANAGED_CODE_TIME", 20.0),
        ("C", "App.Wait", 20.0),
        ("C", "App.Main", 20.0),
        ("O", "App.Main", 30.0),
        ("O", "App.Work", 30.0),
        ("O", "App.Inner", 30.0),
        ("O", "CPU_TIME", 30.0),
        ("C", "CPU_TIME", 40.0),
        ("C", "App.Inner", 40.0),
        ("C", "App.Work", 40.0),
        ("C", "App.Main", 40.0),
    ]


def test_all_threads_together_are_the_first_profile() -> None:
    document = made(profile_of(*SMALL), Style.SHORT)
    whole = document["profiles"][0]
    assert (whole["name"], whole["startValue"], whole["endValue"]) == ("All threads", 0.0, 70.0)
    assert document["activeProfileIndex"] == 0
    sums = sums_of(document, whole)
    assert sums.inclusive["App.Work"] == 65
    assert sums.inclusive["App.Loop"] == 40
    assert sums.inclusive["CPU_TIME"] == 65
    assert sums.exclusive["UNMANAGED_CODE_TIME"] == 5
    opened_once = [name for kind, name, _ in events_of(document, 0) if kind == "O" and name == "App.Main"]
    assert len(opened_once) == 1


def test_equal_thread_names_do_not_clash() -> None:
    document = made(profile_of(*SMALL, names={1: "worker", 2: "worker"}))
    assert [one["name"] for one in document["profiles"]] == [
        "All threads",
        "Thread (1) (worker)",
        "Thread (2) (worker)",
    ]
    same_id = profile_of(sample(1, 0, 1, "A.B"), sample(2, 0, 2, "A.B"))
    first, second = same_id.threads
    twins = StackProfile(
        **{
            **{name: getattr(same_id, name) for name in StackProfile.__dataclass_fields__},
            "threads": (first, type(second)(thread_id=1, process_id=78, rows=second.rows)),
        }
    )
    assert [one["endValue"] for one in made(twins)["profiles"]] == [3.0, 1.0, 2.0]


@pytest.mark.parametrize("name", ["default-10", "cpu-only-10"])
def test_frames_and_weights_of_each_thread_are_those_of_the_reference(name: str) -> None:
    """Its pseudo-frames but the states have no place in ours (``PSEUDO_FRAMES`` says why)."""
    profile, theirs = cpu(opened(name)), speedscope_of(name)
    ours = made(profile)
    validator().validate(ours)
    unresolved = {frame.name() for frame in profile.frames[:] if frame.address is not None}
    states = {"CPU_TIME", "UNMANAGED_CODE_TIME"}
    assert states < set(PSEUDO_FRAMES)
    assert len(ours["profiles"]) == 1 + len(theirs["profiles"])
    for mine, one in zip(ours["profiles"][1:], theirs["profiles"], strict=True):
        assert mine["startValue"] == pytest.approx(one["startValue"], abs=1e-6)
        assert mine["endValue"] == pytest.approx(one["endValue"], abs=TOLERANCE_MS)
        reference, found = sums_of(theirs, one), _with_one_unresolved(sums_of(ours, mine), unresolved)
        for kind in ("exclusive", "inclusive"):
            expected = {
                frame: weight
                for frame, weight in getattr(reference, kind).items()
                if frame in states or not is_pseudo(frame)
            }
            got = getattr(found, kind)
            assert set(found.inclusive) == {
                frame for frame in reference.inclusive if frame in states or not is_pseudo(frame)
            }
            for frame in {*expected, *got}:
                assert got[frame] == pytest.approx(expected.get(frame, 0), abs=TOLERANCE_MS), (one["name"], frame)


def _with_one_unresolved(sums: Sums, unresolved: set[str]) -> Sums:
    made = Sums()
    for kind in ("exclusive", "inclusive"):
        for frame, weight in getattr(sums, kind).items():
            getattr(made, kind)[UNRESOLVED if frame in unresolved else frame] += weight
    return made


@pytest.mark.parametrize("name", ["default-10", "cpu-only-10"])
def test_all_threads_weigh_what_the_threads_do(name: str) -> None:
    document = made(cpu(opened(name)))
    whole = sums_of(document, document["profiles"][0])
    parts = [sums_of(document, one) for one in document["profiles"][1:]]
    for frame, weight in whole.inclusive.items():
        assert weight == pytest.approx(sum(part.inclusive.get(frame, 0) for part in parts), abs=1e-3)


@pytest.mark.parametrize("name", recordings())
def test_every_recording_gives_a_valid_file(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    for profile in (cpu(trace), cpu(trace, weight="samples"), stacks(trace)):
        document = made(profile)
        assert len(document["profiles"]) == 1 + len(profile.threads)
        assert document["profiles"][0]["endValue"] == pytest.approx(profile.total)
        if sum(len(one["events"]) for one in document["profiles"]) < 20_000:
            validator().validate(document)


def test_what_has_no_length_is_laid_out_by_weight() -> None:
    profile = profile_of(
        sample(1, 5, 0, "A.Main", "A.New", weight=100),
        sample(1, 9, 0, "A.Main", weight=50),
        sample(2, 3, 0, "A.Main", "A.New", weight=7),
        unit="bytes",
    )
    document = made(profile, Style.SHORT)
    validator().validate(document)
    assert [one["unit"] for one in document["profiles"]] == ["bytes"] * 3
    assert [one["endValue"] for one in document["profiles"]] == [157, 150, 7]
    assert sums_of(document, document["profiles"][0]).inclusive == {"A.Main": 157, "A.New": 107, "CPU_TIME": 157}


def test_hostile_names_and_deep_stacks_give_a_valid_file() -> None:
    document = made(hostile())
    validator().validate(document)
    names = {frame["name"] for frame in document["shared"]["frames"]}
    assert {
        "app!" + name.encode("utf-16", "surrogatepass").decode("utf-16", "replace") + "()"
        for name in HOSTILE_NAMES
        if "." in name
    } <= names
    assert sum(event["type"] == "O" for event in document["profiles"][2]["events"]) == 2 * DEEP - 1


def test_nothing_gives_a_valid_file() -> None:
    document = made(profile_of())
    validator().validate(document)
    assert document["profiles"][0]["events"] == []


def test_a_difference_is_refused() -> None:
    profile = profile_of(*SMALL)
    with pytest.raises(UsageError, match="cannot show a difference"):
        written(diff(profile, profile), "speedscope")
