"""Stacks of any events."""

from __future__ import annotations

import struct

import pytest
from tests.analysis.traces import allocation, managed, traced, weights
from tests.nettrace import by_hand

from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.trace.trace import Trace

TRACE = traced(
    allocation(1, 1, "P.New", "P.Main", size=100),
    managed(2, 1, "P.Main"),
    allocation(3, 2, "P.New", "P.Main", size=250),
    allocation(4, 1, "P.Grow", "P.Main", size=1000),
)


def test_events_count_one_each() -> None:
    profile = stacks(TRACE, "GC/AllocationTick")
    assert (profile.unit, profile.name) == ("events", "GC/AllocationTick")
    assert weights(profile.top()) == {"P.New": (2.0, 2.0), "P.Grow": (1.0, 1.0), "P.Main": (0.0, 3.0)}
    assert profile.state_weights() == {State.NONE: 3.0}
    assert len(profile.threads) == 2


def test_a_field_can_be_added_up() -> None:
    profile = stacks(TRACE, "GC/AllocationTick", weight="AllocationAmount64", unit="bytes")
    assert profile.unit == "bytes"
    assert weights(profile.top()) == {"P.Grow": (1000.0, 1000.0), "P.New": (350.0, 350.0), "P.Main": (0.0, 1350.0)}
    assert stacks(TRACE, "GC/AllocationTick", weight="AllocationAmount64").unit == "AllocationAmount64"


def test_events_of_several_names_and_of_all() -> None:
    assert stacks(TRACE, ["GC/AllocationTick", "Thread/Sample"]).total == 4
    assert stacks(TRACE).total == len(TRACE)


def test_events_without_the_field_count_nothing() -> None:
    names = ["GC/AllocationTick", "Thread/Sample"]
    assert stacks(TRACE, names, weight="AllocationAmount64").total == 1350


def test_names_that_are_not_there_are_told_with_near_ones() -> None:
    with pytest.raises(UnknownName, match="GC/AllocationTick"):
        stacks(TRACE, "GC/AllocationTock")
    with pytest.raises(UnknownName, match="AllocationAmount64"):
        stacks(TRACE, "GC/AllocationTick", weight="AllocationAmount46")


def test_a_field_that_is_no_number_is_refused() -> None:
    with pytest.raises(UsageError, match="TypeName"):
        stacks(TRACE, "GC/AllocationTick", weight="TypeName")


def test_threads_of_version_6_have_what_their_rows_say_and_those_without_a_row_nothing() -> None:
    whole = b"\1" + by_hand.text("worker") + b"\2" + by_hand.varuint(78) + b"\3" + by_hand.varuint(4007)
    row = b"\7" + whole
    trace = Trace(
        by_hand.trace(
            by_hand.metadata(by_hand.event_type(1)),
            by_hand.threads(struct.pack("<H", len(row)) + row, by_hand.thread(8, "named")),
            by_hand.events(*(by_hand.event(1, thread=index) for index in (7, 8, 9))),
        )
    )
    threads = stacks(trace).threads
    assert [(one.thread_id, one.process_id, one.name) for one in threads] == [
        (4007, 78, "worker"),
        (0, None, "named"),
        (0, None, ""),
    ]
