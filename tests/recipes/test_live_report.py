"""Questions to sessions: what is asked for is enough, and the answers are those of a recording with the same bytes."""

from __future__ import annotations

import math
import re
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import pytest
from tests.live_room.made import FakeSession, Made, quiet
from tests.nettrace.recordings import data_of, recordings

import dotnetdiag as dd
from dotnetdiag.analysis.advice_report import NOTHING
from dotnetdiag.analysis.nameless import CUT, NO_NAMES, NOT_TOLD
from dotnetdiag.analysis.native import RuntimeFacts
from dotnetdiag.analysis.startup import NO_START, TOO_LATE
from dotnetdiag.events import catalogue
from dotnetdiag.live import LiveEvents, LiveSymbols
from dotnetdiag.live.events import OWN_PROVIDERS
from dotnetdiag.providers.composition import compose
from dotnetdiag.providers.keywords import CLR_PROVIDER
from dotnetdiag.recipes import live_report
from dotnetdiag.recipes.live_report import KINDS, LiveReport
from dotnetdiag.recipes.watching import WatchOptions
from dotnetdiag.trace.recorded import recorded_of
from dotnetdiag.trace.trace import Trace

SESSIONS = [name for name in recordings() if data_of(name).startswith(b"Nettrace\x14\0\0\0!")]
"""Recordings in the format that sessions have."""
PIECE = 20_000
ESTIMATED = ("objects",)
"""Sums of fractions, to a whole number."""


def answer(kind: str, *pieces: bytes, has_all: bool = True, lasted_s: float = 1.0) -> Any:
    session = FakeSession()
    for piece in pieces:
        session.say(piece)
        session.say(quiet())
    session.say(None)
    live = LiveEvents(
        session, stacks=True, symbols=LiveSymbols(), providers=OWN_PROVIDERS, queue_bytes=1 << 30, settled=True
    )
    clock = SimpleNamespace(monotonic=iter((0.0, lasted_s)).__next__)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(live_report, "time", clock)
        with LiveReport(live, KINDS[kind], lambda: None, has_all=has_all) as asked:
            return asked.result()


UNNAMED = {NO_NAMES: NOT_TOLD, CUT: NOT_TOLD, TOO_LATE: NO_START}
"""What is said of recordings, and of sessions in its place."""


def rounded(value: Any) -> Any:
    if isinstance(value, float):
        return None if math.isnan(value) else float(f"{value:.4g}")
    if isinstance(value, dict):
        return {name: rounded(float(one) if name in ESTIMATED and one else one) for name, one in value.items()}
    return [rounded(one) for one in value] if isinstance(value, (list, tuple)) else value


def cut(data: bytes) -> list[bytes]:
    return [data[at : at + PIECE] for at in range(0, len(data), PIECE)]


