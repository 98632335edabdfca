"""Counters of several processes: servers of our own, whose counters are those of this process."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.analysis.counters_made import MadeCounters

from dotnetdiag.analysis.series import CounterKind, InstrumentKey, SeriesKey
from dotnetdiag.errors import DiagnosticsError, GrammarError, OutputExists, TransportError, UsageError
from dotnetdiag.recipes import counter_silences
from dotnetdiag.recipes.counter_files import collect_counters
from dotnetdiag.recipes.counter_watch import (
    CounterChange,
    CounterOptions,
    CounterSilence,
    CounterTargets,
    CounterUpdate,
    CounterWatch,
)
from dotnetdiag.recipes.processes import runtime_major
from dotnetdiag.server import DiagnosticServer, PythonCommands
from dotnetdiag.server.registry import Registry
from dotnetdiag.server.runtime_providers import add_runtime_providers
from dotnetdiag.testing import Runtime

LIMIT_S = 30.0
OFTEN = CounterOptions(interval=0.05)
PATIENCE = 400
"""Intervals."""


@contextmanager
def served(folder: Path, *names: str) -> Iterator[list[str]]:
    """The ports of servers."""
    registry = Registry()
    add_runtime_providers(registry)
    with ExitStack() as servers:
        ports = []
        for name in names:
            server = servers.enter_context(DiagnosticServer(PythonCommands(registry=registry)))
            ports.append(server.listen(str(folder / name)) + ",connect")
        yield ports


def values_of(update: CounterUpdate) -> dict[int, set[str]]:
    """Names of instruments with a value, by number of the process."""
    found: dict[int, set[str]] = {}
    if update.counters is not None:
        for one in update.counters.series:
            assert one.pid is not None
            found.setdefault(one.pid, set()).add(one.name)
    return found


def until(watch: CounterWatch, wanted: set[int]) -> dict[int, set[str]]:
    """What came until all of these have values."""
    seen: dict[int, set[str]] = {}
    for turn, update in enumerate(watch.updates()):
        for number, names in values_of(update).items():
            seen.setdefault(number, set()).update(names)
        if wanted <= seen.keys():
            return seen
        assert turn < PATIENCE
    raise AssertionError(f"it has ended, and {wanted - seen.keys()} had no values")


def test_many_processes_are_watched_at_once(tmp_path: Path) -> None:
    with served(tmp_path, "a", "b", "c") as ports, CounterWatch(CounterTargets(ports=tuple(ports)), OFTEN) as watch:
        seen = until(watch, {0, 1, 2})
        assert [one.target for one in sorted(watch.processes, key=lambda one: one.number)] == ports
        assert {one.pid for one in watch.processes} == {os.getpid()}
    for names in seen.values():
        assert "dotnet.process.cpu.time" in names
        assert not any("-" in name for name in names), "the EventCounters of that name say the same"


def test_event_counters_alone_are_shown_where_they_are_asked_for(tmp_path: Path) -> None:
    options = CounterOptions(counters=r"EventCounters\System.Runtime[working-set,cpu-usage]", interval=0.05)
    with served(tmp_path, "a") as ports, CounterWatch(CounterTargets(ports=tuple(ports)), options) as watch:
        assert until(watch, {0})[0] <= {"working-set", "cpu-usage"}


def test_one_that_fails_does_not_disturb_the_others(tmp_path: Path) -> None:
    nobody = f"{tmp_path}/nobody,connect"
    with served(tmp_path, "a") as ports, CounterWatch(CounterTargets(ports=(nobody, *ports)), OFTEN) as watch:
        changes: list[CounterChange] = []
        for turn, update in enumerate(watch.updates()):
            changes += update.changes
            if values_of(update):
                break
            assert turn < PATIENCE
        assert {(one.process.number, one.joined, bool(one.why)) for one in changes} == {
            (0, False, True),
            (1, True, False),
        }
        assert [one.number for one in watch.processes] == [1]


def test_a_process_that_ends_is_told_and_forgotten(tmp_path: Path) -> None:
    with ExitStack() as stack:
        (stays,) = stack.enter_context(served(tmp_path, "stays"))
        ends = stack.enter_context(ExitStack())
        (goes,) = ends.enter_context(served(tmp_path, "goes"))
        watch = stack.enter_context(CounterWatch(CounterTargets(ports=(stays, goes)), OFTEN))
        seen: set[int] = set()
        gone: list[int] = []
        for turn, update in enumerate(watch.updates()):
            seen |= values_of(update).keys()
            if seen == {0, 1}:
                ends.close()
            gone += [one.process.number for one in update.changes if not one.joined]
            if gone and values_of(update).keys() == {0}:
                break
            assert turn < PATIENCE
        assert gone == [1]
        assert [one.number for one in watch.processes] == [0]
        assert {one.pid for one in watch.fold.latest().series} == {0}


def test_who_gives_no_values_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counter_silences, "SILENT_S", 0.2)
    options = CounterOptions(counters="No.Such.Meter", interval=0.05)
    told: list[CounterSilence] = []
    with served(tmp_path, "a") as ports, CounterWatch(CounterTargets(ports=tuple(ports)), options) as watch:
        begun = time.monotonic()
        for update in watch.updates(begun + PATIENCE):
            told += update.silences
            if told and time.monotonic() > begun + 5 * told[0].seconds:
                break
    (one,) = told
    assert one.seconds > 0.2
    assert (one.process.target, one.has_spoken, one.is_stopped, one.is_over) == (ports[0], False, False, False)


def test_the_watch_ends_with_the_last_process(tmp_path: Path) -> None:
    with served(tmp_path, "a") as ports, CounterWatch(CounterTargets(ports=tuple(ports)), OFTEN) as watch:
        changes: list[CounterChange] = []
        for turn, update in enumerate(watch.updates()):
            changes += update.changes
            if values_of(update):
                watch._fleet.stop()
            assert turn < PATIENCE
        assert [one.joined for one in changes] == [True, False]


def test_all_who_dial_a_port_are_watched_until_the_last_has_gone(tmp_path: Path) -> None:
    port, registry = str(tmp_path / "port"), Registry()
    add_runtime_providers(registry)
    with CounterWatch(CounterTargets(ports=(f"{port},listen",)), OFTEN) as watch:
        updates = watch.updates()
        next(updates)  # it listens
        with DiagnosticServer(PythonCommands(registry=registry)) as server:
            server.connect(port)
            assert any(values_of(update).get(0) for update, _ in zip(updates, range(PATIENCE), strict=False))
            with Runtime(connect=port, waits=True):
                assert any(len(update.processes) == 2 for update, _ in zip(updates, range(PATIENCE), strict=False))
                assert all(one.client is not None for one in watch.processes)
        gone = [change for update in updates for change in update.changes if not change.joined]
    assert {change.process.number for change in gone} == {0, 1}
    assert not os.path.exists(port)


def test_a_service_stays_when_all_who_dialled_have_gone(tmp_path: Path) -> None:
    port = str(tmp_path / "port")
    with CounterWatch(CounterTargets(ports=(f"{port},listen",), stays=True), OFTEN) as watch:
        updates = watch.updates()
        next(updates)
        with served(tmp_path, "own"), DiagnosticServer(PythonCommands(registry=Registry())) as server:
            server.connect(port)
            assert any(change.joined for update in updates for change in update.changes)
        assert any(not change.joined for update in updates for change in update.changes)
        for _ in range(3):
            next(updates)


def test_who_waits_at_a_port_that_nobody_will_watch_is_let_run(tmp_path: Path) -> None:
    port = str(tmp_path / "port")
    with CounterWatch(CounterTargets(ports=(f"{port},listen",)), OFTEN) as watch:
        updates = watch.updates()
        next(updates)
        with Runtime(connect=port, suspended=True) as runtime:
            for command in ("CollectTracing5", "CollectTracing4", "CollectTracing3", "CollectTracing2"):
                runtime.misbehave(command, "error")
            with pytest.raises(DiagnosticsError):
                list(updates)
            runtime.wait_until_resumed()


def test_a_port_that_is_taken_is_told_at_once(tmp_path: Path) -> None:
    targets = CounterTargets(ports=(f"{tmp_path}/own,listen",))
    with (
        served(tmp_path, "own"),
        CounterWatch(targets, OFTEN) as watch,
        pytest.raises(TransportError, match="listens"),
    ):
        next(watch.updates())


def test_where_nobody_can_be_watched_the_reason_is_raised(tmp_path: Path) -> None:
    with CounterWatch(CounterTargets(ports=(f"{tmp_path}/x,connect",)), OFTEN) as watch, pytest.raises(TransportError):
        list(watch.updates())


def test_a_runtime_that_refuses_is_told(tmp_path: Path) -> None:
    with (
        Runtime("10", listen=tmp_path / "r", misbehave={"CollectTracing2": "error"}) as runtime,
        CounterWatch(CounterTargets(ports=(f"{runtime.address},connect",)), OFTEN) as watch,
        pytest.raises(DiagnosticsError),
    ):
        list(watch.updates())


def test_a_watch_is_stopped_at_once(tmp_path: Path) -> None:
    with (
        served(tmp_path, "a") as ports,
        CounterWatch(CounterTargets(ports=tuple(ports)), CounterOptions(interval=3600)) as watch,
    ):
        watch.stop()
        assert list(watch.updates()) == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (CounterOptions(counters="A[x"), GrammarError),
        (CounterOptions(counters=""), GrammarError),
        (CounterOptions(interval=0), UsageError),
        (CounterOptions(interval="soon"), GrammarError),
        (CounterOptions(max_histograms=-1), UsageError),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anybody_is_asked(
    options: CounterOptions, error: type[UsageError]
) -> None:
    with pytest.raises(error):
        CounterWatch(CounterTargets(pids=(1,)), options)


@pytest.mark.parametrize("wrong", [{}, {"pids": (0,)}, {"names": ("",)}])
def test_targets_that_are_none_are_refused(wrong: dict[str, tuple[int, ...]]) -> None:
    with pytest.raises(UsageError):
        CounterTargets(**wrong)  # type: ignore[arg-type]


def test_values_are_collected_with_their_process(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    with served(tmp_path, "a", "b") as ports:
        totals = collect_counters(
            CounterTargets(ports=tuple(ports)),
            path,
            OFTEN,
            form="jsonl",
            on_update=_stops_after({0, 1}),
            on_begin=_begun,
        )
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(rows) == totals.values
    assert totals.watched == 2
    assert {row["pid"] for row in rows} == {os.getpid()}
    assert all(row["process"] for row in rows)
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_not_overwritten_unasked(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("mine")
    with pytest.raises(OutputExists):
        collect_counters(CounterTargets(pids=(os.getpid(),)), path, OFTEN)
    assert path.read_text() == "mine"


def test_a_file_is_kept_until_somebody_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    nobody = CounterTargets(ports=(f"{tmp_path / 'none'},connect",))
    with pytest.raises(DiagnosticsError):
        collect_counters(nobody, path, OFTEN)
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(DiagnosticsError):
        collect_counters(nobody, path, OFTEN, force=True)
    assert path.read_text() == "mine"
    with served(tmp_path, "a") as ports:
        collect_counters(
            CounterTargets(ports=tuple(ports)),
            path,
            OFTEN,
            force=True,
            on_update=_stops_after({0}),
            on_begin=_begun,
        )
    assert path.read_text().startswith("ms,utc,")


def test_everyone_is_who_is_watched_and_who_left(tmp_path: Path) -> None:
    with served(tmp_path, "a", "b") as ports, CounterWatch(CounterTargets(ports=tuple(ports)), OFTEN) as watch:
        until(watch, {0, 1})
        there = watch.processes
    update = CounterUpdate(
        counters=None,
        changes=(CounterChange(process=there[1], joined=True), CounterChange(process=there[1], joined=False)),
        processes=there[:1],
    )
    assert update.everyone == there


def test_only_some_formats_are_those_of_dotnet_counters(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not parquet"):
        collect_counters(CounterTargets(pids=(1,)), tmp_path / "x", OFTEN, form="parquet", compatible=True)
    with pytest.raises(UsageError, match="none of"):
        collect_counters(CounterTargets(pids=(1,)), tmp_path / "x", OFTEN, form="xml")


_watches: list[CounterWatch] = []


def _begun(watch: CounterWatch) -> None:
    _watches[:] = [watch]


def _stops_after(wanted: set[int]) -> Callable[[CounterUpdate], None]:
    seen: set[int] = set()

    left = iter(range(PATIENCE))

    def updated(update: CounterUpdate) -> None:
        seen.update(values_of(update))
        if wanted <= seen or next(left, None) is None:
            _watches[0].stop()

    return updated


def stalling(path: Path, until: ExitStack) -> str:
    """A port that takes connections, and says nothing."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(50)
    until.callback(listener.close)
    return f"{path},connect"


