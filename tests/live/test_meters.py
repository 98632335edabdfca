"""Counters and meters of a Python process, by the readers that users have; and their metadata beside that of a real .NET 10."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.live.runtimes import unpack, workload
from tests.live.test_reference_reader import assert_agree, oracle
from tests.shared import CHECKOUT

import dotnetdiag as dd
from dotnetdiag.client import Client
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.nettrace import Metadata, read
from dotnetdiag.server.meter_events import CALLBACK_ERROR, END_REPORTING, METER_EVENTS, PROVIDER

pytestmark = pytest.mark.live

PROGRAM = Path(__file__).with_name("metered.py")
PATIENCE_S = 60
ETW_SESSIONS = 0xF << 44
"""Bits that .NET's EventSource sets in the keywords of each of its events."""
METERS = Provider(
    name=PROVIDER,
    keywords=7,
    level=4,
    arguments="SessionId=SHARED;ClientId=c1;Metrics=System.Runtime,Shop,Early;RefreshInterval=0.2;MaxTimeSeries=1000;MaxHistograms=10",
)
COUNTERS = Provider(name="System.Runtime", keywords=0, level=4, arguments="EventCounterIntervalSec=1")


@contextmanager
def metered() -> Iterator[subprocess.Popen[str]]:
    """The process, once it serves."""
    path = os.pathsep.join((str(Path(dd.__file__).parents[1]), str(CHECKOUT)))
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == f"ready {process.pid}\n"
        yield process
        process.communicate("", timeout=PATIENCE_S)
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def record(pid: int, path: Path, *providers: Provider, until: Callable[[bytes], bool]) -> Path:
    """A session that ends when that is so of its stream."""
    parts = bytearray()
    with Client(pid).trace(providers, rundown_keyword=0) as session:
        is_over = False
        for part in session:
            parts += part
            if not is_over and until(bytes(parts)):
                is_over = True
                session.stop()
    path.write_bytes(parts)
    return path


