"""Starts in recordings of several processes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.analysis.startup import PHASES


@pytest.mark.parametrize("second", ["events-10.nettrace", "startup-10.nettrace"])
def test_of_several_processes_the_first_that_started_is_told(second: str, tmp_path: Path) -> None:
    alone = recording("startup-10.nettrace")
    path = tmp_path / "two.nettrace"
    dd.merge([alone, recording(second)], path)
    one, both = dd.startup(alone), dd.startup(path)
    assert both.totals.program == one.totals.program
    assert one.phases.values("phase")[0] == PHASES[0]  # what came before it is another's
    for name in ("phase", "duration_ms", "assemblies", "methods", "collections", "exceptions"):
        assert both.phases.values(name)[:-1] == pytest.approx(one.phases.values(name)[1:-1])
    assert both.phases.values("phase")[-1] == PHASES[-1]
    assert both.longest.values("name")[:3] == one.longest.values("name")[:3]
    assert "the others in the recording (1) are left out" in both.notes[0]
    assert one.notes == ()
