"""The columns of the header against the listings of recordings."""

from __future__ import annotations

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, listing_of

from dotnetdiag.nettrace import HeaderColumns, ThreadInfo, TraceInfo
from dotnetdiag.trace.header import HeaderMeaning
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


@pytest.mark.parametrize(
    ("sync", "ticks", "seconds", "utc"),
    [
        (1000, [1000, 1001, 990], [0, 1, -10], ["1970-01-01T00:00:00", "1970-01-01T00:00:01", "1969-12-31T23:59:50"]),
        (1 << 62, [-(1 << 63), 1 << 62], [-(1 << 63) - (1 << 62), 0], None),  # no calendar goes there
        (-(1 << 62), [(1 << 63) - 1, -(1 << 62)], [(1 << 63) - 1 + (1 << 62), 0], None),
        (1001, [9_300_000_000, 1001], [9_299_998_999, 0], ["2264-09-14T21:03:19", "1970-01-01T00:00:00"]),
    ],
)
def test_times_are_counted_from_the_first_value_of_the_clock_however_far(
    sync: int, ticks: list[int], seconds: list[int], utc: list[str] | None
) -> None:
    headers = HeaderColumns.allocate(len(ticks))
    headers.time[:] = ticks
    meaning = HeaderMeaning(TraceInfo(start_ns=0, sync_ticks=sync, frequency=1), {}, thread_rows=False)
    assert meaning.ms(headers).tolist() == pytest.approx(np.array(seconds) * 1000.0)
    assert utc is None or meaning.utc_text(headers) == [f"{text}.0000000Z" for text in utc]


@pytest.mark.parametrize(
    ("own", "pids", "is_of_several"),
    [
        (None, [], False),
        (7, [7, None], False),
        (7, [0, 7], False),
        (None, [None, 0, 8], False),
        (7, [None, 8], True),
        (None, [8, 9], True),
    ],
)
def test_several_processes_are_those_of_threads_but_for_the_kernel(
    own: int | None, pids: list[int | None], is_of_several: bool
) -> None:
    info = TraceInfo(start_ns=0, sync_ticks=0, frequency=1, process_id=own)
    threads = {index: ThreadInfo(index=index, process_id=pid) for index, pid in enumerate(pids, 1)}
    assert HeaderMeaning(info, threads, thread_rows=True).is_of_several is is_of_several
    assert not HeaderMeaning(info, threads, thread_rows=False).is_of_several
