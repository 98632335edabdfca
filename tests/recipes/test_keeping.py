"""When a recording stops and what of it is kept: what is refused before anything runs, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import GrammarError, UnknownName, UsageError
from dotnetdiag.recipes.keeping import Keeping, StopCause, Watch
from dotnetdiag.recipes.sizes import size_bytes_of
from dotnetdiag.recipes.stopping import EventWatcher, StoppingEvent, parse_event

CLR = "Microsoft-Windows-DotNETRuntime"
GCCOLLECT = "gccollect-10.nettrace"

SIZES = {
    "100": 100,
    "100B": 100,
    "1KB": 1000,
    "100MB": 100_000_000,
    "1.5 GB": 1_500_000_000,
    "64MiB": 64 << 20,
    " 2 kib ": 2048,
}


@pytest.mark.parametrize("text", SIZES)
def test_a_size_is_by_thousands_as_it_is_printed_and_by_1024_where_that_is_said(text: str) -> None:
    assert size_bytes_of(text) == size_bytes_of(SIZES[text]) == SIZES[text]


@pytest.mark.parametrize(
    ("text", "position"), [("", 0), ("MB", 0), ("1 XB", 2), ("1e9", 0), ("-1MB", 0), ("1MB 2", 0), ("1" * 16, 0)]
)
def test_what_is_no_size_is_told_at_its_character(text: str, position: int) -> None:
    with pytest.raises(GrammarError, match=r"write 100MB") as caught:
        size_bytes_of(text)
    assert caught.value.position == position


@pytest.mark.parametrize("size", ["0", "0.1B", 0, -1])
def test_a_size_is_more_than_nothing(size: int | str) -> None:
    with pytest.raises(UsageError, match="must be"):
        size_bytes_of(size)


# an event in one text -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "provider", "event", "where"),
    [
        ("GC/Start", None, "GC/Start", None),
        (f"{CLR}/GC/Start", CLR, "GC/Start", None),
        (f"{CLR.lower()}/GCStart_V2 where Depth >= 2", CLR.lower(), "GCStart_V2", " Depth >= 2"),
        ("GC/Start WHERE Reason == Induced", None, "GC/Start", " Reason == Induced"),
        ("My-Source/Wherever where x > 1", "My-Source", "Wherever", " x > 1"),
        ("My-Source", "My-Source", None, None),
        ("My-Source where x > 1", "My-Source", None, " x > 1"),
        ("Something/Else", None, "Something/Else", None),
    ],
)
def test_an_event_is_a_provider_a_name_and_a_filter(
    text: str, provider: str | None, event: str | None, where: str | None
) -> None:
    providers = (CLR, "My-Source") if "My" in text or "Something" in text else (CLR,)
    assert parse_event(text, providers) == StoppingEvent(provider=provider, event=event, where=where)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("  ", 0),
        ("where Depth > 1", 0),
        ("GC/Start where", 14),
        ("GC/Start where Depth >>", 22),
        ("GC/Start where Depth ?", 21),
    ],
)
def test_a_mistake_in_an_event_is_told_at_its_character(text: str, position: int) -> None:
    with pytest.raises(GrammarError) as caught:
        parse_event(text, (CLR,))
    assert (caught.value.position, caught.value.text) == (position, text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("GC/Strt", f"no event 'GC/Strt' in {CLR}; near: GC/Start"),
        (f"{CLR}/GC/Strt", f"no event 'GC/Strt' in {CLR}; near: GC/Start"),
        ("GC/Start where Dpth > 1", "no field 'Dpth' in GC/Start; near: Depth"),
        ("GC/Start where Reason == Inducd", "no field or value 'Inducd' in GC/Start; near: Induced"),
        ("GC/Start where leaf ~ 'Main'", "no field 'leaf' in a watch without call stacks"),
        (
            "Microsoft-DotNETCore-SampleProfiler/Thread/Sample",
            "no provider 'Microsoft-DotNETCore-SampleProfiler' among",
        ),
        ("Microsoft-DotNETCore-SampleProfiler", "no provider 'Microsoft-DotNETCore-SampleProfiler' among"),
    ],
)
def test_what_the_session_cannot_have_is_told_before_anything_is_recorded(text: str, line: str) -> None:
    with pytest.raises(UnknownName) as caught:
        parse_event(text, (CLR,))
    assert str(caught.value).startswith(line)


def watched(text: str, *, hit: int = 1, piece: int = 997, **more: Any) -> tuple[EventWatcher, list[int]]:
    """The watcher behind a recording of 4 collections, and after how many bytes it called."""
    calls: list[int] = []
    data, at = data_of(GCCOLLECT), 0
    watcher = EventWatcher(parse_event(text, (CLR,), hit=hit), lambda: calls.append(at), **more)
    for at in range(0, len(data), piece):
        watcher.feed(data[at : at + piece])
    return watcher, calls


def test_the_hit_that_was_wanted_is_the_one() -> None:
    every, _ = watched("GC/Start", again=True)
    assert every.hits > 0
    for hit in range(1, every.hits + 1):
        watcher, calls = watched("GC/Start", hit=hit)
        assert (watcher.seen, len(calls)) == (True, 1)
        assert watcher.notes()[0].startswith("Stopped at GC/Start")
    watcher, calls = watched("GC/Start", hit=every.hits + 1)
    assert (watcher.seen, calls) == (False, [])
    assert f"came {every.hits} of {every.hits + 1} times" in watcher.notes()[0]


def test_a_filter_is_that_of_all_verbs() -> None:
    assert watched("GC/Start where Reason == Induced and Depth >= 0")[0].seen
    watcher, _ = watched("GC/Start where Depth > 100")
    assert not watcher.seen
    assert watcher.notes() == ["The stopping event GC/Start did not come before the recording was ended."]


def test_a_watcher_that_goes_on_calls_for_each_piece_with_a_hit() -> None:
    _, calls = watched("GC/Start", piece=1 << 20, again=True)
    assert len(calls) == 1
    sampler = "Microsoft-DotNETCore-SampleProfiler"
    data, pieces = data_of("cpu-only-10.nettrace"), list[int]()
    watcher = EventWatcher(parse_event(sampler, (sampler,)), lambda: pieces.append(at), again=True)
    for at in range(0, len(data), 997):
        watcher.feed(data[at : at + 997])
    assert 1 < len(pieces) == len(set(pieces)) < watcher.hits


def test_after_a_delay_it_is_called_also_when_nothing_comes() -> None:
    now, calls = [10.0], list[float]()
    watcher = EventWatcher(
        parse_event("GC/Start", (CLR,)), lambda: calls.append(now[0]), delay_s=5.0, clock=lambda: now[0]
    )
    watcher.look()
    watcher.feed(data_of(GCCOLLECT))
    assert (watcher.seen, calls) == (True, [])
    for now[0] in (14.9, 15.0, 16.0):
        watcher.look()
    assert calls == [15.0]


# options --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"rotate": 1, "ring": 1}, "rotated, or kept in a ring"),
        ({"ring_size": 1}, "dumps are of a ring"),
        ({"dump_on": ("GC/Start",)}, "dumps are of a ring"),
        ({"dump_at_end": False}, "dumps are of a ring"),
        ({"ring": 1, "max_size": 1}, "does not grow"),
        ({"keep": 1}, "there is one file"),
        ({"rotate": 1, "keep": 0}, "must be 1 or more"),
        ({"stop_on_hit": 2}, "of an event to stop on"),
        ({"stop_delay": "1s"}, "of an event to stop on"),
        ({"stop_on": "GC/Start", "stop_on_hit": 0}, "the first is 1"),
        ({"ring": "0s"}, "keeps nothing"),
        ({"ring": "60"}, "^ring: write 30s"),
        ({"max_size": "5 parsecs"}, "^size: no unit"),
        ({"rotate": "x"}, "^size: write"),
        ({"ring": "1s", "dump_on": ("GC/Strt",)}, "no event"),
        ({"stop_on": "GC/Start", "stop_delay": "x"}, "^delay: write"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        Keeping(**options).check((CLR,))


def test_a_size_and_an_event_end_a_recording_once_each_and_the_first_is_the_cause() -> None:
    calls: list[str] = []
    data = memoryview(data_of(GCCOLLECT))
    keeping = Keeping(max_size=1000, stop_on="GC/Start", ring=None)
    watch = Watch(keeping, None, (CLR,), stop=lambda: calls.append("stop"), dump=lambda: calls.append("dump"))
    for at in range(0, len(data), 500):
        watch.feed(data[at : at + 500])
    assert calls == ["stop", "stop"]
    assert watch.cause is StopCause.SIZE
    assert [note.partition(" at ")[0] for note in watch.notes()] == ["Stopped", "Stopped"]


def test_an_event_asks_for_dumps_and_one_that_did_not_come_is_told() -> None:
    calls: list[str] = []
    keeping = Keeping(ring="60s", dump_on=("GC/Start", "GC/Start where Depth > 100"))
    watch = Watch(keeping, None, (CLR,), stop=lambda: calls.append("stop"), dump=lambda: calls.append("dump"))
    watch.feed(memoryview(data_of(GCCOLLECT)))
    watch.look()
    assert calls == ["dump"]
    assert watch.cause is None
    assert watch.notes() == ["The event to dump on, GC/Start, did not come."]
