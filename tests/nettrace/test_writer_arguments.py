"""Wrong arguments are refused with one clear line, and the writer goes on as if nothing had been asked."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.nettrace.traces import PLAIN, flood

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import LabelList, ThreadInfo, Writer, read, rewrite

HEADERS, PAYLOAD = flood(3)
OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"version": "5"}, "nettrace version '5' cannot be written; the numbers 4, 5 and 6 can"),
    ({"version": 5.0}, "nettrace version 5.0 cannot be written"),
    ({"version": [5]}, "nettrace version [5] cannot be written"),
    ({"version": None}, "nettrace version None cannot be written"),
    ({"pointer_size": "8"}, "pointer_size '8' is no whole number"),
    ({"pointer_size": [8]}, "pointer_size [8] is no whole number"),
    ({"frequency": "1000"}, "frequency '1000' is no whole number"),
    ({"frequency": None}, "frequency None is no whole number"),
    ({"sync_ticks": 1.5}, "sync_ticks 1.5 is no whole number"),
    ({"block_bytes": "1000"}, "block_bytes '1000' is no whole number"),
    ({"key_values": 5}, "keys and values are pairs of text, not int"),
    ({"version": 6, "key_values": [5]}, "does not fit the format"),
    ({"version": 6, "key_values": {"a": "b"}}, "does not fit the format"),
    ({"version": 6, "start_ns": "now"}, "does not fit the format"),
    ({"process_id": "77"}, "does not fit the format"),
]
CALLS: dict[str, tuple[int, Callable[[Any], object], str]] = {
    "an event type": (5, lambda writer: writer.add_metadata({"metadata_id": 1}), "a Metadata is needed, not dict"),
    "an event type of none": (5, lambda writer: writer.add_metadata(None), "a Metadata is needed, not NoneType"),
    "metadata_id": (
        5,
        lambda writer: writer.add_metadata(replace(PLAIN, metadata_id="1")),  # type: ignore[arg-type]
        "metadata_id '1' is no whole number",
    ),
    "metadata_id of a list": (
        5,
        lambda writer: writer.add_metadata(replace(PLAIN, metadata_id=[1])),  # type: ignore[arg-type]
        "metadata_id [1] is no whole number",
    ),
    "a thread": (6, lambda writer: writer.add_thread(5), "a ThreadInfo is needed, not int"),
    "index": (6, lambda writer: writer.add_thread(ThreadInfo(index=[5])), "index [5] is no whole number"),  # type: ignore[arg-type]
    "labels": (6, lambda writer: writer.add_labels({}), "a LabelList is needed, not dict"),
    "a label": (6, lambda writer: writer.add_labels(LabelList(level=[5])), "does not fit the format"),  # type: ignore[arg-type]
    "a stack": (5, lambda writer: writer.add_stack(5), "a stack is bytes or a sequence of addresses, not int"),
    "a stack of a dict": (5, lambda writer: writer.add_stack({}), "a sequence of addresses, not dict"),
    "an activity": (5, lambda writer: writer.write_event(1, 9, thread=1, activity="1"), "a UUID is needed, not str"),
    "columns": (5, lambda writer: writer.write_events([1, 2], b""), "a HeaderColumns is needed, not list"),
    "a column": (
        5,
        lambda writer: writer.write_events(replace(HEADERS, sequence=[1, 2, 3]), PAYLOAD),  # type: ignore[arg-type]
        "column sequence is needed as an array, not list",
    ),
    "the column of times": (
        5,
        lambda writer: writer.write_events(replace(HEADERS, time=[1, 2, 3]), PAYLOAD),  # type: ignore[arg-type]
        "column time is needed as an array, not list",
    ),
    "a column of another type": (
        5,
        lambda writer: writer.write_events(replace(HEADERS, time=HEADERS.time.astype(float)), PAYLOAD),
        "column time: float64 of shape (3,), not 3 of int64",
    ),
    "payloads": (5, lambda writer: writer.write_events(HEADERS, [1]), "bytes are needed, not list"),
    "GUIDs": (5, lambda writer: writer.write_events(HEADERS, PAYLOAD, guids={}), "a GuidTable is needed, not dict"),
    "numbers of threads": (5, lambda writer: writer.write_sequence_point(threads=[1]), "a Mapping is needed, not list"),
    "a time": (5, lambda writer: writer.write_sequence_point("9"), "cannot be the time of a sequence point"),
    "a count": (5, lambda writer: writer.add_dropped(1, "9"), "count '9' is no whole number"),
    "a block": (6, lambda writer: writer.write_block("77", b""), "block '77' is no whole number"),
    "another Writer": (5, lambda writer: Writer.like(io.BytesIO(), None), "a TraceInfo is needed, not NoneType"),  # type: ignore[arg-type]
    "what to rewrite": (5, lambda writer: rewrite(b"", writer), "a Contents is needed, not bytes"),  # type: ignore[arg-type]
    "where to": (5, lambda writer: rewrite(read(b""), io.BytesIO()), "a Writer is needed, not BytesIO"),  # type: ignore[arg-type]
    "what to keep": (
        5,
        lambda writer: rewrite(read(b""), writer, keep=[]),  # type: ignore[arg-type]
        "a selection is an array of bool, one for each event",
    ),
    "rows to keep": (
        5,
        lambda writer: rewrite(read(b""), writer, keep=np.zeros(0, np.int64)),
        "a selection is an array of bool, one for each event",
    ),
    "too many to keep": (
        5,
        lambda writer: rewrite(read(b""), writer, keep=np.zeros(3, np.bool_)),
        "a selection of 3 rows for 0 events",
    ),
}


@pytest.mark.parametrize(("options", "problem"), OPTIONS, ids=lambda value: str(value)[:40])
def test_options_of_other_types_are_refused_and_nothing_is_written(options: dict[str, Any], problem: str) -> None:
    out = io.BytesIO()
    with pytest.raises(UsageError) as error:
        Writer(out, **options)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    assert not out.getvalue()


@pytest.mark.parametrize("name", CALLS)
def test_values_of_other_types_are_refused_and_the_events_are_written(name: str) -> None:
    version, act, problem = CALLS[name]
    out = io.BytesIO()
    writer = Writer(out, version=version)
    writer.add_metadata(PLAIN)
    if version == 6:
        writer.add_thread(ThreadInfo(index=1))
    for time in range(3):
        writer.write_event(1, time, thread=1)
    with pytest.raises(UsageError) as error:
        act(writer)
    assert problem in str(error.value)
    assert "\n" not in str(error.value)
    writer.write_event(1, 9, thread=1)
    writer.close()
    contents = read(out.getvalue())
    assert contents.complete
    assert contents.headers.time.tolist() == [0, 1, 2, 9]
    assert contents.lost.total == 0


@pytest.mark.parametrize("version", [4, 5, 6])
@pytest.mark.parametrize(("name", "most"), [("event_id", 0xFFFF), ("version", 0xFF), ("level", 0xFF)])
def test_numbers_of_an_event_type_that_readers_cut_are_refused(version: int, name: str, most: int) -> None:
    """TraceEvent takes the low 16 or 8 bits, though versions 4 and 5 have 32 for them."""
    out = io.BytesIO()
    with Writer(out, version=version) as writer:
        for number in (-1, most + 1, (1 << 31) - 1, 1 << 31):
            with pytest.raises(UsageError, match=r"metadata 5|readers take 0 to|up to 255"):
                writer.add_metadata(replace(PLAIN, **{"metadata_id": 5, name: number}))  # type: ignore[arg-type]
        writer.add_metadata(replace(PLAIN, **{name: most}))  # type: ignore[arg-type]
    (found,) = read(out.getvalue()).metadata.values()
    assert getattr(found, name) == most


def test_an_object_that_no_reader_takes_is_refused_and_one_that_none_knows_is_not() -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        before = writer.position
        with pytest.raises(UsageError, match="readers of version 3 would be needed, and know 2"):
            writer.write_object("StackBlock", b"", min_reader=3)
        assert writer.position == before
        writer.write_object("NewBlock", b"abc", min_reader=3)
    assert read(file.getvalue()).complete
