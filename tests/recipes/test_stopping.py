"""The options that name the event at which a recording stops, and how it is found in the bytes of a session."""

from __future__ import annotations

import io
import struct

import pytest
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import GrammarError, UnknownName
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.recipes.stopping import EventWatcher, StoppingEvent, parse_stopping_event


def test_a_filter_is_fields_and_values_and_quotes_protect_what_separates_them() -> None:
    assert parse_stopping_event("P", "E", 'a:1, b : x:y ,"c,d":"e:f,g",h:') == StoppingEvent(
        provider="P", event="E", payload=(("a", "1"), ("b", "x:y"), ("c,d", "e:f,g"), ("h", ""))
    )
    assert parse_stopping_event("P", "E", "a:x !,b: 1,c:2") == StoppingEvent(
        provider="P", event="E", payload=(("a", "x !"), ("b", "1"), ("c", "2"))
    )
    assert parse_stopping_event("P", "E", "") == StoppingEvent(provider="P", event="E")
    assert parse_stopping_event(None, None, None) is None


MISTAKES = {",": 0, "a:1,": 4, ",a:1": 0, "a:1,,b:2": 4, " ": 0, "a": 0, ":1": 0, '"":1': 0, '" ': 0, 'a:"1,b:2': 2}
"""Texts, and the place of the character that is wrong."""


@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_the_filter_is_one_line_that_says_what_to_write(text: str) -> None:
    with pytest.raises(GrammarError, match=r"^payload filter: (write field:value|this quote is not closed)") as caught:
        parse_stopping_event("P", "E", text)
    assert caught.value.position == MISTAKES[text]
    assert "\n" not in str(caught.value)


CLR = "Microsoft-Windows-DotNETRuntime"


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        *(("GC/Start", "Reason:Induced"), ("GCStart_V2", "Reason:1"), ("GCStart", None)),
        *(("GC/CommittedUsage", "TotalCommittedInFree:0"), ("GC/DynamicEvent", None)),
    ],
)
def test_what_the_runtime_has_is_taken(event: str, payload: str | None) -> None:
    assert parse_stopping_event(CLR, event, payload) is not None


@pytest.mark.parametrize(
    ("event", "payload", "line"),
    [
        ("GC/Strt", None, f"no event 'GC/Strt' in {CLR}; near: GC/Start"),
        ("GC/CommittedUsage", "Totl:1", "no field 'Totl' in GC/CommittedUsage; near: "),
        ("GC/Start", "Raeson:1", "no field 'Raeson' in GC/Start; near: Reason"),
        ("GC/Start", "Reason:Inducd", "no value 'Inducd' of GC/Start.Reason; near: Induced"),
    ],
)
@pytest.mark.parametrize("provider", [CLR, CLR.lower()])
def test_what_the_runtime_has_not_is_told_before_anything_is_recorded(
    provider: str, event: str, payload: str | None, line: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        parse_stopping_event(provider, event, payload)
    assert str(caught.value).startswith(line.replace(CLR, provider))


@pytest.mark.parametrize(
    ("payload", "comes"),
    [
        *((payload, True) for payload in ("Reason:Induced", "Reason:induced", "Reason:1", "Depth:2,Reason:Induced")),
        *((payload, True) for payload in ("Type:NonConcurrentGC,Reason:Induced", "Count:1,Reason:Induced")),
        *((payload, False) for payload in ("Reason:LowMemory", "Reason:2", "Type:BackgroundGC,Reason:Induced")),
    ],
)
@pytest.mark.parametrize("provider", [CLR, CLR.upper()])
def test_a_value_may_be_said_by_the_name_that_the_runtime_gives_to_it(provider: str, payload: str, comes: bool) -> None:
    wanted = parse_stopping_event(provider, "GC/Start", payload)
    assert wanted is not None
    seen: list[bool] = []
    out = io.BytesIO()
    with Writer(out) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider=CLR, event_id=1, version=2))
        writer.write_event(1, 1, struct.pack("<IIIIHQ", 1, 2, 1, 0, 9, 0), thread=5)  # count, depth, reason, type
    EventWatcher(wanted, lambda: seen.append(True)).feed(out.getvalue())
    assert seen == [True] * comes


