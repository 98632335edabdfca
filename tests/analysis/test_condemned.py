"""Why a collection was of its generation, in words."""

from __future__ import annotations

import pytest

from dotnetdiag.analysis.condemned import condemned


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
