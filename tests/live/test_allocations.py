"""Allocations of a program that says what it allocates, on all runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.live.recorded import record
from tests.live.runtimes import REQUIRED

import dotnetdiag as dd
from dotnetdiag.analysis.allocations import UNNAMED

pytestmark = pytest.mark.live

TICKS = "Microsoft-Windows-DotNETRuntime:0x1:5"
SAMPLES = "Microsoft-Windows-DotNETRuntime:0x80000000000:4"
WIDGETS = 100_000
ARRAY_BYTES, HEAD_BYTES, WIDGET_BYTES = 1_000, 24, 32
MAKE = "workload!Workload.Alloc.Make(int32,int32)"


@pytest.mark.parametrize("runtime", REQUIRED)
def test_ticks_come_to_what_the_program_allocates(runtime: str, tmp_path: Path) -> None:
    path = tmp_path / "alloc.nettrace"
    record(runtime, path, TICKS, "alloc", f"widgets={WIDGETS}", f"size={ARRAY_BYTES}")
    made = dd.allocations(path)
    rows = {row["type"]: row for row in made.by_type.to_pylist()}
    assert made.totals.source == "ticks"
    # 3.1 counts what is left over of each piece of 8 KB that a thread is given, too
    close = 0.1 if runtime == "3.1" else 0.02
    assert made.totals.bytes == pytest.approx(WIDGETS * (ARRAY_BYTES + HEAD_BYTES + WIDGET_BYTES), rel=close)
    first = made.by_type[0]
    assert first["bytes"] == pytest.approx(WIDGETS * (ARRAY_BYTES + HEAD_BYTES), rel=close)
    assert (UNNAMED in made.notes) == (runtime == "NativeAOT")
    assert runtime == "NativeAOT" or first["type"] == "System.Byte[]"
    if runtime == "3.1":
        assert made.totals.objects is None
    else:
        # a tick at a small array of the start stands for thousands of its kind
        assert first["objects"] == pytest.approx(WIDGETS, rel=0.4)
    assert made.by_method.values("method")[0] == (None if runtime == "NativeAOT" else MAKE)
    assert sum(row["bytes"] for row in rows.values()) == made.totals.bytes
    assert made.totals.large_bytes == 0


def test_samples_estimate_what_the_program_allocates(tmp_path: Path) -> None:
    path = tmp_path / "alloc.nettrace"
    record("10", path, SAMPLES, "alloc", f"widgets={WIDGETS}", f"size={ARRAY_BYTES * 100}")
    made = dd.allocations(path)
    (arrays,) = [row for row in made.by_type.to_pylist() if row["type"] == "System.Byte[]"]
    truth = WIDGETS * (ARRAY_BYTES * 100 + HEAD_BYTES)
    assert made.totals.source == "samples"
    assert abs(arrays["bytes"] - truth) < 5 * arrays["error_bytes"] < 0.02 * truth
    # a small array of the runtime's own that is sampled, which hardly ever happens, stands for some thousands
    assert 0.98 * WIDGETS <= arrays["objects"] <= 1.2 * WIDGETS
    assert made.by_method.values("method")[0] == MAKE
    # large objects are those of 85,000 bytes and more
    assert made.large.values("type")[0] == "System.Byte[]"
