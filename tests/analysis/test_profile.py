"""The profile itself: sums, selections, order."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from typing import cast

import numpy as np
import pytest
from tests.analysis.traces import external, managed, traced, weights

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.frames import Frames, pseudo
from dotnetdiag.analysis.profile import State
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.symbols import Symbols

PROFILE = cpu(
    traced(
        managed(0, 1, "P.F", "P.G", "P.F", "P.Main"),
        external(2, 1, "P.Main"),
        managed(3, 1),
        managed(0, 2, "P.G", "P.Main"),
        managed(5, 2),
    )
)


def test_recursion_is_counted_once() -> None:
    assert weights(PROFILE.top(inclusive=True)) == {
        "P.Main": (1.0, 8.0),
        "P.G": (5.0, 7.0),
        "P.F": (2.0, 2.0),
    }


def test_order_is_by_what_was_asked_for() -> None:
    assert [row.exclusive for row in PROFILE.top()] == [5.0, 2.0, 1.0]
    assert [row.inclusive for row in PROFILE.top(inclusive=True)] == [8.0, 7.0, 2.0]
    assert len(PROFILE.top(1)) == 1
    assert PROFILE.top(0) == ()
    with pytest.raises(UsageError):
        PROFILE.top(-1)


def test_a_table_of_methods_has_the_weights_of_the_report_and_their_shares() -> None:
    table = PROFILE.methods(Style.SHORT)
    assert table.to_pylist() == [
        {
            "method": row.name(Style.SHORT),
            "module": row.frame.module,
            "exclusive": row.exclusive,
            "inclusive": row.inclusive,
            "exclusive_percent": row.exclusive_percent,
            "inclusive_percent": row.inclusive_percent,
        }
        for row in PROFILE.top()
    ]
    assert table.units == {"exclusive": "ms", "inclusive": "ms", "exclusive_percent": "%", "inclusive_percent": "%"}
    assert PROFILE.take(np.zeros(len(PROFILE), np.bool_)).methods().to_pylist() == []


def test_percentages_are_of_what_was_looked_at() -> None:
    (first, *_) = PROFILE.top(threads=[1])
    assert (first.exclusive, first.exclusive_percent) == (5.0, 100.0)
    (first, *_) = PROFILE.top(threads=iter([0, 1]))
    assert first.exclusive_percent == 62.5


def test_sums_by_thread_and_state() -> None:
    assert PROFILE.thread_weights().tolist() == [3.0, 5.0]
    assert PROFILE.node_weights([0]).sum() == 3.0
    assert PROFILE.node_weights([0, 1]).sum() == PROFILE.node_weights().sum() == PROFILE.total == 8.0
    assert PROFILE.node_weights([]).sum() == 0
    assert PROFILE.node_weights(state=State.UNMANAGED).sum() == 1.0
    for state in (State.UNMANAGED, "unmanaged", "Unmanaged"):
        assert weights(PROFILE.in_states(state).top()) == {"P.Main": (1.0, 1.0)}
    assert len(PROFILE.node_weights()) == len(PROFILE.tree)


def test_taking_rows_leaves_out_threads_without_any() -> None:
    taken = PROFILE.take(PROFILE.thread == 1)
    assert [(thread.thread_id, thread.rows) for thread in taken.threads] == [(2, range(1))]
    assert taken.thread.tolist() == [0]
    assert taken.take(np.zeros(1, np.bool_)).threads == ()


def test_nothing_of_it_can_be_set() -> None:
    with pytest.raises(FrozenInstanceError):
        PROFILE.unit = "s"  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        PROFILE.by_method().frame = np.zeros(0, np.int32)  # type: ignore[misc]


def test_frames_behind_those_of_the_symbols_stay_when_more_are_met() -> None:
    trace = traced(managed(0, 1, "P.A"), managed(1, 1))
    profile = cpu(trace)
    more = profile.frames.extended([pseudo("one"), pseudo("two")])
    count = len(profile.frames)
    trace.raw.symbols.resolve(np.array([0x9999], np.uint64))
    assert len(trace.raw.symbols) > count
    assert more.names([count, count + 1]) == ["one", "two"]
    assert [frame.text for frame in more[-2:]] == ["one", "two"]
    assert [frame.text for frame in more][count:] == ["one", "two"]
    assert len(profile.frames) == count
    assert more.unresolved().tolist() == [False] * (count + 2)
    with pytest.raises(UsageError, match="no frame"):
        more[count + 2]
    with pytest.raises(UsageError, match="no frame"):
        Frames()[0]


def test_frames_that_the_symbols_meet_later_are_none_of_a_profile() -> None:
    class Growing:
        tiered: tuple[int, ...] = (0,)

        def __len__(self) -> int:
            return 1 + max(self.tiered)

    symbols = Growing()
    frames = Frames(cast(Symbols, symbols), [pseudo("x")])
    symbols.tiered = (0, 1, 2)
    assert frames.tiered == (0,)
