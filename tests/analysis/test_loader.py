"""What is told of assemblies, binds and types: of recordings that lack some of it."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.test_cpu import merged
from tests.analysis.traces import Seen, traced
from tests.nettrace.recordings import data_of
from tests.trace.made import RUNTIME, z16

import dotnetdiag as dd
from dotnetdiag.analysis import followed
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.loader import NO_BINDS, LoaderFold
from dotnetdiag.analysis.type_loads import BEGIN, END
from dotnetdiag.trace.trace import Trace

NAME = "startup-10.nettrace"


@pytest.mark.parametrize("share", [0.31, 0.47, 0.62, 0.79, 0.93, 1.0])
def test_types_are_those_of_the_table_wherever_a_recording_breaks_off(share: float) -> None:
    data = data_of(NAME)
    made = dd.loader(Trace(data[: int(len(data) * share)]))
    assert made.totals.types == sum(made.types.values("count"))


def test_a_process_whose_binds_are_not_told_is_said_to_be_one(tmp_path: Path) -> None:
    whole, bare = tmp_path / "whole.nettrace", tmp_path / "bare.nettrace"
    whole.write_bytes(data_of(NAME))
    dd.filter(whole, bare, events=["Loader/AssemblyLoad", "Loader/ModuleLoad"])
    assert dd.loader(whole).notes == ()
    assert dd.loader(bare).notes == (NO_BINDS,)
    made = dd.loader(merged(Trace(data_of(NAME)), Trace(bare.read_bytes())))
    (note,) = made.notes
    assert note.startswith("of process ")
    assert note.endswith(f": {NO_BINDS}")
    assert made.totals.binds == dd.loader(whole).totals.binds


TIMES = st.tuples(st.integers(1, 3), st.integers(0, 60), st.integers(0, 9) | st.none(), st.sampled_from("abc"))


def loads(told: list[tuple[int, int, int | None, str]]) -> list[Seen]:
    """Loads of types: the thread, when each began, and for how long, which none tells of one that did not end."""
    events = []
    for number, (thread, ms, length, name) in enumerate(told, 1):
        begin = struct.pack("<IH", number, 1)
        events.append(Seen(ms=ms, thread=thread, stack=(), provider=RUNTIME, number=BEGIN, payload=begin, version=0))
        if length is not None:
            end = struct.pack("<IHHQ", number, 1, 3, number) + z16(name)
            events.append(
                Seen(ms=ms + length, thread=thread, stack=(), provider=RUNTIME, number=END, payload=end, version=0)
            )
    return sorted(events, key=lambda one: (one.ms, one.number))


@given(st.lists(TIMES, min_size=1, max_size=30), st.integers(1, 7))
def test_types_are_told_the_same_however_many_events_come_at_once(
    told: list[tuple[int, int, int | None, str]], rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(followed, "FOLLOWED_EVENTS", 3)
        (made,) = fold(traced(*loads(told)), LoaderFold(), rows=rows)
    ended = [(ms, length, name) for _, ms, length, name in told if length is not None]
    expected = {name: [length for _, length, one in ended if one == name] for _, _, name in ended}
    assert {row["type"]: (row["count"], row["total_ms"], row["max_ms"]) for row in made.types.to_pylist()} == {
        name: (len(own), pytest.approx(sum(own)), pytest.approx(max(own))) for name, own in expected.items()
    }
    totals = made.types.values("total_ms")
    assert totals == sorted(totals, reverse=True)
    busy = {at for ms, length, _ in ended for at in range(ms, ms + length)}
    assert made.totals.types == len(ended)
    assert made.totals.type_ms == pytest.approx(len(busy))
