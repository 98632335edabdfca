"""Names: as TraceEvent 3.1.23 printed them for a file made to ask it, and provider ids as the document has them."""

from __future__ import annotations

from uuid import UUID

import pytest

from dotnetdiag.events.names import event_name, implied_opcode, matches, provider_guid


@pytest.mark.parametrize(
    ("name", "opcode", "shown"),
    [
        ("RequestStart", None, "Request/Start"),
        ("RequestStart", 0, "Request/Start"),
        ("requeststart", None, "request/Start"),
        ("REQUESTSTOP", None, "REQUEST/Stop"),
        ("Restart", None, "Re/Start"),
        ("Start", None, "/Start"),
        ("Stop", 2, "/Stop"),
        ("Foo/Start", None, "Foo//Start"),
        ("FooStartX", None, "FooStartX"),
        ("Foo", None, "Foo"),
        ("Foo", 1, "Foo/Start"),
        ("RequestStart", 2, "RequestStart/Stop"),
        ("Foo", 3, "Foo/DataCollectionStart"),
        ("Foo", 4, "Foo/DataCollectionStop"),
        ("Foo", 5, "Foo/Extension"),
        ("Foo", 6, "Foo/Reply"),
        ("Foo", 7, "Foo/Resume"),
        ("Foo", 8, "Foo/Suspend"),
        ("Foo", 10, "Foo/10"),
        ("FooDataCollectionStart", 3, "FooDataCollectionStart/DataCollectionStart"),
        ("FooResume", 7, "FooResume/Resume"),
        ("Foo", 9, "Foo/Transfer"),
        ("TestEvent3", 24, "TestEvent3/24"),
        ("FooReceive", 240, "FooReceive/240"),
        ("", None, "EventID(7)"),
    ],
)
def test_an_event_is_called_as_traceevent_calls_it(name: str, opcode: int | None, shown: str) -> None:
    assert event_name(name, opcode, 7) == shown


def test_a_name_implies_its_opcode() -> None:
    assert [implied_opcode(name) for name in ("AStart", "aSTOP", "Started", "")] == [1, 2, 0, 0]


@pytest.mark.parametrize(
    ("name", "guid"),
    [
        ("Universal.System", "8c107b6c-79f8-5231-4de6-2a0e20a3f562"),
        ("Universal.Events", "bc5e5d63-9799-5873-33d9-fba8316cef71"),
        ("System.Runtime", "49592c0f-5a05-516d-aa4b-a64e02026c89"),
        ("system.runtime", "49592c0f-5a05-516d-aa4b-a64e02026c89"),
        ("Microsoft-Windows-DotNETRuntime", "e13c0d23-ccbc-4e12-931b-d9cc2eee27e4"),
        ("Microsoft-DotNETCore-SampleProfiler", "3c530d44-97ae-513a-1e6d-783e8f8e03a9"),
    ],
)
def test_provider_ids_follow_the_eventsource_rule_or_are_fixed(name: str, guid: str) -> None:
    assert provider_guid(name) == UUID(guid)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("GC/Start", True),
        ("gc/start", True),
        ("GCStart", True),
        ("GCStart_V2", True),
        (" P/GC/Start ", True),
        ("P/GCStart_V2", True),
        ("GCStart_V1", False),
        ("GC", False),
        ("", False),
        ("Q/GC/Start", False),
    ],
)
def test_either_name_means_the_event(text: str, meant: bool) -> None:
    assert matches(text, "P", "GC/Start", "GCStart_V2") is meant


@pytest.mark.parametrize("name", ["E ", " E", "E\x85", "E\n", "E\u3000"])
def test_a_name_that_ends_in_white_space_means_its_event(name: str) -> None:
    assert matches(name, "P", name, name)
