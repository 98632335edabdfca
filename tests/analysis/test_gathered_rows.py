"""The rows that a report shows are those of its table, wherever these lie."""

from __future__ import annotations

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.gc_collections import gc
from dotnetdiag.analysis.jit import jit
from dotnetdiag.table.largest import largest
from dotnetdiag.table.sliced import SlicedTable
from dotnetdiag.trace import spilled, spilled_columns
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize("name", recordings())
def test_the_largest_are_rows_of_the_table(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled_columns, "HELD_BYTES", 1)
    monkeypatch.setattr(spilled, "HELD_BYTES", 500)
    trace = Trace(data_of(name), name=name)
    collections, methods = gc(trace).collections, jit(trace).methods
    assert isinstance(methods, SlicedTable)
    assert isinstance(collections, SlicedTable) or not len(collections)
    for table, by in ((collections, "pause_ms"), (methods, "compile_ms")):
        rows = sorted((row for row in table.to_pylist() if row[by] is not None), key=lambda row: -row[by])
        assert largest(table, by, 7) == rows[:7]
