"""Ids of processes are numbers of 32 bits without a sign: those from 2 to the power of 31 on are told as any other."""

from __future__ import annotations

import struct
from dataclasses import fields, is_dataclass

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.everything import everything
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.table import Table
from dotnetdiag.trace.trace import Trace

PID = (1 << 32) - 10
_BEFORE_PID = struct.calcsize("<5sB16sqqI")
"""Of the object Trace of nettrace 4: its name and a tag, the date, two numbers of the clock, the size of a pointer."""
QUIET = ("lossy", "counters")
"""Recordings of which no report tells anything."""


def renamed(name: str) -> bytes:
    data = bytearray(data_of(name))
    place = data.index(b"Trace\x06") + _BEFORE_PID
    data[place : place + 4] = struct.pack("<I", PID)
    return bytes(data)


@pytest.mark.parametrize("name", [one for one in recordings() if "netperf" not in one and not one.startswith("v6")])
def test_all_reports_tell_of_it(name: str) -> None:
    told = 0
    for report in everything(Trace(renamed(name), name=name)).reports.values():
        if not is_dataclass(report) or isinstance(report, StackProfile):
            continue
        tables = [getattr(report, one.name) for one in fields(report)]
        for table in (one for one in tables if isinstance(one, Table) and len(one) and "pid" in one.columns):
            assert set(table.values("pid")) <= {PID, None}
            told += 1
    assert told or name.startswith(QUIET)
