"""Answers about requests and messages are the same however the windows come, and whatever of them waits elsewhere."""

from __future__ import annotations

import io
import struct
import weakref
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis import grouped_spread, kept_events, open_spans, pairs, request_rows, request_spans, spread
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.logs import LogsFold
from dotnetdiag.analysis.pairs import LatestRows, latest_rows
from dotnetdiag.analysis.requests import RequestsFold
from dotnetdiag.events import EventSchema
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.trace import spilled
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

WITH_REQUESTS = [name for name in recordings() if name.startswith(("web", "http"))]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_events, "PART_BYTES", 1000)
    monkeypatch.setattr(pairs, "_SLICE", 7)
    monkeypatch.setattr(request_spans, "_FOLLOWED", 20)
    monkeypatch.setattr(open_spans, "_HELD", 0)
    monkeypatch.setattr(request_spans, "_SHARE_OF_OPEN", 1)
    monkeypatch.setattr(spilled, "HELD_BYTES", 1000)
    for module in (spilled, request_rows):
        monkeypatch.setattr(module, "SLICE_ROWS", 16)
    monkeypatch.setattr(grouped_spread, "SORTED_VALUES", 10)
    monkeypatch.setattr(spread, "SORTED_VALUES", 10)


@pytest.mark.parametrize("kind", [RequestsFold, LogsFold])
@pytest.mark.parametrize("name", WITH_REQUESTS)
def test_windows_of_any_size_give_one_answer(name: str, kind: Any, request: pytest.FixtureRequest) -> None:
    trace = Trace(data_of(name), name=name)
    (expected,) = fold(trace, kind())
    request.getfixturevalue("small_parts")
    for rows in (1, 50, 1 << 16):
        (made,) = fold(Trace(data_of(name), name=name), kind(), rows=rows)
        assert made.to_json() == expected.to_json()


@pytest.mark.parametrize("kind", [RequestsFold, LogsFold])
@pytest.mark.parametrize("name", WITH_REQUESTS)
@pytest.mark.usefixtures("small_parts")
def test_an_answer_may_be_asked_for_while_windows_come(name: str, kind: Any) -> None:
    trace = Trace(data_of(name), name=name)
    (expected,) = fold(trace, kind())
    one = kind()
    counts = []
    for window in trace.windows(one.wants, size=100):
        one.feed(window)
        counts.append(one.result().totals.count)
    assert counts == sorted(counts)
    assert counts[-1] == expected.totals.count
    assert one.result().to_json() == expected.to_json()


@pytest.mark.usefixtures("small_parts")
def test_a_stop_may_come_many_windows_after_its_start() -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, name in ((1, "ResolutionStart"), (2, "ResolutionStop")):
            writer.add_metadata(
                Metadata(metadata_id=number, provider="System.Net.NameResolution", event_id=number, name=name)
            )
        writer.write_event(1, 0, b"", thread=1, activity=UUID(int=1))
        for at in range(1, 1001):
            for number in (1, 2):
                writer.write_event(number, at * 1_000_000 + number, b"", thread=2, activity=UUID(int=1 + at))
        writer.write_event(2, 2_000_000_000, b"", thread=3, activity=UUID(int=1))
    (made,) = fold(Trace(file.getvalue()), RequestsFold(), rows=10)
    assert made.requests.values("duration_ms")[0] == 2000.0
    assert (made.totals.parts, made.totals.unfinished) == (1001, 0)


