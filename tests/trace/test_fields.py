"""The fields of several event types together."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pytest
from tests.nettrace import by_hand

from dotnetdiag.events import ListOf, Scalar
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.trace import fields as module
from dotnetdiag.trace.trace import Trace


def test_a_field_of_several_kinds_is_found_in_all_of_them() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        for number, code in ((1, TypeCode.INT32), (2, TypeCode.STRING)):
            field = Field(name="Id", type=FieldType(code=code))
            writer.add_metadata(
                Metadata(metadata_id=number, provider="P", event_id=number, name=f"E{number}", fields=(field,))
            )
        writer.write_event(1, 0, (7).to_bytes(4, "little"), thread=5)
        writer.write_event(2, 1, "seven\0".encode("utf-16-le"), thread=5)
    trace = Trace(out.getvalue())
    for name in ("Id", "id", "payload.Id"):
        assert [event.payload["Id"] for event in trace.events(fields=[name])] == [7, "seven"]
    assert len(trace.events(where="Id == 7 or Id == 'seven'")) == 2


def test_fields_that_differ_in_case_are_told_apart() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        for number, name in ((1, "Flag"), (2, "flag")):
            field = Field(name=name, type=FieldType(code=TypeCode.INT32))
            writer.add_metadata(
                Metadata(metadata_id=number, provider="P", event_id=number, name=f"E{number}", fields=(field,))
            )
            writer.write_event(number, number, number.to_bytes(4, "little"), thread=5)
    trace = Trace(out.getvalue())
    assert [dict(event.payload) for event in trace.events(fields=["flag"])] == [{}, {"flag": 2}]
    assert [dict(event.payload) for event in trace.events(fields=["Flag"])] == [{"Flag": 1}, {}]
    assert [dict(event.payload) for event in trace.events(fields=["FLAG"])] == [{"Flag": 1}, {"flag": 2}]


def patterned(types: int) -> bytes:
    """Event types of one name, each with a structure whose twelve members are texts or GUIDs in a pattern of its own."""

    def fields(pattern: int) -> bytes:
        members = [by_hand.text(chr(97 + k)) + bytes([17 if pattern >> k & 1 else 18]) for k in range(12)]
        inner = struct.pack("<H", 12) + b"".join(struct.pack("<H", len(member)) + member for member in members)
        structure = by_hand.text("s") + b"\1" + inner
        return struct.pack("<HH", 1, len(structure)) + structure

    metadata = by_hand.metadata(*[by_hand.event_type(number + 1, fields=fields(number)) for number in range(types)])
    return by_hand.trace(metadata, by_hand.events(*[by_hand.event(number + 1) for number in range(types)]))


def test_fields_of_many_types_are_compared_with_few(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    common = module._common

    def counting(*columns: Any) -> Any:
        compared.append(columns)
        return common(*columns)

    monkeypatch.setattr(module, "_common", counting)
    steps = []
    for types in (200, 400):
        compared.clear()
        assert len(Trace(patterned(types)).events().joined) == types
        steps.append(len(compared))
    assert steps[1] < 2.5 * steps[0]


def test_types_of_one_name_that_cannot_be_joined_have_columns_of_their_own() -> None:
    whole = Trace(patterned(3))["E"]
    assert whole.fields == ("s", "s (P/E v0)", "s (P/E v0, type 3)")
    assert [len(whole[name]) for name in whole.columns] == [3] * len(whole.columns)
    kinds = [[isinstance(whole[f"{name}.{member}"], Scalar) for member in "ab"] for name in whole.fields]
    assert kinds == [[False, False], [True, False], [False, True]]


def test_lists_of_narrow_and_wide_numbers_are_one_column() -> None:
    out = io.BytesIO()
    with Writer(out) as writer:
        for version, code, size in ((1, TypeCode.INT32, 4), (2, TypeCode.INT64, 8)):
            field = Field(name="Sizes", type=FieldType(code=TypeCode.ARRAY, element=FieldType(code=code)))
            writer.add_metadata(
                Metadata(metadata_id=version, provider="P", event_id=1, name="E", version=version, fields=(field,))
            )
            values = b"".join(value.to_bytes(size, "little", signed=True) for value in (-version, version))
            writer.write_event(version, version, struct.pack("<H", 2) + values, thread=5)
    whole = Trace(out.getvalue())["E"]
    assert whole["Sizes"].to_pylist() == [[-1, 1], [-2, 2]]
    for column in (whole["Sizes"], whole[:1]["Sizes"]):  # of one version too
        assert isinstance(column, ListOf)
        assert isinstance(column.child, Scalar)
        assert column.child.values.dtype == np.int64
