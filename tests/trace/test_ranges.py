"""Who owns an address at a time: held against a walk over all rows, whatever lies in what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.trace import ranges
from dotnetdiag.trace.bounds import ALWAYS, FOREVER
from dotnetdiag.trace.ranges import RangeIndex

Row = tuple[int, int, int, int]
TIMES = st.integers(-3, 6)
ROWS = st.lists(
    st.tuples(
        st.integers(0, 12), st.integers(0, 12), st.just(ALWAYS) | TIMES, st.just(FOREVER) | TIMES
    ).map(lambda row: (row[0], row[0] + row[1], *row[2:])),
    max_size=12,
)  # fmt: skip


def index_of(rows: list[Row]) -> RangeIndex:
    columns = list(zip(*rows, strict=True)) or [()] * 4
    starts, ends = (np.array(column, np.uint64) for column in columns[:2])
    return RangeIndex(starts, ends, *(np.array(column, np.int64) for column in columns[2:]))


def owner(rows: list[Row], address: int, time: int) -> int:
    """Rule 1 and rule 2 of the room, read aloud."""
    here = [(begin, end, row) for row, (start, stop, begin, end) in enumerate(rows) if start <= address < stop]
    if len(here) == 1:
        return here[0][2]
    here = [one for one in here if one[0] < one[1]]
    now = [(-begin, end, row) for begin, end, row in here if begin <= time < end]
    following = [one for one in here if one[0] > time]
    last = [(-end, -begin, row) for begin, end, row in here]
    return next((min(some)[2] for some in (now, following, last) if some), -1)


@pytest.mark.parametrize("depth", [1, 64])
@given(rows=ROWS)
def test_the_rules_hold_however_ranges_lie_in_each_other(rows: list[Row], depth: int) -> None:
    addresses = np.arange(26, dtype=np.uint64)
    before, ranges._DEPTH_LIMIT = ranges._DEPTH_LIMIT, depth
    try:
        index = index_of(rows)
        assert index.lookup(addresses).tolist() == [owner(rows, address, FOREVER - 1) for address in range(26)]
        owners = []
        for time in (ALWAYS, *range(-4, 8), FOREVER - 1):
            owners.append([owner(rows, address, time) for address in range(26)])
            assert index.lookup(addresses, np.full(26, time)).tolist() == owners[-1]
        changing, moments = index.changes(addresses)
        for address in range(26):
            column = [one[address] for one in owners]
            changes = {time for time, one, other in zip(range(-4, 8), column, column[1:], strict=False) if one != other}
            assert changing[address] or len(set(column)) == 1
            assert changes <= set(moments.tolist())
    finally:
        ranges._DEPTH_LIMIT = before


def test_ranges_in_each_other_cost_in_proportion_to_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = []
    owners = ranges._owners

    def counting(*times: Any) -> Any:
        steps.append(len(times[0]))
        return owners(*times)

    monkeypatch.setattr(ranges, "_owners", counting)
    cost = []
    for count in (1000, 2000):
        steps.clear()
        rows = [(number, 4 * count - number, number, FOREVER) for number in range(count)]
        index, addresses = index_of(rows), np.arange(4 * count, dtype=np.uint64)
        assert index.lookup(addresses).tolist() == [min(n, 4 * count - 1 - n, count - 1) for n in range(4 * count)]
        at_half = index.lookup(addresses, np.full(4 * count, count // 2))
        assert at_half.tolist() == [min(n, 4 * count - 1 - n, count // 2) for n in range(4 * count)]
        assert index.changes(addresses)[0].sum() >= 4 * count - 2 * ranges._DEPTH_LIMIT
        cost.append(sum(steps))
    assert cost[1] < 2.5 * cost[0]
