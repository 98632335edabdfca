"""Recordings of nettrace 5 whose segments and blocks are what one says: a runtime writes nothing that is older than the sequence point before it, and
a file may hold any.
"""

from __future__ import annotations

import io
import struct
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from hypothesis import strategies as st
from tests.nettrace.by_hand import varuint

from dotnetdiag.nettrace import Metadata, Writer

SORTED, STATED = 0x40, 0x87


class Event(NamedTuple):
    """One event of a block."""

    time: int
    kind: int
    is_sorted: bool
    payload: bytes = b""


Block = tuple[int, Sequence[Event]]
"""The thread, and what it wrote."""


def recording(segments: Sequence[Sequence[Block]], metadata: Sequence[Metadata], process_id: int = 1) -> bytes:
    """A sequence point stands between two of the segments."""
    out, numbers, latest = io.BytesIO(), Counter[int](), 0
    with Writer(out, version=5, process_id=process_id, start_ns=1) as writer:
        for one in metadata:
            writer.add_metadata(one)
        writer.flush()
        for at, segment in enumerate(segments):
            if at:
                threads = b"".join(struct.pack("<QI", thread, number) for thread, number in numbers.items())
                writer.write_object("SPBlock", struct.pack("<qI", latest, len(numbers)) + threads)
            for thread, events in segment:
                rows, number, before = b"", numbers[thread], 0
                for event in events:
                    rows += bytes([STATED | (SORTED if event.is_sorted else 0)])
                    fields = (event.kind, number, thread, 0, thread, event.time - before, len(event.payload))
                    rows += b"".join(map(varuint, fields)) + event.payload
                    number, before = 0, event.time
                    latest = max(latest, event.time)
                numbers[thread] += len(events)
                if rows:
                    writer.write_object("EventBlock", struct.pack("<HHqq", 20, 1, 0, 0) + rows)
    return out.getvalue()


def any_segments(kinds: Sequence[int]) -> st.SearchStrategy[list[list[Block]]]:
    """A few, of which most come one after the other in time, and some do not. What is sorted is so: nothing behind it in its segment is older."""
    steps = st.lists(st.tuples(st.integers(0, 4), st.sampled_from(kinds), st.booleans()), min_size=1, max_size=4)
    segment = st.lists(st.tuples(st.integers(1, 3), steps), max_size=3)

    def placed(found: list[tuple[int, list[tuple[int, list[tuple[int, int, bool]]]]]]) -> list[list[Block]]:
        begin, made = 0, []
        for later, blocks in found:
            begin += later
            kept: list[Block] = []
            oldest = 1 << 60
            for thread, steps in reversed(blocks):
                times = [*accumulate((step for step, _, _ in steps), initial=begin)][1:]
                events = []
                for time, (_, kind, wants) in reversed([*zip(times, steps, strict=True)]):
                    events.append(Event(time, kind, wants and time <= oldest))
                    oldest = min(oldest, time)
                kept.append((thread, events[::-1]))
            made.append(kept[::-1])
        return made

    return st.lists(st.tuples(st.sampled_from([0, 3, 13, 40]), segment), max_size=7).map(placed)
