"""The forms of values in lines of JSON, in which scripts trust."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.nettrace import by_hand
from tests.nettrace.traces import SMALL

from dotnetdiag.events import Bytes, Column, ListOf, Scalar, Struct, Text
from dotnetdiag.events.columns import json_value
from dotnetdiag.events.layout import Kind
from dotnetdiag.nettrace import LabelList
from dotnetdiag.table.texts import number_text, value_texts
from dotnetdiag.trace.json_lines import JsonLines
from dotnetdiag.trace.trace import Trace

HALF = np.array([True, False])
GUIDS = np.frombuffer(bytes(range(32)), "V16")


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (Scalar(np.array([0, 2**64 - 1], np.uint64), None, Kind.U8), ["0", "18446744073709551615"]),
        (Scalar(np.array([-1, 5], np.int32), HALF, Kind.I4), ["-1", "null"]),
        (Scalar(np.array([0.0, 1.5]), None, Kind.F8), ["0", "1.5"]),
        (Scalar(np.array([0.1, 3.0], np.float32), None, Kind.F4), ["0.1", "3"]),
        (Scalar(np.array([math.nan, math.inf]), None, Kind.F8), ['"NaN"', '"Infinity"']),
        (Scalar(np.array([True, False]), None, Kind.BOOL), ["true", "false"]),
        (Scalar(np.array([34, 0x20AC], np.uint16), None, Kind.CHAR), [r'"\""', '"€"']),
        (
            Scalar(np.array([0, 116_444_736_001_234_567]), None, Kind.DATETIME),
            ['"1601-01-01T00:00:00.0000000Z"', '"1970-01-01T00:00:00.1234567Z"'],
        ),
        (
            Scalar(GUIDS, None, Kind.GUID),
            ['"03020100-0504-0706-0809-0a0b0c0d0e0f"', '"13121110-1514-1716-1819-1a1b1c1d1e1f"'],
        ),
        (Text.from_pylist(['a "b"\n', "zażółć 🐍"]), [r'"a \"b\"\n"', '"zażółć 🐍"']),
        (Text.from_pylist([None, ""]), ["null", '""']),
        (Bytes(np.array([0, 2, 2]), np.array([1, 255], np.uint8)), ['"hex:01ff"', '"hex:"']),
        (
            ListOf(np.array([0, 2, 2]), Scalar(np.array([1.0, 2.5]), None, Kind.F8), HALF),
            ["[1,2.5]", "null"],
        ),
        (
            Struct({"a": Scalar(np.array([1, 2]), None, Kind.I8), "b%": Text.from_pylist(["x", "y"])}, 2),
            ['{"a":1,"b%":"x"}', '{"a":2,"b%":"y"}'],
        ),
        (Struct({}, 2), ["{}", "{}"]),
    ],
)
def test_values_have_these_forms(column: Column, expected: list[str]) -> None:
    texts = [str(text) for text in value_texts(column)]
    assert texts == expected
    assert [json.loads(text) for text in texts] == [json_value(value) for value in column.to_pylist()]


@given(st.floats(allow_nan=False))
def test_numbers_read_back_as_what_they_were(value: float) -> None:
    text = number_text(value)
    read = json.loads(text, parse_constant=lambda _: pytest.fail("no such constant in JSON"))
    assert (float(read) == value) if math.isfinite(value) else isinstance(read, str)
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        assert "." not in text


def lines(name: str) -> list[dict[str, Any]]:
    trace = Trace(SMALL[name])
    maker = JsonLines(trace.raw)
    return [json.loads(line) for window in trace.events().windows() for line in maker.lines(window)]


def test_bytes_that_nothing_describes_stand_in_the_payload_with_their_place() -> None:
    found = [line for line in lines("nettrace 5") if line["provider"] == "Native"]
    assert [line["payload"] for line in found] == [{"bytes@0": "hex:" + "78" * 300}, {"bytes@0": "hex:79"}]


def test_payload_that_breaks_keeps_its_bytes_and_the_rest_of_the_event() -> None:
    found = [line for line in lines("nettrace 5") if line["event"] == "Plain"]
    assert found[0]["payload"] == {"number": 0x64636261, "text": None, "bytes@0": "hex:61626364656667"}
    empty = next(line for line in found if line["bytes"] == 0)
    assert empty["payload"] == {"number": None, "text": None}


def test_label_lists_override_what_the_metadata_says() -> None:
    found = [line for line in lines("nettrace 6") if line["event"] == "Plain"]
    assert [line["level"] for line in found] == [2] + [4] * (len(found) - 1)
    assert found[0]["activity"] == "11111111-2222-3333-4444-555555555555"
    assert found[0]["tid"] == 4100
    assert found[0]["pid"] == 77


class Counted(dict[int, LabelList]):
    """Counts how often an entry is looked at."""

    steps = 0

    def __contains__(self, key: object) -> bool:
        self.steps += 1
        return super().__contains__(key)

    def __getitem__(self, key: int) -> LabelList:
        self.steps += 1
        return super().__getitem__(key)

    def get(self, key: int, default: Any = None) -> Any:
        self.steps += 1
        return super().get(key, default)

    def __iter__(self) -> Iterator[int]:
        self.steps += len(self)
        return super().__iter__()

    def items(self) -> Any:
        self.steps += len(self)
        return super().items()


@pytest.mark.parametrize("lists", [300, 3000])
def test_of_label_lists_only_those_that_events_have_are_looked_at(monkeypatch: pytest.MonkeyPatch, lists: int) -> None:
    """And payloads become texts once, however many label lists the events of a type have."""
    used = [1, 5, 5, 100, 0, 300, 1]
    data = by_hand.trace(
        by_hand.metadata(by_hand.event_type(1), by_hand.event_type(2, "F")),
        by_hand.labels(1, *[b"\x88" + struct.pack("<Q", keywords) for keywords in range(1, lists + 1)]),
        by_hand.events(*[by_hand.event(kind, labels=index) for kind in (1, 2) for index in used]),
    )
    trace = Trace(data)
    looked_at = trace.raw.overrides = Counted(trace.raw.overrides)
    assert len(looked_at) == lists
    payloads: list[Any] = []
    payload_of = JsonLines._payload

    def counting(*args: Any) -> Any:
        payloads.append(args)
        return payload_of(*args)

    monkeypatch.setattr(JsonLines, "_payload", counting)
    (window,) = trace.events().windows()
    found = [json.loads(line)["keywords"] for line in JsonLines(trace.raw).lines(window)]
    assert found == [f"0x{index:x}" for index in used] * 2
    assert window["keywords"].to_pylist() == used * 2
    assert looked_at.steps < 50
    assert len(payloads) == 2


def test_a_process_that_the_file_does_not_name_is_null() -> None:
    assert {line["pid"] for line in lines("NetPerf 2")} == {None}
    assert {line["pid"] for line in lines("NetPerf 3")} == {77}


def test_names_of_fields_are_escaped() -> None:
    names = ['say "hi"', "100%s", "back\\slash", "line\nbreak", "plain", "größe"]
    fields = b"".join(struct.pack("<H", len(by_hand.text(name)) + 1) + by_hand.text(name) + b"\x06" for name in names)
    data = by_hand.trace(
        by_hand.metadata(by_hand.event_type(1, fields=struct.pack("<H", len(names)) + fields)),
        by_hand.events(by_hand.event(1)[:-1] + by_hand.varuint(len(names)) + bytes(range(len(names)))),
    )
    trace = Trace(data)
    ((line,),) = (JsonLines(trace.raw).lines(window) for window in trace.events().windows())
    assert json.loads(line)["payload"] == {name: value for value, name in enumerate(names)}
