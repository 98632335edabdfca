"""Why a collection was of its generation, in words."""

from __future__ import annotations

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.condemned import condemned
from dotnetdiag.analysis.gc_collections import gc
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize(
    ("reasons", "conditions", "words"),
    [
        (0, 0, ""),
        (0b01_00_00, 0, "budget of gen1"),
        (0b10_10_00_00, 0, "budget of gen2 + time of gen2"),
        (0b10_00_10, 1 << 13, "budget of gen2 + gen2 too small"),
        (0, 1, "induced"),
        (0, 1 << 7 | 1 << 8, "gen2 fragmented"),
        (0, 1 << 30, "aggressive"),
        (0xFFFFFFFF, 0xFFFFFFFF, None),
    ],
)
def test_fields_are_told_in_words(reasons: int, conditions: int, words: str | None) -> None:
    said = condemned(reasons, conditions)
    assert said == words if words is not None else said.startswith("budget of gen3 + time of gen3 + induced")


@pytest.mark.parametrize(
    ("reasons", "conditions", "words"),
    [(0, 0, "induced"), (0b01_01, 0, "induced"), (0b01_00_00, 0, "budget of gen1"), (0, 1, "induced")],
)
def test_of_one_that_was_asked_for_that_is_told_where_nothing_else_is(
    reasons: int, conditions: int, words: str
) -> None:
    assert condemned(reasons, conditions, is_induced=True) == words


@pytest.mark.parametrize("name", [one for one in recordings() if one.startswith("gc")])
def test_all_that_were_asked_for_have_a_reason(name: str) -> None:
    made = gc(Trace(data_of(name), name=name)).collections.to_pylist()
    assert all(row["condemned"] for row in made if row["reason"] == "Induced" and row["condemned"] is not None)
