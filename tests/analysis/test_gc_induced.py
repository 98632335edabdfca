"""Who asks for collections, also where nobody does."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.analysis.test_gc import collection, event
from tests.analysis.traces import Seen, traced

import dotnetdiag as dd
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.gc_collections import GcFold, gc
from dotnetdiag.analysis.pool_threads import THREAD_POOL
from dotnetdiag.errors import UsageError

INDUCED, ALLOCATED = 1, 0
PHASES = (1, 2, 3, 4, 5, 60, 70, 80)


def asks(ms: float, reason: int = INDUCED, *stack: str) -> Seen:
    """GC/Triggered."""
    return replace(event(ms, 35, 0, struct.pack("<IH", reason, 0)), stack=stack)


def induced(begin: float, number: int) -> list[Seen]:
    start = event(begin + 0.2, 1, 2, struct.pack("<IIIIHQ", number, 1, INDUCED, 0, 0, 0))
    return [start if one.number == 1 else one for one in collection(begin, number, PHASES)]


NOBODY = (asks(9, ALLOCATED, "Make", "Main"), *collection(10, 1, PHASES))


def test_of_nobody_there_is_a_profile_of_none() -> None:
    trace = traced(*NOBODY)
    made = gc(trace)
    assert made.totals.induced == 0
    assert len(made.induced) == len(made.by_stack) == 0
    assert (made.induced.name, made.induced.unit) == ("Induced collections", "collections")
    assert made.induced.origin.process_id == trace.process.pid
    assert made.induced.origin.events == len(trace)
    assert made.by_stack.columns == ("collections", "stack")
    assert made.by_stack.to_pylist() == []


def test_of_nobody_it_goes_where_the_report_goes_and_lasts_when_the_recording_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "nobody.nettrace"
    file.write_bytes(bytes(traced(*NOBODY).raw.buffer))
    made = dd.gc(file)
    again = pickle.loads(pickle.dumps(made))
    assert again.to_json() == made.to_json()
    assert again.induced.origin == made.induced.origin
    assert again.induced.origin.name == "nobody.nettrace"
    assert len(again.induced) == 0


def test_columns_of_nobody_are_those_of_somebody() -> None:
    somebody = gc(traced(asks(9.9, INDUCED, "Ask", "Main"), *induced(10, 1))).by_stack
    nobody = gc(traced(*NOBODY)).by_stack
    for name in somebody.columns:
        assert type(somebody[name]) is type(nobody[name])
    assert somebody.to_arrow().schema == nobody.to_arrow().schema


@pytest.mark.parametrize("rows", [1, 1000])
def test_a_thread_of_the_pool_is_one_whenever_that_was_told(rows: int) -> None:
    (made,) = fold(
        traced(event(1, 50, 0, struct.pack("<IIH", 1, 0, 0)), asks(9.9, INDUCED, "Ask", "Main"), *induced(10, 1)),
        GcFold(),
        rows=rows,
    )
    assert made.totals.induced == 1
    assert [one.name for one in made.induced.threads] == [THREAD_POOL]
    assert made.collections.values("induced_by") == ["app!Ask()"]


def test_windows_of_two_recordings_are_refused_before_somebody_asks() -> None:
    asked = GcFold()
    (first,), (second,) = (list(traced(*NOBODY).windows(asked.wants)) for _ in range(2))
    asked.feed(first)
    with pytest.raises(UsageError, match="two recordings"):
        asked.feed(second)
    with pytest.raises(UsageError, match="no window"):
        GcFold().result()


def test_what_profiles_are_made_by_is_not_loaded_for_nobody(tmp_path: Path) -> None:
    for name, events in {"nobody": NOBODY, "somebody": (asks(9.9, INDUCED, "Ask", "Main"), *induced(10, 1))}.items():
        file = tmp_path / f"{name}.nettrace"
        file.write_bytes(bytes(traced(*events).raw.buffer))
        code = (
            f"import sys, dotnetdiag as dd; dd.gc({str(file)!r}); print('dotnetdiag.analysis.profile' in sys.modules)"
        )
        said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
        assert said.stdout.strip() == str(name == "somebody")
