"""What is written in pieces, or added up in another way because there is much of it, is the same file."""

from __future__ import annotations

import json

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