@pytest.mark.parametrize(("version", "seen"), [("1", [True]), ("2", [])])
def test_what_the_runtime_carries_in_an_event_may_stop_a_recording(version: str, seen: list[bool]) -> None:
    wanted = parse_stopping_event(CLR, "GC/CommittedUsage", f"Version:{version}")
    assert wanted is not None
    told: list[bool] = []
    EventWatcher(wanted, lambda: told.append(True)).feed(data_of("gccollect-10.nettrace"))
    assert told == seen


def field(name: str, code: TypeCode) -> Field:
    return Field(name=name, type=FieldType(code=code))


REQUEST = (field("Url", TypeCode.STRING), field("Status", TypeCode.INT32), field("Cached", TypeCode.BOOLEAN))
URLS = ("http://x:80/a,b", "http://x:80/a", "http")


def session(blocks: int = 1) -> bytes:
    """Requests to ``URLS`` with the states 0, 1, 2, the first one cached, in blocks that end with a sequence point."""
    out = io.BytesIO()
    with Writer(out) as writer:
        for number, provider, name in ((1, "Other", "Request"), (2, "Web", "Request"), (3, "Web", "Idle")):
            fields = REQUEST if name == "Request" else ()
            writer.add_metadata(
                Metadata(metadata_id=number, provider=provider, event_id=number, name=name, fields=fields)
            )
        for block in range(blocks):
            writer.write_event(3, 10 * block, b"", thread=5)
            for status, url in enumerate(URLS):
                payload = f"{url}\0".encode("utf-16-le") + bytes([status, 0, 0, 0, status == 0, 0, 0, 0])
                writer.write_event(2, 10 * block + status, payload, thread=5)
            writer.write_sequence_point()
    return out.getvalue()


def watched(wanted: StoppingEvent, data: bytes, piece: int) -> tuple[int, list[str]]:
    """How often it was told, and what is said in the end."""
    told: list[int] = []
    watcher = EventWatcher(wanted, lambda: told.append(1))
    for at in range(0, len(data), piece):
        watcher.feed(data[at : at + piece])
    assert watcher.seen == bool(told)
    return len(told), watcher.notes()


@pytest.mark.parametrize("piece", [7, 1 << 20])
@pytest.mark.parametrize(
    ("event", "payload", "comes"),
    [
        (None, None, True),
        ("Request", None, True),
        ("Idle", None, True),
        ("Nothing", None, False),
        ("Request", "Url:http://x:80/a", True),
        ("Request", 'Url:"http://x:80/a,b"', True),
        ("Request", "Url:http", True),
        ("Request", "Url:http:", False),
        ("Request", "Url://x:80/a", False),
        ("Request", "Status:2", True),
        ("Request", "Status:3", False),
        ("Request", "Status:02", False),
        ("Request", "Cached:True,Status:0", True),
        ("Request", "Cached:False,Status:0", False),
        ("Request", "Cached:True,Status:1", False),
        ("Request", "Status:1,Url:http://x:80/a,Cached:False", True),
    ],
)
def test_a_recording_stops_once_at_the_event_whose_fields_have_all_the_values(
    event: str | None, payload: str | None, comes: bool, piece: int
) -> None:
    wanted = parse_stopping_event("Web", event, payload)
    assert wanted is not None
    count, notes = watched(wanted, session(blocks=3), piece)
    assert count == comes
    came = f"Stopped at {event or 'an event of Web'}."
    missed = f"The stopping event {event} did not come before the recording was ended."
    assert notes == [came if comes else missed]


@pytest.mark.parametrize("provider", ["Other", "We", "Web2"])
def test_an_event_of_another_provider_stops_nothing(provider: str) -> None:
    assert watched(StoppingEvent(provider=provider, event="Request"), session(), 1 << 20)[0] == 0
    if provider != "Other":
        _, notes = watched(StoppingEvent(provider=provider), session(), 1 << 20)
        assert notes == [f"No event of {provider} came before the recording was ended."]


def test_a_field_that_the_event_has_not_is_told() -> None:
    wanted = StoppingEvent(provider="Web", event="Request", payload=(("Url", "http"), ("State", "1"), ("Code", "1")))
    assert watched(wanted, session(), 7) == (0, ["The stopping event Request has no field Code, State."])
