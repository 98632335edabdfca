"""Which keywords a recording had, by what came."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.analysis.recorded_keywords import recorded_keywords


@pytest.mark.parametrize(
    ("name", "keywords"), [("gccollect-10", 0x1), ("events-3.1", 0x8001), ("v6-oncpu-10", 0), ("startup-10", 0x100000800D)]
)  # fmt: skip
def test_an_event_with_one_keyword_tells_that_it_was_recorded(name: str, keywords: int) -> None:
    """GC/DynamicEvent and Exception/Start have several, each of which would do."""
    assert recorded_keywords(dd.open(recording(f"{name}.nettrace"))) == (keywords, 4 if keywords else 0)


def test_what_was_merged_had_several_sessions(tmp_path: Path) -> None:
    path = tmp_path / "both.nettrace"
    dd.merge([recording("gccollect-10.nettrace"), recording("events-10.nettrace")], path)
    assert recorded_keywords(dd.open(path)) == (0, 0)
