from __future__ import annotations

import gc
import itertools
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.server.recorded import Reader, request
from tests.shared import shared_part, skip_without

import dotnetdiag
from dotnetdiag.nettrace import read
from dotnetdiag.server import counters as counters_module
from dotnetdiag.server.counters import COUNTERS, PROVIDER, RuntimeCounters
from dotnetdiag.server.event_session import EventSession
from dotnetdiag.server.periodic import OWN_THREADS, Periodic
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.subscription import Subscription

MEAN_FIELDS = [
    "Name", "DisplayName", "Mean", "StandardDeviation", "Count", "Min", "Max", "IntervalSec", "Series", "CounterType", "Metadata", "DisplayUnits",
]  # fmt: skip
SUM_FIELDS = [
    "Name", "DisplayName", "DisplayRateTimeScale", "Increment", "IntervalSec", "Metadata", "Series", "CounterType", "DisplayUnits",
]  # fmt: skip


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.add(RuntimeCounters())
    return made


def counters(registry: Registry, path: Path, *, arguments: str = "EventCounterIntervalSec=0.1") -> list[dict[str, Any]]:
    """What comes in two intervals at least, and until behind the collections of which the counters tell."""
    begun = time.monotonic()
    session = EventSession(request(f"{PROVIDER}:{arguments}"), registry=registry).start()
    reader = Reader(session)
    gc.collect(1)
    gc.collect(2)
    intervals = int((time.monotonic() - begun) / 0.1) + 2  # a busy machine may let some pass before it collects
    last = COUNTERS[-1].name.encode("utf-16-le")
    reader.take_until(lambda: b"".join(reader.parts).count(last) >= intervals)
    session.stop()
    path.write_bytes(reader.take_all())
    return [one.payload["Payload"] for one in dotnetdiag.open(path).events() if one.name == "EventCounters"]


def test_each_counter_is_told_in_each_interval_as_viewers_expect_it(registry: Registry, tmp_path: Path) -> None:
    found = counters(registry, tmp_path / "x.nettrace")
    names = [one["Name"] for one in found]
    assert set(names) >= {"cpu-usage", *(counter.name for counter in COUNTERS if counter.read() is not None)}
    assert all(names.count(name) >= 2 for name in names)
    for one in found:
        assert list(one) == (MEAN_FIELDS if one["CounterType"] == "Mean" else SUM_FIELDS)
        assert one["Series"] == "Interval=100"
        assert one["IntervalSec"] > 0
    by_name = {one["Name"]: one for one in reversed(found)}
    assert 0 <= by_name["cpu-usage"]["Mean"] <= 101
    assert by_name["working-set"]["Mean"] > 1
    assert by_name["working-set"]["DisplayUnits"] == "MB"
    ours = [one for one in threading.enumerate() if one.name.startswith(OWN_THREADS)]
    assert by_name["thread-count"]["Mean"] == threading.active_count() - len(ours)
    # of all intervals: they may come in any; a collection of a generation is one of the younger ones too
    collected = [
        sum(one["Increment"] for one in found if one["Name"] == f"gen-{generation}-gc-count") for generation in range(3)
    ]
    assert collected[2] >= 1
    assert collected[1] >= collected[2] + 1
    assert collected[0] >= collected[1]


@pytest.mark.parametrize(
    "arguments", ["", "EventCounterIntervalSec=0", "EventCounterIntervalSec=-1", "EventCounterIntervalSec=nan"]
)
def test_without_an_interval_nothing_is_counted(arguments: str, registry: Registry) -> None:
    session = EventSession(request(f"{PROVIDER}:{arguments}"), registry=registry).start()
    assert not timers()
    session.hang_up()


def test_metadata_has_the_fields_of_dotnet_10() -> None:
    folder = shared_part("fixtures")
    if folder is None:
        skip_without("a recording of .NET 10")
    theirs = [
        kind
        for kind in read((folder / "counters-10.nettrace").read_bytes()).metadata.values()
        if kind.name == "EventCounters" and kind.provider == PROVIDER
    ]
    for ours, kind in zip((counters_module._MEAN, counters_module._SUM), theirs, strict=True):
        assert ours.fields == kind.fields
        assert (ours.version, ours.level, ours.opcode, ours.keywords) == (0, kind.level, kind.opcode, kind.keywords)


def test_pauses_are_measured_while_a_session_counts(registry: Registry, tmp_path: Path) -> None:
    hooks = list(gc.callbacks)
    found = counters(registry, tmp_path / "x.nettrace")
    assert sum(one["Increment"] for one in found if one["Name"] == "total-pause-time-by-gc") > 0
    assert gc.callbacks == hooks


def test_sessions_have_intervals_of_their_own(registry: Registry, tmp_path: Path) -> None:
    slow = EventSession(request(f"{PROVIDER}:EventCounterIntervalSec=3600"), registry=registry).start()
    assert counters(registry, tmp_path / "x.nettrace")
    assert len(timers()) == 1
    slow.stop()
    path = tmp_path / "slow.nettrace"
    path.write_bytes(Reader(slow).take_all())
    assert PROVIDER not in dotnetdiag.open(path).counts()
    assert not timers()


def test_a_counter_that_cannot_be_read_is_left_out(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> float:
        raise OSError("no such file")

    known = (replace(COUNTERS[0], read=broken), replace(COUNTERS[-1], read=broken), *COUNTERS)
    monkeypatch.setattr(counters_module, "COUNTERS", known)
    found = counters(registry, tmp_path / "x.nettrace")
    assert {one["Name"] for one in found} >= {counter.name for counter in COUNTERS if counter.read() is not None}


def test_an_interval_that_fails_is_a_loss_and_the_next_one_is_told(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell, asked = counters_module._tell, itertools.count()

    def now_and_then(one: Any) -> None:
        if next(asked) == 0:
            raise MemoryError
        tell(one)

    monkeypatch.setattr(counters_module, "_tell", now_and_then)
    assert counters(registry, tmp_path / "x.nettrace")
    assert dotnetdiag.open(tmp_path / "x.nettrace").lost.total == 1


def test_a_program_that_empties_the_callbacks_of_the_collector_keeps_no_session_from_its_end(
    registry: Registry, tmp_path: Path
) -> None:
    hooks, path = list(gc.callbacks), tmp_path / "x.nettrace"
    session = EventSession(request(f"{PROVIDER}:EventCounterIntervalSec=3600"), registry=registry).start()
    gc.callbacks.clear()
    session.stop()
    path.write_bytes(Reader(session).take_all())
    gc.callbacks[:] = hooks
    assert dotnetdiag.open(path).complete
    assert not timers()


def test_only_who_comes_needs_a_thread_and_who_is_there_goes_on_without_it(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = request(f"{PROVIDER}:EventCounterIntervalSec=3600")
    first, second = (EventSession(asked, registry=registry).start() for _ in range(2))
    (timer,) = timers()

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(Periodic, "start", refuse)
        provider = registry._providers[0]
        with pytest.raises(RuntimeError):
            provider.join(Subscription.of(asked.providers[0], stacks=False, define=lambda _: print, skip=print))
        first.hang_up()
        assert first.join(60)
    assert timers() == [timer]
    second.hang_up()
    assert second.join(60)
    assert not timers()


def timers() -> list[threading.Thread]:
    found = [one for one in threading.enumerate() if one.name == f"{OWN_THREADS}counters"]
    return [one for one in found if not getattr(one, "is_ending", False)]
