"""What reports keep in files needs few descriptors: a process may have a thousand, and many reports at once."""

from __future__ import annotations

import os
import sys

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis import kept_events
from dotnetdiag.analysis.everything import everything
from dotnetdiag.trace import scratch, spilled, spilled_columns
from dotnetdiag.trace.trace import Trace

MOST = 8
"""Of fifteen reports together."""


def open_now() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are counted in /proc")
@pytest.mark.parametrize("name", recordings())
def test_all_reports_together_have_few_files_open(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (spilled, spilled_columns):
        monkeypatch.setattr(module, "HELD_BYTES", 1)
    monkeypatch.setattr(scratch, "MAPPED_ROWS", 1)
    monkeypatch.setattr(kept_events, "PART_BYTES", 1)
    trace = Trace(data_of(name), name=name)
    before = open_now()
    made = everything(trace)
    held = open_now()
    assert held - before <= MOST
    del made
    assert open_now() <= before + 2  # of the trace
