"""Collections by hand."""

from __future__ import annotations

import struct

import pytest
from tests.analysis.traces import PROCESS, Seen, traced
from tests.trace.made import RUNTIME

from dotnetdiag.analysis.gc_collections import GcReport, gc

COMPACTING = 1 << 1
NOTHING = 0xFFFFFFFF
"""What .NET 8 writes for a phase that ended before it began."""


def event(ms: float, number: int, version: int, payload: bytes) -> Seen:
    return Seen(ms=ms, thread=1, stack=(), provider=RUNTIME, number=number, payload=payload, version=version)


def collection(ms: float, count: int, times: tuple[int, ...]) -> list[Seen]:
    """One of gen1 that takes a millisecond; ``times`` of its phases in µs."""
    history = struct.pack("<QiIIIIHIIIII", 0, 1, 1, 0, 0, COMPACTING, 0, 1, 10, 0, 0, len(times))
    return [
        event(ms, 9, 1, struct.pack("<IIH", 1, count, 0)),
        event(ms + 0.1, 8, 1, bytes(2)),
        event(ms + 0.2, 1, 2, struct.pack("<IIIIHQ", count, 1, 0, 0, 0, 0)),
        event(ms + 0.3, 205, 4, history + struct.pack(f"<{len(times)}I", *times)),
        event(ms + 0.8, 2, 1, struct.pack("<IIH", count, 1, 0)),
        event(ms + 1, 3, 1, bytes(2)),
    ]


def collected(*times: tuple[int, ...]) -> GcReport:
    return gc(traced(*(one for count, its in enumerate(times, 1) for one in collection(count * 10, count, its))))


PHASES = ("mark_ms", "plan_ms", "relocate_ms", "compact_ms", "sweep_ms")


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((1, 2, 3, 4, 5, 60, 70, 80), (0.015, 0.06, 0.07, 0.08, None)),
        ((1, 2, 3, 4, 5, 60, 70, NOTHING), (0.015, 0.06, 0.07, None, None)),
        ((1, 2, NOTHING - 1, 4, 5, 60, NOTHING, 80), (None, 0.06, None, 0.08, None)),
        ((1, 2, 3, 4, 5, NOTHING, 70, 80), (0.015, None, 0.07, 0.08, None)),
    ],
)
def test_a_phase_that_took_less_than_nothing_is_not_known(
    times: tuple[int, ...], expected: tuple[float | None, ...]
) -> None:
    made = collected(times)
    (row,) = made.collections.to_pylist()
    assert (row["pid"], row["pause_ms"]) == (PROCESS, pytest.approx(1.0))
    for name, value in zip(PHASES, expected, strict=True):
        assert row[name] == (None if value is None else pytest.approx(value)), name