def test_those_that_do_not_answer_hold_nobody_and_not_the_end(tmp_path: Path) -> None:
    with ExitStack() as stack:
        stuck = [stalling(tmp_path / f"stuck{number}", stack) for number in range(12)]
        (good,) = stack.enter_context(served(tmp_path, "good"))
        watch = stack.enter_context(CounterWatch(CounterTargets(ports=(*stuck, good)), OFTEN))
        assert until(watch, {len(stuck)})
        begin = time.monotonic()
        watch.close()
        assert not [one for one in threading.enumerate() if "fleet" in one.name and not one.daemon]
        assert time.monotonic() - begin < LIMIT_S


def test_what_a_runtime_says_of_the_session_is_told_once(tmp_path: Path) -> None:
    made = MadeCounters().at(10).metric(12, sessionId="SHARED").metric(12, sessionId="SHARED")
    made.gauge("g", sessionId="SHARED", meterName="M", lastValue="9")
    path = tmp_path / "x.nettrace"
    path.write_bytes(made.data())
    options = CounterOptions(counters="M", interval=0.05)
    with (
        Runtime("9", listen=tmp_path / "r", replay=path, waits=True) as runtime,
        CounterWatch(CounterTargets(ports=(f"{runtime.address},connect",)), options) as watch,
    ):
        told: list[str] = []
        for turn, update in enumerate(watch.updates()):
            told += [notice.text for notice in update.notices]
            if turn > 10 and told:
                break
            assert turn < PATIENCE
    assert told == ["the limit of time series was reached: the runtime reports no others (MaxTimeSeries)"]


