"""Names of methods in a session that runs, and the questions that are asked of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from tests.analysis.traces import allocation, external, managed, traced, weights
from tests.live_room.made import FakeSession, Made, quiet
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME, MadeTrace

from dotnetdiag.analysis.cpu import CpuFold, cpu
from dotnetdiag.analysis.profile import Profile
from dotnetdiag.analysis.stacks import StacksFold, stacks
from dotnetdiag.errors import UnknownName
from dotnetdiag.live import LiveEvents, LiveSymbols
from dotnetdiag.live.events import OWN_PROVIDERS
from dotnetdiag.trace.symbol_events import RUNDOWN
from dotnetdiag.trace.symbols import Symbols
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

RUNDOWN_END = (RUNDOWN, 144)
"""MethodDCEndVerbose."""
EVENTS = (
    managed(1, 1, "P.Leaf", "P.Main"),
    managed(2, 2, "P.Other"),
    allocation(3, 1, "P.New", "P.Main", size=500),
    external(4, 1, "P.Wait", "P.Main"),
    managed(5, 2, "P.Other"),
    managed(10, 1, "P.Leaf", "P.Main"),
)


def live_of(data: bytes, symbols: LiveSymbols) -> LiveEvents:
    return LiveEvents(FakeSession(data, None), stacks=True, symbols=symbols, providers=OWN_PROVIDERS)


def by_name(profile: Profile) -> dict[str, tuple[float, float]]:
    return {
        row.name(): (round(row.exclusive, 6), round(row.inclusive, 6))
        for row in profile.top(1 << 20)
        if row.exclusive or row.inclusive
    }


def test_the_windows_of_a_session_answer_as_those_of_its_recording() -> None:
    trace = traced(*EVENTS)
    sampled, size = CpuFold(), StacksFold("GC/AllocationTick", weight="AllocationAmount64", unit="bytes")
    for window in live_of(bytes(trace.raw.buffer), LiveSymbols()).windows():
        sampled.feed(window)
        size.feed(window)
    assert by_name(sampled.result()) == by_name(cpu(trace))
    assert weights(size.result().top(1)) == {"P.New": (500.0, 500.0)}


def test_symbols_hear_of_methods_whatever_events_are_asked_for() -> None:
    trace = traced(*EVENTS)
    data = FakeSession(bytes(trace.raw.buffer), None)
    live = LiveEvents(data, names=["Thread/Sample"], stacks=True, symbols=LiveSymbols())
    sampled = CpuFold()
    for window in live.windows():
        assert {schema.name for schema in window.schemas.values()} == {"Thread/Sample"}
        sampled.feed(window)
    assert by_name(sampled.result()) == by_name(cpu(trace))
    assert live.account.shown == 5
    assert live.account.written == len(trace)


def test_events_of_a_rundown_count_as_what_names_methods_and_not_as_filtered() -> None:
    told, symbols = methods((0x1000, "M"), (0x2000, "N"), time=1, event=RUNDOWN_END), LiveSymbols()
    live = LiveEvents(FakeSession(bytes(told.raw.buffer), None), stacks=True, symbols=symbols)
    assert list(live.windows()) == []
    account = live.account
    assert (account.shown, account.filtered, account.naming, account.written) == (0, 0, 2, 2)
    assert names(symbols.now(), 0x1010, 0x2010) == ["M", "N"]


@pytest.mark.parametrize(
    ("event", "end", "has_named"), [("rundown", "end", True), ("rundown", "cut", False), ("load", "end", False)]
)
def test_a_session_has_named_all_methods_when_its_rundown_came_whole(event: str, end: str, has_named: bool) -> None:
    told = methods((0x1000, "M"), time=1, event=RUNDOWN_END if event == "rundown" else (RUNTIME, 143))
    data = bytes(told.raw.buffer)
    live = LiveEvents(FakeSession(data if end == "end" else data[:-1], None), stacks=True, symbols=LiveSymbols())
    list(live.windows())
    assert live.has_named is has_named
    assert (live.rundown_since is not None) is (event == "rundown")


def test_windows_have_the_names_that_the_symbols_know(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = traced(*EVENTS)
    found = [
        (leaf, frames)
        for window in live_of(bytes(trace.raw.buffer), LiveSymbols()).windows()
        for leaf, frames in zip(
            window.header_column("leaf").to_pylist(), window.header_column("frames").to_pylist(), strict=True
        )
        if leaf is not None
    ]
    (window,) = trace.events(
        names=[*trace.counts()["Microsoft-DotNETCore-SampleProfiler"], "GC/AllocationTick"]
    ).windows()
    expected = zip(window.header_column("leaf").to_pylist(), window.header_column("frames").to_pylist(), strict=True)
    assert found == list(expected)
    assert found[0] == ("app!P.Leaf()", ["app!P.Leaf()", "app!P.Main()"])


def test_a_filter_by_leaf_passes_what_it_passes_in_a_recording_and_is_refused_without_stacks() -> None:
    trace = traced(*EVENTS)
    for where, count in (('leaf ~ "Leaf"', 2), ("stack_id > 0", 6), ('frames ~ "Main"', 4)):
        session = FakeSession(bytes(trace.raw.buffer), None)
        live = LiveEvents(session, stacks=True, symbols=LiveSymbols(), where=where, providers=OWN_PROVIDERS)
        assert sum(map(len, live.windows())) == count == len(trace.events(where=where))
    for where in ('leaf ~ "Leaf"', "Stack_id > 0", 'header.frames ~ "Main"', 'n == 1 or header.leaf == "x"'):
        session = FakeSession(None)
        with pytest.raises(UnknownName, match="in a watch without call stacks"):
            LiveEvents(session, where=where)
        assert session.closed


SESSIONS = [name for name in recordings() if data_of(name).startswith(b"Nettrace\x14\0\0\0!")]
"""Recordings in the format that sessions have."""


@pytest.mark.parametrize("name", SESSIONS)
def test_a_recording_that_arrives_bit_by_bit_gives_the_same_times(name: str) -> None:
    data = data_of(name)
    trace = Trace(data)
    assert trace.format == "nettrace 4"
    session = FakeSession()
    live = LiveEvents(session, stacks=True, symbols=LiveSymbols(), providers=OWN_PROVIDERS, queue_bytes=1 << 30)
    for at in range(0, len(data), 100_000):
        session.say(data[at : at + 100_000])
        session.say(quiet())
    session.say(None)
    sampled, counted = CpuFold(), StacksFold()
    for window in live.windows():
        sampled.feed(window)
        counted.feed(window)
    assert by_name(sampled.result()) == by_name(cpu(trace))
    assert by_name(counted.result()) == by_name(stacks(trace))


def test_stacks_of_windows_with_tables_of_their_own_are_told_apart() -> None:
    asked, symbols = CpuFold(), LiveSymbols()
    for events in (
        (managed(1, 1, "P.A", "P.Main"),),
        (managed(3, 2, "P.A"), managed(3, 1, "P.A", "P.Main"), managed(7, 1, "P.Main"), managed(7, 2, "P.Main")),
    ):
        for window in live_of(bytes(traced(*events).raw.buffer), symbols).windows():
            context = replace(cast(Any, window.trace), recording=symbols)  # of one session
            asked.feed(EventTable(context, window.schemas, window.headers))
    assert weights(asked.take().top()) == {"P.A": (10.0, 10.0), "P.Main": (0.0, 6.0)}


def methods(*made: tuple[int, str], time: int, event: tuple[str, int] = (RUNTIME, 143)) -> Trace:
    """A recording that tells of methods at addresses."""
    told = MadeTrace()
    for address, name in made:
        told.method(address, 0x100, name, method_id=address, time=time, event=event)
    return written(told)


def written(told: MadeTrace) -> Trace:
    import io

    from dotnetdiag.nettrace import Metadata, Writer

    out = io.BytesIO()
    with Writer(out, version=5, process_id=77) as writer:
        for (provider, number, name, version), kind in told.kinds.items():
            writer.add_metadata(
                Metadata(metadata_id=kind, provider=provider, event_id=number, name=name, version=version)
            )
        for kind, time, thread, payload in told.events:
            writer.write_event(kind, time, payload, thread=thread)
    return Trace(out.getvalue())


def whole(trace: Trace) -> EventTable:
    (window,) = trace.windows()
    return window


def names(symbols: Symbols, *addresses: int) -> list[str]:
    import numpy as np

    return [symbols.frame(frame).method for frame in symbols.resolve(np.array(addresses, np.uint64)).tolist()]


def test_symbols_grow_and_those_that_were_given_out_stay() -> None:
    symbols = LiveSymbols()
    empty = symbols.now()
    assert symbols.now() is empty
    symbols.add(whole(methods((0x1000, "One"), time=5)))
    one = symbols.now()
    assert symbols.now() is one
    symbols.add(whole(methods((0x2000, "Two"), time=6)))
    assert names(symbols.now(), 0x1010, 0x2010) == ["One", "Two"]
    assert names(one, 0x1010, 0x2010) == ["One", ""]
    assert names(empty, 0x1010) == [""]


def test_windows_that_tell_of_no_method_change_nothing() -> None:
    symbols = LiveSymbols()
    before = symbols.now()
    made = Made()
    made.number(1, 100)
    symbols.add(whole(Trace(made.take() + made.finish())))
    assert symbols.now() is before


def test_a_rundown_takes_the_place_of_the_one_before_and_of_what_came_before_it() -> None:
    symbols = LiveSymbols()
    symbols.add(whole(methods((0x1000, "Old"), time=5)))
    symbols.add_rundown(methods((0x2000, "Gone"), time=8, event=(RUNDOWN, 144)))
    assert names(symbols.now(), 0x1010, 0x2010) == ["", "Gone"]
    symbols.add(whole(methods((0x4000, "Later"), time=20)))
    symbols.add_rundown(methods((0x3000, "There"), time=10, event=(RUNDOWN, 144)))
    assert names(symbols.now(), 0x2010, 0x3010, 0x4010) == ["", "There", "Later"]
    symbols.add_rundown(written(MadeTrace()))
    assert names(symbols.now(), 0x3010) == ["There"]


def test_the_oldest_are_forgotten_at_the_limit_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.live.symbols._PART_BYTES", 0)
    symbols = LiveSymbols(limit_bytes=600)
    for number in range(5):
        symbols.add(whole(methods((0x1000 * (number + 1), f"M{number}"), time=number)))
    kept = names(symbols.now(), *(0x1010 + 0x1000 * number for number in range(5)))
    assert kept == ["", *[""] * (symbols.forgotten - 1), *(f"M{number}" for number in range(symbols.forgotten, 5))]
    assert 0 < symbols.forgotten < 5


def test_methods_of_windows_that_nobody_took_in_time_have_names() -> None:
    data, symbols = bytes(traced(*EVENTS).raw.buffer), LiveSymbols()
    session = FakeSession(data, None)
    live = LiveEvents(session, stacks=True, symbols=symbols, providers=OWN_PROVIDERS)
    live.finish()
    assert list(live.windows()) == []
    live.close()
    assert live.account.shown == 0
    assert symbols.now().ranges == 5


def test_a_watcher_that_waits_is_told_that_nothing_came() -> None:
    made, session = Made(), FakeSession()
    live = LiveEvents(session)
    windows = live.windows_or_none(0.01)
    assert next(windows) is None
    made.number(1, 100)
    session.say(made.take())
    assert any(window is not None for window in windows)
    session.say(made.finish())
    session.say(None)
    assert [window for window in windows if window is not None] == []