def text(word: str) -> bytes:
    return word.encode("utf-16-le")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten orders while a session watched, and some intervals after them."""
    unpack()
    with metered() as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout
        asked = False

        def enough(stream: bytes) -> bool:
            nonlocal asked
            if not asked and text("temperature") in stream:  # now its OpenTelemetry is read
                asked = True
                stdin.write("\n")
                stdin.flush()
                assert stdout.readline() == "taken\n"
            last = text("0.5=")  # of the histogram
            return last in stream and stream.partition(last)[2].count(text("gc-collected-objects")) > 0

        folder = tmp_path_factory.mktemp("meters")
        return record(process.pid, folder / "x.nettrace", METERS, COUNTERS, until=enough)


def counters(path: Path, kind: str) -> list[dict[str, Any]]:
    return [one for one in oracle("counters", path) if one["kind"] == kind]


def named(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [one for one in found if one["CounterMetadata"]["CounterName"] == name]


def test_both_readers_see_the_same_events(recorded: Path) -> None:
    assert {line["event"] for line in assert_agree(recorded)} >= {
        "Version",
        "Message",
        "InstrumentPublished",
        "BeginInstrumentReporting",
        "InitialInstrumentEnumerationComplete",
        "Collection/Start",
        "CounterRateValuePublished",
        "UpDownCounterRateValuePublished",
        "GaugeValuePublished",
        "HistogramValuePublished",
        "Collection/Stop",
        "EventCounters",
    }


def test_the_reference_decodes_the_counters(recorded: Path) -> None:
    names = {one["CounterMetadata"]["CounterName"] for one in counters(recorded, "EventCounterPayload")}
    assert names >= {
        "cpu-usage",
        "working-set",
        "thread-count",
        "allocated-blocks",
        "gen-0-gc-count",
        "gen-1-gc-count",
        "gen-2-gc-count",
        "time-in-gc",
        "total-pause-time-by-gc",
    }


def test_the_reference_decodes_the_meter_of_the_runtime(recorded: Path) -> None:
    levels = counters(recorded, "UpDownCounterPayload")
    (memory, *_) = named(levels, "dotnet.process.memory.working_set")
    assert memory["Value"] > 1_000_000
    assert memory["Unit"] == "By"
    assert named(levels, "cpython.allocated_blocks")[0]["Value"] > 10_000
    rates = counters(recorded, "RatePayload")
    for name, count in (("dotnet.gc.collections", 3), ("dotnet.process.cpu.time", 2)):
        assert len({one["ValueTags"] for one in named(rates, name)}) == count


def test_the_reference_decodes_the_meters_of_opentelemetry(recorded: Path) -> None:
    orders = named(counters(recorded, "RatePayload"), "orders")
    by_tags: Counter[str] = Counter()
    for one in orders:
        by_tags[one["ValueTags"]] += one["Value"]
    assert by_tags == {"kind=shop": 5, "kind=web": 5}
    assert orders[0]["CounterMetadata"]["ProviderName"] == "Shop"
    assert orders[0]["CounterMetadata"]["ProviderVersion"] == "1.2.3"
    assert sum(one["Value"] for one in named(counters(recorded, "RatePayload"), "early.orders")) == 10
    assert named(counters(recorded, "UpDownCounterPayload"), "queue")[-1]["Value"] == 10
    assert {one["Value"] for one in named(counters(recorded, "GaugePayload"), "temperature")} == {21.5}
    latency = counters(recorded, "AggregatePercentilePayload")
    assert sum(one["Count"] for one in latency) == 10
    assert sum(one["Sum"] for one in latency) == 45


def test_the_reference_takes_nothing_for_an_error(recorded: Path) -> None:
    kinds = Counter(one["kind"] for one in oracle("counters", recorded))
    assert kinds.keys() <= {
        "EventCounterPayload",
        "BeginInstrumentReportingPayload",
        "CounterEndedPayload",  # what is observed has no rate at first: .NET's own are told so too
        "RatePayload",
        "UpDownCounterPayload",
        "GaugePayload",
        "AggregatePercentilePayload",
    }


def _described(kind: Metadata) -> tuple[object, ...]:
    fields = tuple((field.name, field.type.code) for field in kind.fields)
    return kind.name, kind.version, kind.level, kind.keywords & ~ETW_SESSIONS, kind.opcode, kind.declared, fields


def _kinds(path: Path) -> dict[int, tuple[object, ...]]:
    found = read(path.read_bytes()).metadata.values()
    return {kind.event_id: _described(kind) for kind in found if kind.provider == PROVIDER}


def test_every_event_has_the_metadata_of_a_real_runtime(tmp_path: Path) -> None:
    """All but those of errors in callbacks and of instruments that end, which this workload has none of."""

    def asking(**arguments: object) -> Provider:
        said = ";".join(f"{name}={value}" for name, value in arguments.items())
        return Provider(name=PROVIDER, keywords=7, level=4, arguments=said)

    theirs: dict[int, tuple[object, ...]] = {}
    with workload("10", "meters", "seconds=20") as target:
        shared = asking(SessionId="SHARED", ClientId="a", Metrics="*", RefreshInterval=0.2, MaxHistograms=1)
        other = asking(SessionId="SHARED", ClientId="b", Metrics="*", RefreshInterval=0.3)
        histogram = text("0.5=")
        with Client(target.pid).trace([shared], rundown_keyword=0) as session:
            first = bytearray()
            while histogram not in first:
                first += session.read()
            refused = record(target.pid, tmp_path / "other", other, until=lambda stream: text("expectedMax") in stream)
            session.stop()
            for part in session:
                first += part
        (tmp_path / "first").write_bytes(first)
        few = asking(SessionId="x", Metrics="System.Runtime", RefreshInterval=0.2, MaxTimeSeries=1)
        limited = record(target.pid, tmp_path / "few", few, until=lambda stream: text("TimeSeriesLimit") in stream)
    for path in (tmp_path / "first", refused, limited):
        theirs |= _kinds(path)
    ours = {one.kind.event_id: _described(one.kind) for one in METER_EVENTS}
    assert theirs.keys() == ours.keys() - {END_REPORTING.kind.event_id, CALLBACK_ERROR.kind.event_id}
    assert {number: ours[number] for number in theirs} == theirs
    assert _described(END_REPORTING.kind)[1:] == ours[7][1:]  # as .NET 10.0.14 did when a Meter was disposed