def test_a_meter_is_found_whatever_its_case() -> None:
    with CounterWatch(CounterTargets(everyone=True), CounterOptions(counters="workload.METER[orders]")) as watch:
        for meter, name, is_wanted in (
            ("Workload.Meter", "Orders", True),
            ("Workload.Meter", "x", False),
            ("Other", "orders", False),
        ):
            key = SeriesKey(InstrumentKey(1, "SHARED", meter, "", name, 0), CounterKind.COUNTER, "", "")
            assert watch._is_wanted(key) is is_wanted


@pytest.mark.parametrize("interval", [1e-320, 0.001, 0.0])
def test_an_interval_is_some_time(interval: float) -> None:
    with pytest.raises(UsageError, match="interval"):
        CounterWatch(CounterTargets(everyone=True), CounterOptions(interval=interval))


def test_an_interval_is_no_longer_than_a_day() -> None:
    """8 that is asked for 25 days gives no EventCounters to anybody any more."""
    with pytest.raises(UsageError, match="longer than a day"):
        CounterOptions(interval=86401).choices()


def test_a_version_that_makes_no_sense_is_none() -> None:
    """A process that says one of five thousand digits ended the watch of all."""
    versions = {"10.0.1": 10, "9" * 5000: None, "": None, "²": None, "-1.0": None}
    for text, major in versions.items():
        assert runtime_major(SimpleNamespace(runtime=".NET", runtime_version=text)) == major
