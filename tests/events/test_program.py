"""Programs: what is made of layouts, and what their output may take."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from tests.events.help import decoded, schema_of

from dotnetdiag.errors import FormatError
from dotnetdiag.events import decode, decoding, program
from dotnetdiag.events.layout import Kind, Layout, SchemaField, parse_fields
from dotnetdiag.events.operations import Op

pytestmark = pytest.mark.usefixtures("kernels_both_ways")


def operations(text: str, selection: tuple[str, ...] | None = None) -> list[tuple[Op, int, int, int]]:
    """(operation, size, slot, where it leads) of the program of a field list."""
    ops = program.build(parse_fields(text), 8, selection).ops
    return [(Op(one["code"]), int(one["size"]), int(one["slot"]), int(one["behind"])) for one in ops]


def test_scalars_that_stand_together_at_top_level_are_a_block() -> None:
    assert operations("a:u1,b:u2,s:z16,l:{c:u1,:pad3,d:z8}*u16,e:u4,:pad9,p:ptr,v:vu") == [
        (Op.BLOCK, 3, -1, 3),
        (Op.SCALAR, 1, 0, 0),
        (Op.SCALAR, 2, 1, 0),
        (Op.Z16, 0, 2, 0),
        (Op.LIST, 5, 3, 8),
        (Op.SCALAR, 1, -1, 0),
        (Op.SCALAR, 3, -1, 0),
        (Op.Z8, 0, -1, 0),
        (Op.BLOCK, 21, -1, 12),
        (Op.SCALAR, 4, 4, 0),
        (Op.SCALAR, 9, -1, 0),
        (Op.SCALAR, 8, 5, 0),
        (Op.VARUINT, 0, 6, 0),
    ]


def test_every_value_at_top_level_has_its_number_and_every_count_its_register() -> None:
    text = "a:u1,v:vu,w:vi,z:z16,l:{n:u1,m:u1,x:z8*n,y:u1*m}*u16,:pad2,b:u1*a,c:u1*v,s:{d:u1,e:ptr},f:bin*u32"
    made = program.build(parse_fields(text), 8)
    outside = [int(one["ordinal"]) for one in made.ops if one["slot"] >= 0 or one["code"] == Op.SCALAR]
    assert sorted(set(outside)) == list(range(11))
    assert (made.values, made.registers) == (11, 4)
    assert [node.ordinal for node in made.nodes] == [0, 1, 2, 3, 4, 6, 7, 8, 10]


def test_a_program_of_selected_fields_ends_behind_the_last_of_them() -> None:
    text = "a:u1,l:{c:u1,m:{d:z8}*u16}*u16,b:u2,c:z8"
    assert [code for code, *_ in operations(text, ("l",))] == [
        Op.BLOCK, Op.SCALAR, Op.LIST, Op.SCALAR, Op.LIST, Op.Z8,
    ]  # fmt: skip
    assert operations(text, ("a",)) == [(Op.BLOCK, 1, -1, 2), (Op.SCALAR, 1, 0, 0)]
    assert operations(text, ()) == []
    complete = {name: program.build(parse_fields(text), 8, (name,)).complete for name in "albc"}
    assert complete == {"a": False, "l": False, "b": False, "c": True}


def test_a_count_stands_in_front_of_what_it_counts() -> None:
    with pytest.raises(FormatError, match="v is counted by n, which is not in front of it"):
        program.build(parse_fields("v:u1*n,n:u1"), 8)


def test_an_element_costs_its_output_its_offsets_and_its_row() -> None:
    made = program.build(parse_fields("a:u1,b:guid,s:z16"), 8)
    assert (made.row_bytes, made.element_bytes) == (33, 33 + 3 * 8 + 48)


def counted(number: int) -> bytes:
    return struct.pack("<H", number) + bytes(number)


COST = 1 + 8 + 48
"""Of an element of one byte."""


def test_lists_of_one_call_cost_what_all_their_elements_cost_payload_by_payload() -> None:
    lists = program.build(parse_fields("y:u1,x:{i:{a:u1}*u16,s:z8}*u16"), 8)
    outer = 16 + 16 + 2 * 8 + 48
    payloads = [
        b"\7\2\0" + counted(3) + b"\0" + counted(5) + b"a\0",
        b"\7\0\0",
        b"\7\1\0" + counted(11) + b"\0",
        b"\7\3\0" + counted(0) + b"\0" + counted(1) + b"\0" + counted(2) + b"\0",
    ]
    buffer = np.frombuffer(b"".join(payloads), np.uint8)
    ends = np.cumsum([len(payload) for payload in payloads])
    starts = ends - [len(payload) for payload in payloads]

    def run(room: int) -> program.Room:
        made = program.Room(room)
        program.run(lists, buffer, starts, ends, room=made)
        return made

    with pytest.raises(program.NoRoom) as none:
        run(6 * outer - 1)
    assert (none.value.costs.tolist(), none.value.left) == ([outer * count for count in (2, 0, 1, 3)], 6 * outer - 1)
    with pytest.raises(program.NoRoom, match=f"{22 * COST} bytes of values, {22 * COST - 1} are left") as inner:
        run(6 * outer + 22 * COST - 1)
    assert (inner.value.costs.tolist(), inner.value.left) == ([COST * count for count in (8, 0, 11, 3)], 22 * COST - 1)
    assert run(6 * outer + 22 * COST).left == 0


def test_lists_have_64_megabytes_and_64_times_the_payloads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (decoding.NESTED_LIMIT, decoding.OUTPUT_RATIO) == (64 << 20, 64)
    payload = counted(60_000)
    for limit, fits in ((60_000 * COST - 64 * 60_002, True), (60_000 * COST - 64 * 60_002 - 1, False)):
        monkeypatch.setattr(decoding, "NESTED_LIMIT", limit)
        table = decoded(schema_of("x:{a:u1}*u16"), [payload])
        assert (table.undecodable is None) is fits


def test_payloads_that_take_too_much_and_payloads_that_are_broken_are_both_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decoding, "NESTED_LIMIT", 1 << 14)
    payloads = [counted(1), counted(60_000)[:-9], counted(50_000), counted(2), counted(9)[:-1]]
    monkeypatch.setattr(decoding, "OUTPUT_RATIO", 0)
    table = decoded(schema_of("x:{a:u1}*u16"), payloads)
    assert table.undecodable is not None
    assert table.undecodable.tolist() == [False, True, True, False, True]
    assert table["x"].to_pylist() == [[{"a": 0}], None, None, [{"a": 0}] * 2, None]


def test_128_plans_are_kept() -> None:
    assert decoding._program.cache_info().maxsize == 128


@pytest.mark.parametrize("numbers", [(100, 100), (1, 200), (0, 30), (10, 20, 300, 0), (250, 5, 5, 5)])
def test_each_payload_has_its_share_half_by_bytes_and_half_by_heads(
    numbers: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "OUTPUT_RATIO", 0)
    payloads = [counted(number) for number in numbers]
    weights = [Fraction(len(payload) + 1, sum(map(len, payloads)) + len(payloads)) for payload in payloads]
    shares = [(weight + Fraction(1, len(payloads))) / 2 for weight in weights]
    total = COST * sum(numbers)
    edges = {
        int(COST * number / share) + more for number, share in zip(numbers, shares, strict=True) for more in (0, 1)
    }
    for limit in sorted(edges | {total, total - 1, total // 2, 1}):
        monkeypatch.setattr(decoding, "NESTED_LIMIT", limit)
        table = decoded(schema_of("x:{a:u1}*u16"), payloads)
        refused = [
            total > limit and COST * number > limit * share for number, share in zip(numbers, shares, strict=True)
        ]
        assert [table["x"].item(row) is None for row in range(len(numbers))] == refused, limit
        assert table.undecodable_count == sum(refused)


@pytest.mark.parametrize(("size", "fields"), [(0, 272), (1, 276), (64, 528)])
def test_fixed_output_has_16_megabytes_256_bytes_for_each_event_and_64_times_the_payloads(
    size: int, fields: int
) -> None:
    rows = 4096
    assert fields * 16 * rows == (16 << 20) + 256 * rows + 64 * size * rows
    schema = schema_of(",".join(f"f{number}:bin*0" for number in range(fields)))
    buffer, offsets, lengths = np.zeros(64, np.uint8), np.zeros(rows, np.int64), np.full(rows, size, np.uint32)
    table = decode(schema, buffer, offsets, lengths)
    assert (len(table.columns), table.undecodable) == (fields, None)
    more = decode(
        schema_of((*schema.fields, SchemaField(name="m", layout=Layout(kind=Kind.U1)))), buffer, offsets, lengths
    )
    assert (more.columns, more.undecodable_count) == ({}, rows)


def test_a_structure_is_there_when_nothing_is_in_it_and_missing_when_what_is_in_it_is() -> None:
    rest = Layout(kind=Kind.STRUCT, fields=(SchemaField(name="r", layout=Layout(kind=Kind.OPAQUE)),))
    fields = (*parse_fields("a:u1,e:{},n:{o:{}},s:{b:u1}"), SchemaField(name="t", layout=rest))
    assert decoded(schema_of(fields), [b"\1", b"\1\2\3"]).to_pylist() == [
        {"a": 1, "e": {}, "n": {"o": {}}, "s": None, "t": None},
        {"a": 1, "e": {}, "n": {"o": {}}, "s": {"b": 2}, "t": {"r": b"\3"}},
    ]
