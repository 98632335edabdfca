"""Allocations: of ticks as the events have them, of samples as a draw would."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.traces import allocation_sample, allocation_tick, traced
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.allocations import MEAN_BYTES, NO_EVENTS, STATED, UNNAMED, allocations
from dotnetdiag.analysis.stacked import NO_STACKS
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize("name", recordings())
def test_ticks_come_to_what_the_events_say(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    made = allocations(trace)
    if "GC/AllocationTick" not in trace:
        assert (made.totals.count, made.totals.bytes, made.notes) == (0, 0, (NO_EVENTS,))
        return
    ticks = trace["GC/AllocationTick"]
    amounts = ticks.values("payload.AllocationAmount64")
    expected: Counter[str] = Counter()
    for kind, amount in zip(ticks.values("payload.TypeName"), amounts, strict=True):
        expected[kind] += amount
    assert made.totals.source == "ticks"
    assert made.totals.bytes == sum(amounts)
    assert made.totals.count == len(ticks)
    assert dict(zip(made.by_type.values("type"), made.by_type.values("bytes"), strict=True)) == expected
    for table in (made.by_type, made.by_method, made.by_thread, made.by_type_and_method, made.by_second):
        assert sum(table.values("bytes")) == sum(amounts)
    assert made.profile.total == pytest.approx(sum(amounts))
    assert made.notes[0] == STATED["ticks"]
    assert made.by_type.values("bytes") == sorted(made.by_type.values("bytes"), reverse=True)


def test_samples_are_right_on_average_and_their_error_is_told() -> None:
    """Objects of known sizes, of which as many are met as chance would."""
    random = np.random.default_rng(7)
    sizes = [24] * 40_000 + [5_000] * 8_000 + [400_000] * 300
    met = random.random(len(sizes)) < -np.expm1(np.array(sizes) / -MEAN_BYTES)
    events = [
        allocation_sample(1 + place, {24: "Small", 5_000: "Middle", 400_000: "Large"}[size], size)
        for place, (size, is_met) in enumerate(zip(sizes, met.tolist(), strict=True))
        if is_met
    ]
    made = allocations(traced(*events))
    assert made.totals.source == "samples"
    assert made.totals.count == len(events)
    assert made.totals.error_bytes is not None
    assert abs(made.totals.bytes - sum(sizes)) < 4 * made.totals.error_bytes
    for row in made.by_type.to_pylist():
        truth = {"Small": (40_000, 24), "Middle": (8_000, 5_000), "Large": (300, 400_000)}[row["type"]]
        assert abs(row["bytes"] - truth[0] * truth[1]) < 4 * row["error_bytes"]
        assert row["objects"] == pytest.approx(row["bytes"] / truth[1], rel=0.01)


def test_where_there_are_samples_ticks_do_not_count() -> None:
    made = allocations(traced(allocation_tick(1, "A", 100_000, 24), allocation_sample(2, "B", 24)))
    assert made.by_type.values("type") == ["B"]
    assert made.totals.count == 1
    assert made.profile.total == pytest.approx(made.totals.bytes, abs=1)


def test_where_no_event_has_a_stack_it_is_said() -> None:
    ticks = [allocation_tick(1, "Ticked", 100, 24), allocation_tick(2, "Ticked", 100, 24)]
    assert NO_STACKS not in allocations(traced(*ticks)).notes
    assert NO_STACKS not in allocations(traced(replace(ticks[0], stack=()), ticks[1])).notes
    assert NO_STACKS in allocations(traced(*(replace(one, stack=()) for one in ticks))).notes


def test_large_objects_stand_apart() -> None:
    made = allocations(traced(allocation_tick(1, "A", 100_000, 24), allocation_tick(2, "B", 300_000, 300_000, kind=1)))
    assert made.large.values("type") == ["B"]
    assert (made.totals.bytes, made.totals.large_bytes) == (400_000, 300_000)


@pytest.mark.parametrize("name", ["", "NULL"])
def test_types_without_a_name_have_their_ids(name: str) -> None:
    made = allocations(traced(allocation_tick(1, name, 100_000, 24, type_id=0x1234)))
    assert made.by_type.values("type") == ["Type(0x1234)"]
    assert UNNAMED in made.notes
