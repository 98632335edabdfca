"""What each thread of a recording did, as the other questions have it."""

from __future__ import annotations

import io
import struct
from dataclasses import replace

import numpy as np
import pytest
from tests.analysis.traces import Seen, allocation_tick, external, managed, traced
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME

from dotnetdiag.analysis.advice import advice
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.samples import cpu_samples
from dotnetdiag.analysis.thread_lives import EARLY_MS, ThreadLives
from dotnetdiag.analysis.threads import NO_EVENTS, NO_SAMPLES, threads
from dotnetdiag.export import FORMATS
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize("name", recordings())
def test_all_threads_come_to_what_the_questions_say(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    made, profile = threads(trace), cpu(trace)
    rows = made.threads.to_pylist()
    assert len({(row["pid"], row["tid"], row["created_ms"]) for row in rows}) == len(rows) == made.totals.count
    if len(profile) and profile.unit == "ms":
        assert made.totals.cpu_ms is not None
        assert made.totals.waiting_ms is not None
        assert made.totals.cpu_ms + made.totals.waiting_ms == pytest.approx(profile.total), "no id comes again"
        assert sum(row["samples"] for row in rows) == cpu(trace, weight="samples").total
        assert [row["cpu_ms"] for row in rows] == sorted((row["cpu_ms"] for row in rows), reverse=True)
    thrown = exceptions(trace).count
    assert sum(row["exceptions"] or 0 for row in rows) == thrown
    assert made.notes == ((NO_EVENTS,) if not rows else () if len(profile) else (NO_SAMPLES,))


def test_running_and_waiting_are_told_apart() -> None:
    made = threads(
        traced(managed(0, 1, "A"), external(2, 1, "B"), managed(5, 1, "A"), allocation_tick(6, "T", 1000, 24))
    )
    (row,) = made.threads.to_pylist()
    # how long the last sample lasts is not known
    assert (row["cpu_ms"], row["waiting_ms"], row["samples"], row["allocated_bytes"]) == (2.0, 3.0, 3, 1000)


@pytest.mark.parametrize("thread", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_ids_beyond_all_systems_are_those_of_other_reports(thread: int) -> None:
    """Of a damaged file: 64 bits with a sign."""
    file = io.BytesIO()
    with Writer(file, version=5, process_id=77) as writer:
        writer.add_metadata(
            Metadata(metadata_id=1, provider="Microsoft-DotNETCore-SampleProfiler", event_id=0, name="")
        )
        for at in range(3):
            writer.write_event(1, 10**6 * at, struct.pack("<I", 2), thread=thread, stack=writer.add_stack([0x1000]))
    trace = Trace(file.getvalue())
    told = thread - (1 << 64) if thread >= 1 << 63 else thread
    assert threads(trace).threads.values("tid") == [told]
    assert set(cpu_samples(trace).values("tid")) == {told}
    advice(trace)
    made = io.BytesIO()
    FORMATS["perfetto"].write(cpu(trace), made)
    assert made.getvalue()


def created(ms: float, thread: int, flags: int = 0) -> Seen:
    payload = struct.pack("<QQIIIH", 0xA0 + thread, 0, flags, 1, thread, 0)
    return Seen(ms=ms, thread=thread, stack=(), provider=RUNTIME, number=85, payload=payload)


def allocated(ms: float, thread: int, amount: int) -> Seen:
    return replace(allocation_tick(ms, "T", amount, 24), thread=thread)


def test_each_thread_with_an_id_that_comes_again_has_its_row() -> None:
    seen = [
        managed(0, 2, "A"), managed(5, 2, "A"),
        created(10, 1), managed(11, 1, "A"), allocated(12, 1, 1000), allocated(13, 2, 7),
        created(40, 1, flags=4), allocated(41, 1, 200), managed(42, 1, "B"), managed(43, 1, "B"), managed(44, 1, "B"),
        created(60, 1), allocated(61, 1, 30), managed(90, 1, "C"), managed(91, 1, "C"),
    ]  # fmt: skip
    made = threads(traced(*seen))
    rows = {(row["tid"], row["created_ms"]): row for row in made.threads.to_pylist()}
    told = {key: (row["samples"], row["cpu_ms"], row["allocated_bytes"], row["kind"]) for key, row in rows.items()}
    assert told == {
        (2, None): (2, 5.0, 7, None),
        (1, 10.0): (1, 29.0, 1000, None),
        (1, 40.0): (3, 18.0, 200, "pool worker"),
        (1, 60.0): (2, 1.0, 30, None),
    }
    assert (made.totals.count, made.totals.created) == (4, 3)
    assert threads(traced(managed(11, 1, "A"))).totals.created is None  # which was not recorded, or there was none


def test_what_comes_before_a_thread_is_created_is_of_one_that_had_its_id_before() -> None:
    made = threads(
        traced(
            allocated(0, 1, 1000), managed(99, 1, "A"), created(100, 1), allocated(101, 1, 200), managed(110, 1, "A")
        )
    )
    rows = [(row["created_ms"], row["allocated_bytes"], row["samples"]) for row in made.threads.to_pylist()]
    # a sampler may be faster than a thread that tells of itself
    assert sorted(rows, key=str) == [(100.0, 200, 2), (None, 1000, 0)]


def test_lives_are_told_apart_by_process_id_and_time() -> None:
    draw = np.random.default_rng(5)
    lives, made = ThreadLives(), []
    trace = traced(*(created(float(ms), int(1 + draw.integers(9))) for ms in range(0, 3000, 30)))
    for window in trace.windows():
        lives.feed(window)
    begun = lives.created()
    for pid, tid, ms in zip(begun.pid.tolist(), begun["OSThreadID"].tolist(), begun.ms.tolist(), strict=True):
        made.append((pid, tid, ms))
    asked = [
        (pid, tid, float(ms)) for pid in {made[0][0], 77} for tid in range(12) for ms in draw.integers(-50, 3100, 50)
    ]
    number = lives.number(*(np.array(column) for column in zip(*asked, strict=True)))

    def by_hand(pid: int, tid: int, ms: float) -> int:
        own = sorted(one for process, thread, one in made if (process, thread) == (pid, tid))
        return sum(one <= ms for one in [*(first - EARLY_MS for first in own[:1]), *own[1:]])

    assert number.tolist() == [by_hand(*one) for one in asked]
    assert len(set(number.tolist())) > 5
