"""Processed profiles of the Firefox Profiler: by a schema after its documented types, and every number points to something."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.analysis.reference import opened
from tests.analysis.test_cpu import merged
from tests.analysis.traces import managed, runtime_is, traced
from tests.export.made import DEEP, SMALL, profile_of, written
from tests.export.tracks_made import tracks_made
from tests.shared import needs

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.tracks import Tracks, tracks
from dotnetdiag.export import FORMATS
from dotnetdiag.export.texts import clean

INDEX = {"type": "integer", "minimum": 0}
NUMBER, TEXT, TRUTH = {"type": "number"}, {"type": "string"}, {"type": "boolean"}


def or_null(one: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [one, {"type": "null"}]}


def columns(more: dict[str, Any] | None = None, **fields: dict[str, Any]) -> dict[str, Any]:
    listed = {name: {"type": "array", "items": one} for name, one in fields.items()}
    properties = {"length": INDEX, **listed, **(more or {})}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


MARKER_DATA = {"type": "object", "properties": {"type": {"const": "dotnet"}}, "required": ["type", "name", "detail"]}
THREAD = {
    "type": "object",
    "properties": {
        "name": TEXT,
        "pid": TEXT,
        "tid": {"type": "integer"},
        "isMainThread": TRUTH,
        "processType": {"const": "default"},
        "registerTime": NUMBER,
        "unregisterTime": or_null(NUMBER),
        "processStartupTime": NUMBER,
        "processShutdownTime": or_null(NUMBER),
        "pausedRanges": {"type": "array"},
        "stringArray": {"type": "array", "items": TEXT, "uniqueItems": True},
        "samples": columns(
            {"weightType": {"enum": ["samples", "tracing-ms", "bytes"]}},
            stack=or_null(INDEX),
            time=NUMBER,
            weight=NUMBER,
        ),
        "markers": columns(
            name=INDEX,
            startTime=NUMBER,
            endTime=or_null(NUMBER),
            phase={"enum": [0, 1]},
            category=INDEX,
            data=MARKER_DATA,
        ),
        "stackTable": columns(prefix=or_null(INDEX), frame=INDEX, category=INDEX, subcategory=INDEX),
        "frameTable": columns(
            address={"const": -1},
            inlineDepth=INDEX,
            category=or_null(INDEX),
            subcategory=or_null(INDEX),
            func=INDEX,
            nativeSymbol={"type": "null"},
            innerWindowID=or_null(INDEX),
            implementation=or_null(INDEX),
            line=or_null(INDEX),
            column=or_null(INDEX),
        ),
        "funcTable": columns(
            name=INDEX,
            isJS=TRUTH,
            relevantForJS=TRUTH,
            resource={"type": "integer", "minimum": -1},
            fileName=or_null(INDEX),
            lineNumber=or_null(INDEX),
            columnNumber=or_null(INDEX),
        ),
        "resourceTable": columns(lib=or_null(INDEX), name=INDEX, host=or_null(INDEX), type=INDEX),
        "nativeSymbols": columns(libIndex=INDEX, address=INDEX, name=INDEX, functionSize=or_null(INDEX)),
    },
}
THREAD["required"] = list(THREAD["properties"])
SCHEMA = {
    "type": "object",
    "properties": {
        "meta": {
            "type": "object",
            "properties": {
                "interval": {"type": "number", "exclusiveMinimum": 0},
                "startTime": NUMBER,
                "version": INDEX,
                "preprocessedProfileVersion": {"const": 48},
                "processType": {"const": 0},
                "stackwalk": {"enum": [0, 1]},
                "product": TEXT,
                "symbolicated": TRUTH,
                "categories": {"type": "array", "contains": {"properties": {"name": {"const": "Other"}}}},
                "markerSchema": {"type": "array"},
                "extensions": {"type": "object"},
            },
        },
        "libs": {"type": "array"},
        "threads": {"type": "array", "items": THREAD},
        "counters": {"type": "array"},
    },
}
SCHEMA["required"] = list(SCHEMA["properties"])
LENGTHS = ("samples", "markers", "stackTable", "frameTable", "funcTable", "resourceTable", "nativeSymbols")


def checked(data: bytes) -> dict[str, Any]:
    """The profile; all lengths are those of the columns, all numbers are of rows that are there."""
    made: dict[str, Any] = json.loads(data)
    Draft202012Validator(SCHEMA).validate(made)
    for thread in made["threads"]:
        for name in LENGTHS:
            table = thread[name]
            assert {len(column) for column in table.values() if isinstance(column, list)} == {table["length"]}
        sizes = {name: thread[name]["length"] for name in LENGTHS}
        assert all(one is None or one < sizes["stackTable"] for one in thread["samples"]["stack"])
        assert all(above is None or above < at for at, above in enumerate(thread["stackTable"]["prefix"]))
        assert all(one < sizes["frameTable"] for one in thread["stackTable"]["frame"])
        assert all(one < sizes["funcTable"] for one in thread["frameTable"]["func"])
        assert all(one < sizes["resourceTable"] for one in thread["funcTable"]["resource"])
        texts = thread["funcTable"]["name"] + thread["resourceTable"]["name"] + thread["markers"]["name"]
        assert all(one < len(thread["stringArray"]) for one in texts)
        categories = [*thread["frameTable"]["category"], *thread["markers"]["category"]]
        assert all(one < len(made["meta"]["categories"]) for one in categories)
        assert thread["samples"]["time"] == sorted(thread["samples"]["time"])
    assert all(made["threads"][one["mainThreadIndex"]]["isMainThread"] for one in made["counters"])
    return made


def stacks_of(thread: dict[str, Any]) -> list[tuple[str, ...]]:
    """Of each sample, outermost first."""
    table, found = thread["stackTable"], []
    for stack in thread["samples"]["stack"]:
        names = []
        while stack is not None:
            function = thread["frameTable"]["func"][table["frame"][stack]]
            names.append(thread["stringArray"][thread["funcTable"]["name"][function]])
            stack = table["prefix"][stack]
        found.append(tuple(reversed(names)))
    return found


def checked_tracks(made: Tracks) -> dict[str, Any]:
    out = io.BytesIO()
    FORMATS["firefox"].write(made, out)
    return checked(out.getvalue())


def test_samples_of_threads_have_their_stacks_and_weights() -> None:
    made = checked(written(profile_of(*SMALL, module=""), "firefox"))
    one, other = (thread for thread in made["threads"] if not thread["isMainThread"])
    assert (one["tid"], other["tid"]) == (1, 2)
    stacks = stacks_of(one)
    assert stacks[0] == (*(f"ManagedModule!App.{name}()" for name in ("Main", "Work", "Inner")), "CPU_TIME")
    assert stacks[2][-1] == "UNMANAGED_CODE_TIME"
    assert one["samples"]["weight"] == [10, 5, 5, 10]
    assert one["samples"]["weightType"] == "tracing-ms"


def test_waiting_is_idle_to_the_viewer() -> None:
    made = checked(written(profile_of(*SMALL, module=""), "firefox"))
    thread = next(one for one in made["threads"] if one["tid"] == 1)
    colors = [made["meta"]["categories"][one]["color"] for one in thread["stackTable"]["category"]]
    leaves = [colors[one] for one in thread["samples"]["stack"]]
    assert leaves[2] == "transparent"
    assert "transparent" not in (leaves[0], leaves[1], leaves[3])


def test_any_text_is_shown_as_it_is() -> None:
    source = tracks_made()
    made = checked_tracks(source)
    thread = next(one for one in made["threads"] if one["tid"] == 1 and not one["isMainThread"])
    assert thread["name"] == "lone \ufffd"
    expected = [clean(text) or "Exceptions" for text in source.slices[2].label.texts]
    assert [one["name"] for one in thread["markers"]["data"]] == expected
    assert max(map(len, stacks_of(next(one for one in made["threads"] if one["tid"] == 2)))) == DEEP + 1


def test_threads_are_called_as_in_their_samples_where_the_recording_names_none() -> None:
    samples = profile_of(*SMALL, module="", names={1: "sampled", 2: "of both"})
    names = {one.key: name for one, name in zip(samples.threads, ("", "recorded"), strict=True)}
    made = checked_tracks(Tracks(samples=samples, threads=names, end_ns=1))
    assert [one["name"] for one in made["threads"] if not one["isMainThread"]] == ["sampled", "recorded"]
    alone = checked(written(profile_of(*SMALL, module=""), "firefox"))
    assert [one["name"] for one in alone["threads"] if not one["isMainThread"]] == ["Thread 1", "Thread 2"]


def test_what_is_of_the_process_is_on_its_own_line_and_what_has_no_length_is_an_instant() -> None:
    made = checked_tracks(tracks_made())
    (main,) = (one for one in made["threads"] if one["isMainThread"])
    markers = main["markers"]
    assert {main["stringArray"][one] for one in markers["name"]} == {"Requests"}
    assert markers["phase"] == [1] * 5
    assert markers["startTime"][:2] == [0, 5]
    assert markers["endTime"][:2] == [50, 20]
    thread = next(one for one in made["threads"] if one["tid"] == 1 and not one["isMainThread"])
    assert set(thread["markers"]["phase"]) == {0}
    assert set(thread["markers"]["endTime"]) == {None}


def test_each_process_of_a_recording_has_its_own_name() -> None:
    seen = [
        (managed(0, 1, "P.A"), managed(1, 1, "P.A"), runtime_is(2, 1, "10.0.14", f"dotnet {name}.dll")) for name in "ab"
    ]
    profile = cpu(merged(*(traced(*one) for one in seen)))
    made = json.loads(written(profile, "firefox"))
    expected = {"77": "dotnet a.dll", "10000077": "dotnet b.dll"}
    assert {one["pid"]: one["processName"] for one in made["threads"]} == expected
    events = json.loads(written(profile, "chromium"))["traceEvents"]
    assert {str(one["pid"]): one["args"]["name"] for one in events if one["name"] == "process_name"} == expected
    packets = written(profile, "perfetto")
    assert [packets.count(name.encode()) for name in expected.values()] == [1, 1]


@needs("fixtures", "the recordings")
@pytest.mark.parametrize("name", ["default-10", "web-10"])
def test_all_of_a_recording_is_there(name: str) -> None:
    trace = opened(name)
    source = tracks(trace)
    made = checked_tracks(source)
    assert sum(one["samples"]["length"] for one in made["threads"]) == len(cpu(trace))
    assert sum(one["markers"]["length"] for one in made["threads"]) == sum(map(len, source.slices))


def test_a_profile_of_nothing_has_the_line_of_its_process() -> None:
    """The profiler refuses one without threads."""
    made = checked_tracks(tracks(traced(runtime_is(1, 1, "10.0.0"))))
    (thread,) = made["threads"]
    assert (thread["isMainThread"], thread["samples"]["length"], thread["markers"]["length"]) == (True, 0, 0)
