"""Answers about requests and messages are the same however the windows come, and whatever of them waits elsewhere."""

from __future__ import annotations

import io
import weakref
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis import kept_events, pairs
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.logs import LogsFold
from dotnetdiag.analysis.pairs import LatestRows, latest_rows
from dotnetdiag.analysis.requests import RequestsFold
from dotnetdiag.events import EventSchema
from dotnetdiag.nettrace import Metadata, Writer
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

WITH_REQUESTS = [name for name in recordings() if name.startswith(("web", "http"))]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_events, "PART_BYTES", 1000)
    monkeypatch.setattr(pairs, "_SLICE", 7)


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
    assert (made.totals.count, made.totals.unfinished) == (1001, 0)


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
