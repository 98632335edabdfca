"""How long finalizers ran."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_gc import event
from tests.analysis.traces import Seen, traced

from dotnetdiag.analysis.advice import advice
from dotnetdiag.analysis.fold import fold, seconds_of
from dotnetdiag.analysis.gc_collections import GcFold, gc
from dotnetdiag.analysis.gc_finalizers import BEGIN, END

LASTS_MS = 1e6
"""How long each of these recordings is."""


def begin(ms: float) -> Seen:
    return event(ms, BEGIN, 1, bytes(2))


def end(ms: float, count: int = 1) -> Seen:
    return event(ms, END, 1, struct.pack("<IH", count, 0))


def test_they_run_from_begins_to_ends_and_the_last_to_the_end_of_the_recording() -> None:
    told = [end(0, 7), begin(10), end(12, 3), begin(20), begin(30), end(35, 4), begin(LASTS_MS - 10)]
    made = gc(traced(*told))
    assert made.totals.finalizers_ms == pytest.approx(2 + 5 + 10)
    assert made.totals.finalized == 14
    assert gc(traced(*told, lost=1)).totals.finalizers_ms == pytest.approx(2 + 5)


def test_where_nothing_tells_of_them_that_is_not_known() -> None:
    totals = gc(traced(event(1, 2, 1, bytes(10)))).totals
    assert (totals.finalizers_ms, totals.finalized) == (None, None)


@given(st.lists(st.booleans(), min_size=1, max_size=20), st.integers(1, 6))
def test_it_does_not_depend_on_how_many_events_come_at_once(ends: list[bool], rows: int) -> None:
    trace = traced(*(end(ms) if is_end else begin(ms) for ms, is_end in enumerate(ends)))
    (made,) = fold(trace, GcFold(seconds=seconds_of(trace)), rows=rows)
    assert made.totals.finalizers_ms == gc(trace).totals.finalizers_ms
    whole = sum(not before and after for before, after in pairwise(ends))
    still = 0 if ends[-1] else LASTS_MS - (len(ends) - 1)
    assert made.totals.finalizers_ms == pytest.approx(whole + still)


@pytest.mark.parametrize(("since", "is_told"), [(0.0, True), (0.9 * LASTS_MS, False)])
def test_finalizers_that_hang_are_named(since: float, is_told: bool) -> None:
    found = advice(traced(begin(since))).findings
    text = "finalizers ran for 1,000,000 ms, 100 % of the time: one thread runs all of them"
    assert [row["text"].startswith(text) for row in found] == [True] * is_told