@pytest.mark.parametrize("seed", range(8))
def test_what_requests_are_within_is_told_in_parts_as_at_once(
    seed: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = made_up(np.random.default_rng(seed))
    monkeypatch.setattr(request_spans, "_FOLLOWED", 1 << 40)
    (expected,) = fold(Trace(data), RequestsFold())
    request.getfixturevalue("small_parts")
    for rows in (7, 100):
        (made,) = fold(Trace(data), RequestsFold(), rows=rows)
        assert made.to_json() == expected.to_json()
    found = expected.requests.to_pylist()
    assert 0 < expected.totals.unfinished < len(found) == expected.totals.count + expected.totals.parts
    assert 0 < expected.totals.failed < len(found)
    for number, row in enumerate(found):
        above = None if row["parent"] is None else found[row["parent"]]
        assert row["depth"] == (above["depth"] + 1 if above else 1)
        assert above is None or (row["parent"] < number and above["start_ms"] <= row["start_ms"])
        spent: list[Any] = [one and one["allocated_bytes"] for one in (above, row)]  # None: ended nobody knows when
        assert None in spent or spent[0] >= spent[1]
    assert max(row["depth"] for row in found) > 3
    roots = [row["allocated_bytes"] or 0 for row in found if row["parent"] is None]
    assert 0 < sum(roots) < expected_bytes(data)


def made_up(random: np.random.Generator) -> bytes:
    """Requests within requests of two processes, which use the same ids of activities now and then, many things at one time."""
    file = io.BytesIO()
    with Writer(file) as writer:
        kinds = (("System.Net.NameResolution", "Resolution"), ("System.Net.Sockets", "Connect"))
        for kind, (provider, task) in enumerate(kinds):
            for place, name in enumerate(("Start", "Stop", "Failed")):
                writer.add_metadata(
                    Metadata(metadata_id=1 + 3 * kind + place, provider=provider, event_id=1 + place, name=task + name)
                )
        writer.add_metadata(Metadata(metadata_id=7, provider="Microsoft-Windows-DotNETRuntime", event_id=10, version=1))
        time, open_, fresh = 0, list[tuple[int, int, int]](), 0
        for _ in range(600):
            time += int(random.integers(0, 2)) * 1000
            act, thread = int(random.integers(0, 5)), int(random.integers(1, 5))
            if act < 2:
                fresh += 1
                kind, activity = int(random.integers(0, 2)), fresh if random.random() < 0.9 else max(fresh - 3, 1)
                related = open_[int(random.integers(0, len(open_)))][1] if open_ and random.random() < 0.8 else 0
                writer.write_event(
                    1 + 3 * kind, time, b"", thread=thread, activity=UUID(int=activity), related=UUID(int=related)
                )
                open_.append((kind, activity, thread))
            elif open_ and act < 4:
                place = int(random.integers(max(len(open_) - 6, 0), len(open_)))
                kind, activity, thread = open_[place]
                if act == 2 and random.random() < 0.3:
                    writer.write_event(3 + 3 * kind, time, b"", thread=thread, activity=UUID(int=activity))
                elif random.random() < 0.9:
                    writer.write_event(2 + 3 * kind, time, b"", thread=thread, activity=UUID(int=activity))
                    del open_[place]
            else:
                activity = open_[-1][1] if open_ and random.random() < 0.8 else 10_000
                writer.write_event(7, time, TICK, thread=thread, activity=UUID(int=activity))
    return file.getvalue()


TICK = struct.pack("<IIH", 100, 0, 1)


def expected_bytes(data: bytes) -> int:
    """What all ticks together come to."""
    return 100 * Trace(data).counts()["Microsoft-Windows-DotNETRuntime"]["GC/AllocationTick"]


@pytest.mark.parametrize("rows", [10, 1 << 16])
@pytest.mark.usefixtures("small_parts")
def test_what_is_too_deep_is_within_nothing(rows: int) -> None:
    file = io.BytesIO()
    with Writer(file) as writer:
        writer.add_metadata(
            Metadata(metadata_id=1, provider="System.Net.NameResolution", event_id=1, name="ResolutionStart")
        )
        for at in range(1, 251):
            writer.write_event(1, at // 3 * 1000, b"", thread=1, activity=UUID(int=at), related=UUID(int=at - 1))
    (made,) = fold(Trace(file.getvalue()), RequestsFold(), rows=rows)
    assert made.requests.values("depth") == [at % 100 + 1 for at in range(250)]
    assert made.requests.values("parent") == [at - 1 if at % 100 else None for at in range(250)]


def test_processes_with_one_id_of_an_activity_have_a_request_each() -> None:
    rows = request_spans._ActivityRows()
    process = rows.processes(np.array([7, 9, 7]))
    rows.put(process, np.array([1, 1, 2]), 0)
    asked = rows.processes(np.array([7, 9, 9, 7, 8]))
    assert rows.of(asked, np.array([1, 1, 2, 2, 1])).tolist() == [0, 1, -1, 2, -1]
    rows.put(rows.processes(np.array([9, 7])), np.array([2, 1]), 3)
    assert rows.of(asked, np.array([1, 1, 2, 2, 1])).tolist() == [4, 1, 3, 2, -1]
    assert rows.of(asked[:2], np.array([0, 5])).tolist() == [-1, -1]


def test_the_latest_row_of_a_key_is_the_one_that_sorting_finds() -> None:
    random = np.random.default_rng(7)
    for rows, asked in ((0, 3), (1, 3), (3, 0), (300, 500)):
        ms, of_ms = np.sort(random.integers(0, 50, rows)).astype(float), random.integers(-1, 52, asked).astype(float)
        pid, of_pid = random.integers(1, 3, rows), random.integers(0, 4, asked)
        number, of_number = random.integers(0, 9, rows), random.integers(-1, 12, asked)
        expected = latest_rows([pid, number], ms, [of_pid, of_number], of_ms)
        found = LatestRows(pid, number, ms).of(of_pid, of_number, of_ms)
        assert found.tolist() == np.where(of_number > 0, expected, -1).tolist()


@pytest.mark.parametrize("name", recordings())
def test_without_rows_messages_are_counted_as_with_them(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    expected, made = fold(trace, LogsFold(), LogsFold(rows=False))
    assert made.by_event.to_pylist() == expected.by_event.to_pylist()
    assert (made.totals.count, made.totals.by_level) == (expected.totals.count, expected.totals.by_level)
    assert (len(made.messages), made.messages.columns) == (0, expected.messages.columns)
    assert made.notes == expected.notes


class Counting:
    """A fold that tells what of others is alive when it is asked for its result."""

    def __init__(self, others: list[weakref.ref[Any]]) -> None:
        self._others = others

    def wants(self, schema: EventSchema) -> bool:
        return False

    def feed(self, window: EventTable) -> None:
        pass

    def result(self) -> list[bool]:
        return [one() is not None for one in self._others]


def test_a_fold_is_gone_before_the_next_is_asked() -> None:
    alive: list[weakref.ref[Any]] = []

    def counting() -> Counting:
        made = Counting(alive)
        alive.append(weakref.ref(made))
        return made

    trace = Trace(data_of(recordings()[0]))
    made = fold(trace, counting(), counting(), counting())
    assert made == ([True, True, True], [False, True, True], [False, False, True])
