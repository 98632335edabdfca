"""What processes log, on its way: of servers of our own, whose loggers are those of this process."""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.recipes.test_counter_watch import served
from tests.service.made import process

from dotnetdiag.analysis import log_entries
from dotnetdiag.client import Client, TraceSession
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.recipes.collector import Signal
from dotnetdiag.recipes.counter_watch import CounterProcess
from dotnetdiag.recipes.event_push import PARCEL_SIZE, EventOptions, EventPush, EventsFailed
from dotnetdiag.recipes.outbox import Parcel
from dotnetdiag.trace.event import Event

PATIENCE_S = 60.0
APP: dict[str, str | int] = {"service.name": "shop"}
LOG = logging.getLogger("tests.event_push")


@pytest.fixture
def parcels() -> queue.Queue[Parcel]:
    return queue.Queue()


def entries_until(parcels: queue.Queue[Parcel], text: str) -> list[Any]:
    """What was logged, up to this; it is logged until it comes."""
    pause, found = threading.Event(), list[Any]()
    for _ in range(int(PATIENCE_S / 0.05)):
        LOG.error("%s of %s", text, 'zażółć, "x"')
        pause.wait(0.05)
        while not parcels.empty():
            one = parcels.get()
            assert one.signal is Signal.LOGS
            attributes, some = one.content
            assert attributes == APP
            assert one.records == len(some)
            found += some
        if any(text in one.text for one in found):
            return found
    raise AssertionError("nothing has come")


def test_messages_come_with_level_arguments_and_logger(tmp_path: Path, parcels: queue.Queue[Parcel]) -> None:
    with served(tmp_path, "a") as (port,):
        events = EventPush(EventOptions(logs="Warning"), parcels.put)
        events.begin(process(3, pid=None, target=port), APP)
        found = [one for one in entries_until(parcels, "first") if one.logger == LOG.name]
        events.close()
    one = found[0]
    assert (one.pid, one.level, one.text) == (3, 4, 'first of zażółć, "x"')
    assert one.arguments == {"0": "first", "1": 'zażółć, "x"', "{OriginalFormat}": "%s of %s"}
    assert events.unreadable == 0
    assert not any(one.name == "dotnetdiag events" for one in threading.enumerate())


def test_a_session_over_a_client_is_there_at_once(tmp_path: Path, parcels: queue.Queue[Parcel]) -> None:
    with served(tmp_path, "a") as (port,), Client.connect(port) as client:
        events = EventPush(EventOptions(logs=""), parcels.put)
        events.begin_held(process(3, pid=None, target=port), APP, client)
        LOG.error("only once")
        events.update([3])  # it has gone, as far as its counters tell
        found: list[Any] = []
        while not found:
            found += [one for one in parcels.get(timeout=PATIENCE_S).content[1] if one.logger == LOG.name]
        events.update([])
    events.close()
    assert [one.text for one in found] == ["only once"]


def test_what_somebody_has_left_who_has_gone_is_read_to_its_end(tmp_path: Path, parcels: queue.Queue[Parcel]) -> None:
    with served(tmp_path, "a") as (port,), Client.connect(port) as client:
        events = EventPush(EventOptions(logs=""), parcels.put)
        events.begin_held(process(3, pid=None, target=port), APP, client)
        for number in range(5000):
            LOG.error("%d", number)
    events.update([3])
    events.close()
    found = []
    while not parcels.empty():
        found += [one.text for one in parcels.get().content[1] if one.logger == LOG.name]
    assert found == [str(number) for number in range(5000)]


def test_nobody_begins_after_the_end(tmp_path: Path, parcels: queue.Queue[Parcel]) -> None:
    told: list[EventsFailed] = []
    with served(tmp_path, "a") as (port,), Client.connect(port) as client:
        events = EventPush(EventOptions(logs=""), parcels.put, told.append)
        events.close()
        events.begin_held(process(3, pid=None, target=port), APP, client)
        events.begin_held(process(4, pid=None, target="nobody"), APP, Client.connect(f"{tmp_path}/nobody,connect"))
    assert told == []


