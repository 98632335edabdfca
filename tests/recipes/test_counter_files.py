"""What a file of counters says of the process of each value."""

from __future__ import annotations

from tests.analysis.counters_made import MadeCounters

from dotnetdiag.analysis.counters import counters
from dotnetdiag.recipes.counter_files import rows_of
from dotnetdiag.recipes.counter_watch import CounterProcess

SAID = {"sessionId": "SHARED", "meterName": "M", "tags": ""}


def test_the_columns_of_processes_have_their_kinds_whatever_is_known() -> None:
    """Parquet's columns are those of the first rows: one process without an id made them texts, or one with too large a one ended it."""
    made = MadeCounters("10", version=6)
    made.at(1, thread=1).gauge("g", **SAID, lastValue="1")
    found = counters(made.trace())
    (number,) = {one.pid for one in found.series}
    assert number is not None
    for pid, expected in ((None, None), (7, 7), (1 << 63, None), ((1 << 63) - 1, (1 << 63) - 1)):
        one = CounterProcess(number=number, pid=pid, name="app", runtime="", target="")
        table = rows_of(found, [one])
        assert (table.values("pid"), table.values("process")) == ([expected], ["app"])
        assert table.numpy("pid").dtype.kind in "if"
    nobody = rows_of(found, [])
    assert (nobody.values("pid"), nobody.values("process")) == ([None], [None])
