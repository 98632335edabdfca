"""What is written in pieces, or added up in another way because there is much of it, is the same file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.export.made import SMALL, Sample, hostile, profile_of, sample, written

from dotnetdiag.analysis.profile import MILLISECONDS, State
from dotnetdiag.export import FORMATS, chromium, collapsed, pprof, speedscope, sums, timeline

INSTANTS = (
    *(sample(1, time, time % 2, "A.Main", f"A.New{time % 3}", weight=time + 0.5) for time in range(7)),
    sample(2, 1, 0, weight=2),
    *(sample(2, time, 0, "A.Main", "A.New1", "A.Deep", weight=9, state=State.UNMANAGED) for time in (1, 1, 5)),
)
"""Some have no length, one has no stack."""


@pytest.mark.parametrize(
    ("samples", "unit"), [(SMALL, MILLISECONDS), (INSTANTS, MILLISECONDS), (INSTANTS, "bytes"), ((), "bytes")]
)
@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_pieces_of_any_size_give_the_same_file(
    name: str, samples: tuple[Sample, ...], unit: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = profile_of(*samples, unit=unit)
    expected = written(profile, name)
    if FORMATS[name].suffix.endswith(".json"):
        json.loads(expected)
    for module, limit in (
        *((speedscope, "_CHUNK"), (chromium, "_CHUNK"), (timeline, "_WRITTEN"), (timeline, "_KEPT")),
        *((collapsed, "_FRAMES"), (collapsed, "_LETTERS"), (sums, "_DENSE_LIMIT")),
    ):
        monkeypatch.setattr(module, limit, size)
    monkeypatch.setattr(pprof, "_FRAMES", size << 8)
    assert written(profile, name) == expected


@pytest.mark.parametrize("name", ["speedscope", "chromium", "pprof", "collapsed"])
def test_a_file_of_many_steps_is_the_same_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Deep stacks: a piece ends in the middle of one."""
    profile = hostile()
    expected = written(profile, name)
    for module in (speedscope, chromium):
        monkeypatch.setattr(module, "_CHUNK", 999)
    monkeypatch.setattr(timeline, "_WRITTEN", 999)
    monkeypatch.setattr(collapsed, "_FRAMES", 999)
    assert written(profile, name) == expected


class Counted(io.BytesIO):
    """Knows the sizes of what was written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def write(self, data: Any) -> int:
        self.sizes.append(len(data))
        return super().write(data)


def test_text_is_written_as_soon_as_there_is_enough_of_it_and_no_sooner(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = profile_of(*(sample(1, at, 1, "T.Main", f"T.Method{at}") for at in range(500)))
    monkeypatch.setattr(collapsed, "_LETTERS", 1000)
    monkeypatch.setattr(timeline, "_WRITTEN", 1000)
    lines, events = Counted(), Counted()
    FORMATS["collapsed"].write(profile, lines)
    written = timeline.Timeline(profile.tree, lambda node: f"+{node}@", lambda node: f"-{node}@", lambda _: ";")
    written.write(events, [(1.0, 0, node) for node in range(1, 500)])
    for sizes in (lines.sizes, events.sizes):
        assert len(sizes) > 3
        assert all(1000 < size <= 1200 for size in sizes[:-1])
        assert sizes[-1] <= 1200


def test_of_changes_between_stacks_no_more_text_is_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = profile_of(*(sample(1, at, 1, f"T.M{at}") for at in range(100))).tree
    monkeypatch.setattr(timeline, "_KEPT", 50)
    made: list[tuple[str, int]] = []

    def begin(what: str) -> Callable[[int], str]:
        def text(node: int) -> str:
            made.append((what, node))
            return f"{what}{node:04}"

        return text

    written = timeline.Timeline(tree, begin("E"), begin("L"), lambda _: ".")
    for node in (1, 2, 1, 1):
        written.write(io.BytesIO(), [(1.0, 0, node)])
    assert made == [("E", 1), ("E", 2)]
    for node in range(3, 50):
        written.write(io.BytesIO(), [(1.0, 0, node)])
    made.clear()
    written.write(io.BytesIO(), [(1.0, 0, 1)])
    assert made == [("E", 1)], "it was forgotten"
