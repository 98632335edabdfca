"""The rows that come first by a value, against sorting them all."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from dotnetdiag.events import Scalar
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.table.largest import largest

VALUES = (None, 0, 1, 1, 5, -3, (1 << 53) + 1, 1 << 53, (1 << 63) - 1, -(1 << 63))


@pytest.mark.parametrize("seed", range(50))
@pytest.mark.parametrize("kind", [Kind.I8, Kind.F8])
def test_the_largest_come_first_and_of_equal_ones_the_first(seed: int, kind: Kind) -> None:
    random = Random(seed)
    values = random.choices(VALUES, k=random.randrange(12))
    numbers = np.array([one or 0 for one in values], np.int64 if kind is Kind.I8 else np.float64)
    valid = np.array([one is not None for one in values], np.bool_)
    table = Table({"value": Scalar(numbers, valid, kind), "at": list(range(len(values)))})
    rows = table.to_pylist()
    known = sorted((row for row in rows if row["value"] is not None), key=lambda row: -row["value"])
    for number in (0, 1, 3, 100):
        assert largest(table, "value", number) == known[:number]
        assert largest(table, "value", number, ["at"]) == [{"at": row["at"]} for row in known[:number]]
    assert largest(table, "value", -1) == []
