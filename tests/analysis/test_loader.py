"""What is told of assemblies, binds and types: of recordings that lack some of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.analysis.test_cpu import merged
from tests.nettrace.recordings import data_of

import dotnetdiag as dd
from dotnetdiag.analysis.loader import NO_BINDS
from dotnetdiag.trace.trace import Trace

NAME = "startup-10.nettrace"


@pytest.mark.parametrize("share", [0.31, 0.47, 0.62, 0.79, 0.93, 1.0])
def test_types_are_those_of_the_table_wherever_a_recording_breaks_off(share: float) -> None:
    data = data_of(NAME)
    made = dd.loader(Trace(data[: int(len(data) * share)]))
    assert made.totals.types == sum(made.types.values("count"))


def test_a_process_whose_binds_are_not_told_is_said_to_be_one(tmp_path: Path) -> None:
    whole, bare = tmp_path / "whole.nettrace", tmp_path / "bare.nettrace"
    whole.write_bytes(data_of(NAME))
    dd.filter(whole, bare, events=["Loader/AssemblyLoad", "Loader/ModuleLoad"])
    assert dd.loader(whole).notes == ()
    assert dd.loader(bare).notes == (NO_BINDS,)
    made = dd.loader(merged(Trace(data_of(NAME)), Trace(bare.read_bytes())))
    (note,) = made.notes
    assert note.startswith("of process ")
    assert note.endswith(f": {NO_BINDS}")
    assert made.totals.binds == dd.loader(whole).totals.binds
