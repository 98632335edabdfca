"""What a recording tells over time: as the questions answer it, in nanoseconds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analysis.reference import opened
from tests.analysis.test_waits import ends, gets, wants
from tests.analysis.traces import traced
from tests.nettrace.recordings import data_of, recordings
from tests.shared import needs

from dotnetdiag.analysis.counters import counters
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.gc_collections import gc
from dotnetdiag.analysis.requests import requests
from dotnetdiag.analysis.tracks import Slices, Tracks, tracks
from dotnetdiag.trace.trace import Trace


def of_kind(made: Tracks, kind: str) -> Slices:
    (found,) = (one for one in made.slices if one.kind == kind)
    return found


def texts(slices: Slices) -> list[str]:
    return [slices.label.texts[number] for number in slices.label.number.tolist()]


@needs("fixtures", "the recording default-10")
def test_collections_and_their_pauses_are_as_the_report_has_them() -> None:
    trace = opened("default-10")
    made, report = tracks(trace), gc(trace)
    collections, pauses = of_kind(made, "GC"), of_kind(made, "GC pause")
    assert (collections.start_ns / 1e6).tolist() == pytest.approx(report.collections.values("start_ms"))
    assert texts(collections)[:2] == ["gen0 NonConcurrentGC", "gen1 NonConcurrentGC"]
    assert (pauses.end_ns - pauses.start_ns).sum() / 1e6 == pytest.approx(report.totals.pause_ms, abs=1e-3)
    heap = next(one for one in made.counters if one.name == "GC heap after")
    assert heap.values.tolist() == report.collections.values("after_bytes")


@needs("fixtures", "the recording web-10")
def test_requests_lie_within_each_other_as_in_the_report() -> None:
    trace = opened("web-10")
    slices, report = of_kind(tracks(trace), "Requests"), requests(trace)
    parents = [-1 if one is None else one for one in report.requests.values("parent")]
    assert slices.parent.tolist() == parents
    assert texts(slices) == [f"{row['kind']} {row['name']}" for row in report.requests]


def test_what_has_no_end_lasts_until_its_thread_begins_the_next() -> None:
    """And one that was tried in vain for nobody knows how long: until the end it would say that the thread stands still."""
    lock = "System.Threading.Lock"
    tried = (f"{lock}.TryEnterSlow", f"{lock}.TryEnter_Outlined", "A.M")
    trace = traced(
        wants(1, 1, "A.M"),  # its end was lost
        wants(5, 2, *tried, owner=1),
        wants(6, 3, "A.M"),
        wants(10, 1, "A.M"),
        gets(12, 1, 2.0),
        ends(100, 4),
        modules={lock: "/x/System.Private.CoreLib.dll"},
    )
    made = tracks(trace)
    slices = of_kind(made, "Contention")
    assert (slices.tid.tolist(), (slices.start_ns / 1e6).tolist()) == ([1, 2, 3, 1], [1, 5, 6, 10])
    assert (slices.end_ns / 1e6).tolist() == [10, 5, made.end_ns / 1e6, 12]


@needs("fixtures", "the recording counters-10")
def test_counters_have_their_values() -> None:
    trace = opened("counters-10")
    made = {one.name: one for one in tracks(trace).counters}
    lines = list(counters(trace).lines())
    for line in lines:
        name = f"{line.series.provider}: {line.series.name}" + (f" ({line.label})" if line.label else "")
        values = line.values[np.isfinite(line.values)]
        assert made[name].values.tolist() == values.tolist()
    assert lines


@pytest.mark.parametrize("name", recordings())
def test_nothing_ends_before_it_begins_and_every_number_has_its_text(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    made = tracks(trace)
    assert len(made.samples) == len(cpu(trace))
    for one in made.slices:
        assert (one.end_ns >= one.start_ns).all()
        assert (one.parent < len(one)).all()
        for labels in (one.label, one.detail):
            assert (labels.number >= -1).all()
            assert (labels.number < len(labels.texts)).all()


def test_given_samples_stand_in_the_place_of_all() -> None:
    trace = Trace(data_of(recordings()[0]), name="any")
    some = cpu(trace).take(np.zeros(0, np.int64))
    assert tracks(trace, some).samples is some
