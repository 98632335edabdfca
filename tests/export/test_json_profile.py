"""Profiles as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.export.made import DEEP, HOSTILE_NAMES, SMALL, hostile, profile_of, sample, written
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace


def made(profile: Any, style: Style | None = None) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(written(profile, "json", style).decode("ascii"))
    return document


def stacks_of(document: dict[str, Any]) -> dict[tuple[str, ...], tuple[float, int]]:
    parent, frame = document["nodes"]["parent"], document["nodes"]["frame"]
    stacks = document["stacks"]
    found = {}
    for thread, state, node, weight, samples in zip(
        *(stacks[name] for name in ("thread", "state", "node", "weight", "samples")), strict=True
    ):
        path: list[str] = []
        while node >= 0:
            path.insert(0, document["frames"][frame[node]]["name"])
            assert parent[node] < node
            node = parent[node]
        found[str(document["threads"][thread]["thread_id"]), state, *path] = (weight, samples)
    return found


def test_stacks_methods_threads_and_origin() -> None:
    document = made(profile_of(*SMALL), Style.SHORT)
    assert (document["format"], document["version"]) == ("dotnetdiag profile", 1)
    assert (document["unit"], document["total"], document["origin"]["lost"]) == ("ms", 70, 0)
    assert stacks_of(document) == {
        ("1", "cpu", "App.Main", "App.Work", "App.Inner"): (20, 2),
        ("1", "cpu", "App.Main", "App.Work"): (5, 1),
        ("1", "unmanaged", "App.Main", "App.Wait"): (5, 1),
        ("2", "cpu", "App.Loop", "App.Work", "App.Inner"): (20, 1),
        ("2", "cpu", "App.Loop", "App.Loop", "App.Work"): (20, 1),
    }
    names = [document["frames"][number]["name"] for number in document["methods"]["frame"]]
    methods = dict(zip(names, document["methods"]["inclusive"], strict=True))
    assert methods == {"App.Inner": 40, "App.Work": 65, "App.Wait": 5, "App.Loop": 40, "App.Main": 30}
    assert names[0] == "App.Inner"
    assert [one["weight"] for one in document["threads"]] == [30, 40]


def test_samples_without_a_stack_have_no_node() -> None:
    document = made(profile_of(sample(1, 0, 0, weight=3), unit="bytes"))
    assert stacks_of(document) == {("1", "cpu"): (3, 1)}


@pytest.mark.parametrize("name", recordings())
def test_every_recording_gives_a_file_with_all_its_weight(name: str) -> None:
    profile: StackProfile = cpu(Trace(data_of(name), name=name))
    document = made(profile)
    assert sum(document["stacks"]["weight"]) == pytest.approx(profile.total)
    assert sum(document["stacks"]["samples"]) == len(profile)
    assert sum(document["methods"]["exclusive"]) <= profile.total * 1.000001


def test_hostile_names_and_deep_stacks_give_a_valid_file() -> None:
    document = made(hostile())
    assert len(document["frames"]) >= len(HOSTILE_NAMES)
    assert max(map(len, stacks_of(document))) == DEEP + 2


def test_a_difference_has_both_weights() -> None:
    after = profile_of(*SMALL[:1], sample(1, 10, 7, "App.Main", "App.New"))
    document = made(diff(profile_of(*SMALL), after), Style.SHORT)
    assert document["format"] == "dotnetdiag difference"
    assert (document["total"]["before"], document["total"]["after"]) == (70, 17)
    assert sum(document["nodes"]["before"]) == 70
    assert sum(document["nodes"]["after"]) == 17
    names = [document["frames"][number]["name"] for number in document["nodes"]["frame"]]
    assert {"App.Main", "App.New", "App.Inner"} <= set(names)
    new = next(one for one in document["methods"] if "New" in one["name"])
    assert new["exclusive"] == {"before": 0, "after": 7, "relative_percent": None}