@pytest.mark.parametrize("name", SESSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_recording_that_arrives_bit_by_bit_has_the_same_answer(kind: str, name: str) -> None:
    data = data_of(name)
    trace = Trace(data)
    lasted_s = recorded_of(trace).end_s
    whole, arrived = (
        getattr(dd, kind)(trace).to_json(),
        answer(kind, *cut(data), has_all=False, lasted_s=lasted_s).to_json(),
    )
    assert rounded(arrived.get("totals")) == rounded(whole.get("totals"))
    assert arrived.get("notes") == [UNNAMED.get(note, note) for note in whole["notes"]]
    for table in whole.keys() - {"totals", "notes"}:
        assert rounded(arrived[table]) == rounded(whole[table]), table


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_in_which_nothing_happens_has_an_empty_answer(kind: str) -> None:
    made = Made()
    report = answer(kind, made.finish())
    assert getattr(getattr(report, "totals", None), "count", 0) == 0
    assert kind == "advice" or len(report.notes) == 1
    assert all(note.startswith("no ") for note in report.notes)
    assert not any(map(advises, report.notes))
    for table in report.document().values():
        if isinstance(table, dd.Table):
            assert table.notes == ((NOTHING,) if kind == "advice" else report.notes)


def test_a_session_of_other_providers_is_told_which_it_should_have() -> None:
    data = Made().finish()
    assert "--profile gc-collect" in answer("gc", data, has_all=False).notes[0]


@pytest.mark.parametrize("kind", ["exceptions", "advice"])
def test_a_process_that_was_gone_before_it_told_names_is_said_to_be(kind: str) -> None:
    made = answer(kind, data_of("killed-10.nettrace"))
    assert NOT_TOLD in answer("allocations", data_of("killed-10.nettrace")).notes
    assert not any("record with --rundown" in note for note in made.notes)


@pytest.mark.parametrize(("end", "asks"), [("end", False), ("cut", True)])
def test_no_second_session_is_asked_for_names_that_the_first_has_told(end: str, asks: bool) -> None:
    data = data_of("events-10.nettrace")
    assert dd.exceptions(Trace(data)).by_method.values("method") != [None]
    session = FakeSession(data if end == "end" else data[:-1], None)
    live = LiveEvents(session, stacks=True, symbols=LiveSymbols(), queue_bytes=1 << 30, settled=True)
    asked = []
    with LiveReport(live, KINDS["exceptions"], lambda: asked.append(1)) as report:
        made = report.result()
    assert set(made.by_method.values("method")) == set(dd.exceptions(Trace(data)).by_method.values("method"))
    assert bool(asked) is asks


@pytest.mark.parametrize("unnamed", [None, "it does not tell"])
def test_what_kept_names_from_coming_is_told_and_they_are_not_waited_for_again(unnamed: str | None) -> None:
    session = FakeSession(data_of("events-10.nettrace")[:-1], None)
    live = LiveEvents(session, stacks=True, symbols=LiveSymbols(), queue_bytes=1 << 30, settled=True)
    asked: list[str] = []

    def name_methods() -> str:
        asked.append("again")
        return "nobody answers"

    with LiveReport(live, KINDS["exceptions"], name_methods, unnamed=unnamed) as report:
        assert report.result().totals.count
    assert report.notes == (f"names of methods are missing: {unnamed or 'nobody answers'}",)
    assert asked == ([] if unnamed else ["again"])


def test_names_that_the_session_has_told_itself_are_not_missing() -> None:
    session = FakeSession(data_of("events-10.nettrace"), None)
    live = LiveEvents(session, stacks=True, symbols=LiveSymbols(), queue_bytes=1 << 30, settled=True)
    with LiveReport(live, KINDS["exceptions"], lambda: None, unnamed="it did not tell") as report:
        report.result()
    assert report.notes == ()


def test_what_is_waited_for_once_the_end_was_asked_for_is_not_recorded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a process that a signal had stopped rates were of the 10 s too in which it did not end its session."""
    session = FakeSession(data_of("gccollect-10.nettrace"))
    live = LiveEvents(
        session, stacks=True, symbols=LiveSymbols(), providers=OWN_PROVIDERS, queue_bytes=1 << 30, settled=True
    )
    live.stop()
    assert live.over_for_s >= 0
    monkeypatch.setattr(LiveEvents, "over_for_s", 10.0)
    monkeypatch.setattr(live_report, "time", SimpleNamespace(monotonic=lambda: 13.0))
    with LiveReport(live, KINDS["advice"], lambda: None, has_all=False, begun=0.0) as asked:
        assert asked.result().seconds == 3.0


def test_what_comes_until_a_runtime_has_stopped_is_part_of_the_time() -> None:
    """Of a process that was flooded collections came for seconds behind the end that was asked for: they paused it for more than all of the time."""
    data = data_of("gccollect-10.nettrace")
    latest_ms = max(dd.gc(Trace(data)).collections.values("start_ms"))
    totals = answer("gc", data, lasted_s=0.01).totals
    assert totals.pause_percent == pytest.approx(totals.pause_ms / latest_ms * 100, rel=0.05)
    assert answer("gc", data, lasted_s=100.0).totals.pause_percent == pytest.approx(totals.pause_ms / 1000)


def test_a_session_asks_for_its_rundown(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = []

    def start(*_: Any, **options: Any) -> Any:
        chosen.append(options["chosen"])
        return SimpleNamespace(close=lambda: None)

    for name, fake in {"start_watching": start, "is_held": lambda _: True}.items():
        monkeypatch.setattr(live_report, name, fake)
    live_report.start_report(SimpleNamespace(), "exceptions", WatchOptions())  # type: ignore[arg-type]
    assert [(one.rundown_keyword, one.rundown_fallback) for one in chosen] == [(0x38, 0x80020139)]


def advises(note: str) -> re.Match[str] | None:
    """Whether a note tells what to record."""
    return re.search(r"recording (lacks|has no )|record with|\(record|keyword|profile|provider|:0x", note)


@pytest.mark.parametrize("kind", KINDS)
def test_no_note_advises_to_record_what_the_question_asks_for(kind: str) -> None:
    asked = KINDS[kind]
    module = import_module(f"dotnetdiag.analysis.{asked.module}")
    others = [one for one in KINDS.values() if one.module == asked.module and one is not asked]
    told_by_others = {name for one in others for name in one.instead}
    notes = {name: text for name, text in vars(module).items() if name.isupper() and isinstance(text, str)}
    assert asked.instead.keys() <= notes.keys()
    for name, text in notes.items():
        if re.match(r"(no|how|which|of) ", text) and name not in told_by_others:
            assert advises(asked.instead.get(name, text)) is None


OPTIONAL = {
    "AllocationSampling": "ticks tell the same",
    "GC/AllocationTick": "a question of collections is to cost next to nothing",
    "Method/R2RGetEntryPoint": "one for each method that is called",
    "Method/InliningSucceeded": "many for each method",
    "Method/InliningFailed": "many for each method",
    "Method/InliningFailedAnsi": "many for each method",
    "ThreadPoolWorkerThread/Start": "names threads alone",
    "ThreadPoolWorkerThread/Wait": "names threads alone",
    "TypeLoad/Start": "some thousands at a start",
    "TypeLoad/Stop": "some thousands at a start",
    "WaitHandleWait/Start": "many, of threads that have nothing to do",
    "WaitHandleWait/Stop": "many, of threads that have nothing to do",
}
"""What answers do without, and why it is not asked for."""
_WAITS = {"WaitHandleWait/Start", "WaitHandleWait/Stop"}
ESSENTIAL = {
    "allocations": {"GC/AllocationTick"},
    "threads": {"GC/AllocationTick", *_WAITS},
    "requests": {"GC/AllocationTick"},
    "waits": _WAITS,
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_question_asks_for_all_events_of_the_runtime_that_its_answer_is_made_of(kind: str) -> None:
    asked = KINDS[kind]
    (provider,) = (one for one in session_of(kind) if one.name == CLR_PROVIDER)
    fold = asked.asked(lambda: 1.0)
    lacking = set()
    known = catalogue.provider(CLR_PROVIDER)
    assert known is not None
    for number in known.event_ids:
        told = catalogue.describe(CLR_PROVIDER, number, 1 << 31)
        assert told is not None
        schema: Any = SimpleNamespace(provider=CLR_PROVIDER, event_id=number, name=told.name, version=told.version)
        is_sent = (not told.keywords or told.keywords & provider.keywords) and told.level <= provider.level
        if fold.wants(schema) and not is_sent:
            lacking.add(told.name)
    assert lacking <= OPTIONAL.keys() - ESSENTIAL.get(kind, set())


def session_of(kind: str) -> tuple[Any, ...]:
    return compose(providers=KINDS[kind].providers, presets=None, rundown=False).providers


def test_a_question_of_collections_is_not_verbose() -> None:
    (provider,) = session_of("gc")
    assert (provider.level, provider.keywords & ~0x38) == (4, 1)


def test_ends_of_awaits_are_asked_for() -> None:
    (provider,) = (one for one in session_of("tasks") if one.name == "System.Threading.Tasks.TplEventSource")
    assert (provider.level, provider.keywords) == (5, 0xB)


def test_a_session_that_is_over_before_it_is_asked_has_no_rates() -> None:
    """Its end was heard of before names had been read: rates were negative, and the start ended before it began."""
    data = data_of("startup-10.nettrace")
    assert answer("gc", data, lasted_s=-1.0).totals.pause_percent is None
    assert answer("exceptions", data, lasted_s=-1.0).totals.per_second is None
    assert answer("startup", data, lasted_s=-1.0).totals.end_ms == 0.0
    assert answer("advice", data, lasted_s=-1.0).seconds == 0.0


@pytest.mark.parametrize(("major", "has_sockets"), [(0, True), (9, True), (10, False), (11, False)])
def test_where_sockets_take_the_ids_of_requests_they_are_not_asked_for(major: int, has_sockets: bool) -> None:
    for name, kind in KINDS.items():
        needed, usual = (kind.needed(RuntimeFacts(major=one)).split(",") for one in (major, 0))
        others = [one for one in usual if not one.startswith("System.Net.Sockets:")]
        assert needed == (usual if has_sockets else others)
        assert (len(others) < len(usual)) == (name in ("requests", "logs", "advice"))
