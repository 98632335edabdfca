"""Suspensions for others than the collector: nothing of them stays, and nothing of what is told of collections changes."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.analysis.test_gc import collection, event
from tests.analysis.traces import Seen, traced

from dotnetdiag.analysis import gc_stops
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.gc_collections import GcFold, GcReport
from dotnetdiag.analysis.gc_events import GcEvents
from dotnetdiag.analysis.gc_pauses import FOR_GC, PREPARATION
from dotnetdiag.analysis.request_costs import RequestCosts
from dotnetdiag.analysis.tracks import PausesFold
from dotnetdiag.trace.trace import Trace

OTHER, SAMPLER = 0, 7
BEGIN, STOPPED, WENT_ON, COLLECTION = range(4)
THREADS = st.integers(1, 3)
EVENTS = st.one_of(
    st.tuples(THREADS, st.just(BEGIN), st.sampled_from([OTHER, OTHER, FOR_GC, PREPARATION])),
    st.tuples(THREADS, st.sampled_from([STOPPED, WENT_ON, COLLECTION]), st.just(0)),
)


def suspending(ms: float, reason: int, thread: int) -> Seen:
    return replace(event(ms, 9, 1, struct.pack("<IIH", reason, 1, 1)), thread=thread)


def sampled(ms: float) -> list[Seen]:
    """A suspension of the sampler, and its end."""
    stopped, went_on = (
        replace(event(ms + at / 100, number, 1, bytes(2)), thread=SAMPLER) for at, number in ((1, 8), (2, 3))
    )
    return [suspending(ms, OTHER, SAMPLER), stopped, went_on]


def made_of(told: list[tuple[int, int, int]]) -> Trace:
    events = []
    for at, (thread, kind, reason) in enumerate(told):
        if kind == BEGIN:
            events.append(suspending(at, reason, thread))
        elif kind == COLLECTION:
            started = struct.pack("<4IHQ", at, 0, 0, 0, 1, at)
            events.append(replace(event(at, 1, 2, started), thread=thread))
        else:
            events.append(replace(event(at, 8 if kind == STOPPED else 3, 1, bytes(2)), thread=thread))
    return traced(*events, event(len(told), 1, 2, struct.pack("<4IHQ", 900, 0, 0, 0, 1, 900)))


def answers(trace: Trace, rows: int) -> tuple[list[object], object]:
    pauses, made = fold(trace, PausesFold(), GcFold(), rows=rows)
    return pauses.to_pylist(), made.to_json()


BEHIND_OTHERS = [(1, BEGIN, OTHER), (1, WENT_ON, 0), (1, BEGIN, FOR_GC), (1, COLLECTION, 0), (1, WENT_ON, 0)]


@example(BEHIND_OTHERS, 1)
@example(BEHIND_OTHERS[2:] + BEHIND_OTHERS, 2)
@given(st.lists(EVENTS, min_size=5, max_size=40), st.integers(1, 9))
def test_what_is_told_is_the_same_as_if_all_were_kept(told: list[tuple[int, int, int]], rows: int) -> None:
    trace = made_of(told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gc_stops, "MOST_FOREIGN", 0)
        expected = answers(trace, rows)
    assert answers(trace, rows) == expected


def test_nothing_of_the_suspensions_of_a_sampler_stays() -> None:
    events = [one for at in range(300) for one in sampled(float(at))]
    events += [one for at in (100, 200) for one in collection(at + 0.5, at, (1,) * 8)]
    trace = traced(*sorted(events, key=lambda one: one.ms))
    kept, costs, made = GcEvents(), RequestCosts(), GcFold()
    for window in trace.windows(made.wants, size=50):
        kept.feed(window)
        costs.feed(window)
        made.feed(window)
    report: GcReport = made.result()
    assert report.collections.values("number") == [100, 200]
    assert None not in report.collections.values("pause_ms")
    (pid,) = kept.pids()
    assert [len(kept.of(pid).kept[number]) for number in (9, 8, 3)] == [2, 2, 2]
    assert costs._stops.pids().tolist() == [*costs.pauses(None)._lines] == [pid]