def test_one_that_cannot_be_asked_is_told_and_others_go_on(tmp_path: Path, parcels: queue.Queue[Parcel]) -> None:
    told: queue.Queue[EventsFailed] = queue.Queue()
    with served(tmp_path, "a") as (port,):
        events = EventPush(EventOptions(logs=""), parcels.put, told.put)
        events.begin(process(1, pid=None, target=f"{tmp_path}/nobody,connect"), APP)
        events.begin(process(2, pid=None, target=port), APP)
        assert told.get(timeout=PATIENCE_S).process.number == 1
        assert {one.pid for one in entries_until(parcels, "still there")} == {2}
        events.close()


def test_a_session_that_ends_before_its_process_is_told(tmp_path: Path, parcels: queue.Queue[Parcel]) -> None:
    told: list[EventsFailed] = []
    with served(tmp_path, "a") as (port,):
        events = EventPush(EventOptions(logs=""), parcels.put, told.append)
        for number in (1, 2):
            events.begin(process(number, pid=None, target=port), APP)
        entries_until(parcels, "there")
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        events.update([2])
        if told:
            break
        pause.wait(0.05)
    events.close()
    assert [one.process.number for one in told] == [1], "the other process has gone, which is told elsewhere"


def test_a_level_that_is_none_is_told_before_anything_begins() -> None:
    before = threading.active_count()
    with pytest.raises(UsageError):
        EventPush(EventOptions(logs="loud"), lambda _: None)
    assert threading.active_count() == before


def test_one_whose_events_cannot_be_read_ends_alone(
    tmp_path: Path, parcels: queue.Queue[Parcel], monkeypatch: pytest.MonkeyPatch
) -> None:
    read = log_entries.log_entry

    def picky(event: Event) -> log_entries.LogEntry:
        if event.pid == 1:
            raise TypeError("no such thing")
        return read(event)

    monkeypatch.setattr(log_entries, "log_entry", picky)
    told: queue.Queue[EventsFailed] = queue.Queue()
    with served(tmp_path, "a") as (port,):
        events = EventPush(EventOptions(logs=""), parcels.put, told.put)
        for number in (1, 2):
            events.begin(process(number, pid=None, target=port), APP)
        entries_until(parcels, "both")
        failed = None
        while failed is None:
            assert {one.pid for one in entries_until(parcels, "still there")} == {2}
            failed = None if told.empty() else told.get()
        assert {one.pid for one in entries_until(parcels, "after that")} == {2}
        events.close()
    assert (failed.process.number, failed.why) == (1, "its events cannot be read: TypeError: no such thing")
    assert told.empty()


def test_those_that_have_not_begun_at_the_end_cost_nobody_the_last(
    tmp_path: Path, parcels: queue.Queue[Parcel], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dotnetdiag.recipes.event_push.CONNECTING", 1)
    going, gate = threading.Event(), threading.Event()

    def stalled(self: EventPush, process: CounterProcess) -> TraceSession:
        going.set()
        assert gate.wait(PATIENCE_S)
        raise DiagnosticsError(process.target)

    with served(tmp_path, "a") as (port,), Client.connect(port) as client:
        events = EventPush(EventOptions(logs=""), parcels.put)
        events.begin_held(process(3, pid=None, target=port), APP, client)
        monkeypatch.setattr(EventPush, "_begun", stalled)
        for number in range(4, 8):
            events.begin(process(number, pid=None, target="stalled"), APP)
        assert going.wait(PATIENCE_S)
        LOG.error("last words")
        events.close()
        gate.set()
        events.begin(process(9, pid=None, target="stalled"), APP)
    found = []
    while not parcels.empty():
        found += [one.text for one in parcels.get().content[1] if one.logger == LOG.name]
    assert found == ["last words"]


def test_parcels_are_limited_in_bytes(tmp_path: Path, parcels: queue.Queue[Parcel]) -> None:
    with served(tmp_path, "a") as (port,), Client.connect(port) as client:
        events = EventPush(EventOptions(logs=""), parcels.put)
        events.begin_held(process(3, pid=None, target=port), APP, client)
        for _ in range(200):
            LOG.error("x" * 10_000)
        events.close()
    made = [parcels.get() for _ in range(parcels.qsize())]
    assert sum(one.records for one in made) == 200
    assert len(made) > 2
    assert all(sum(len(entry.text) for entry in one.content[1]) < one.size <= PARCEL_SIZE for one in made)
