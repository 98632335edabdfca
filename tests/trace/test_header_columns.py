"""The columns of the header against the listings of recordings."""

from __future__ import annotations

import pytest
from tests.nettrace.recordings import data_of, listing_of

from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize("name", ["events-3.1", "http-10"])
def test_header_columns_are_those_of_the_listing(name: str) -> None:
    made = Trace(data_of(f"{name}.nettrace")).events().table()
    said = listing_of(f"{name}.nettrace").events
    for key in ("provider", "event", "version", "level", "opcode", "pid", "tid", "bytes", "ms", "utc"):
        assert made[key].to_pylist() == [one[key] for one in said], key
    assert [hex(value) for value in made.numpy("keywords").tolist()] == [one["keywords"] for one in said]
    for key in ("activity", "related"):
        assert [None if value is None else str(value) for value in made[key].to_pylist()] == [one[key] for one in said]
    assert made["thread"].to_pylist() == made["tid"].to_pylist()
