"""Payloads → columns: every type, payloads that are short, long, broken or hostile, selection, inference."""

from __future__ import annotations

import struct
import tracemalloc
from decimal import Decimal
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.events.help import decoded, schema_of

from dotnetdiag.errors import FormatError, UnknownName, UsageError
from dotnetdiag.events import Scalar, Source, Table, concat_tables, decode, decoding, kernels, layout, program, resolve
from dotnetdiag.events.layout import Count, Kind, Layout, SchemaField
from dotnetdiag.nettrace.metadata import Field, FieldType, Metadata, TypeCode

pytestmark = pytest.mark.usefixtures("kernels_both_ways")


def z16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + b"\0\0"


def vu(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


GUID = bytes(range(16))

SCALARS: list[tuple[str, bytes, Any]] = [
    ("u1", b"\xfe", 254),
    ("u2", b"\xfe\xff", 65534),
    ("u4", b"\xfe\xff\xff\xff", 0xFFFFFFFE),
    ("u8", b"\xfe" + b"\xff" * 7, 0xFFFFFFFFFFFFFFFE),
    ("i1", b"\xfe", -2),
    ("i2", b"\xfe\xff", -2),
    ("i4", b"\xfe\xff\xff\xff", -2),
    ("i8", b"\xfe" + b"\xff" * 7, -2),
    ("f4", struct.pack("<f", 0.1), 0.1),
    ("f8", struct.pack("<d", 0.1), 0.1),
    ("bool", b"\0\1\0\0", True),
    ("bool8", b"\2", True),
    ("ptr", b"\1" + b"\0" * 6 + b"\x80", 0x8000000000000001),
    ("guid", GUID, UUID(bytes_le=GUID)),
    ("date", struct.pack("<q", 133000000000000001), "2022-06-18T04:26:40.0000001Z"),
    ("z16", z16("zażółć 🐍"), "zażółć 🐍"),
    ("z16", z16(""), ""),
    ("z16", z16("a\ud800b\udfffc"), "a\ud800b\udfffc"),
    ("z16", z16("exactly eight more"), "exactly eight more"),
    ("z8", b"ansi\0", "ansi"),
    ("s8", b"\x03\0\xc5\xbc\xff", "ż\ufffd"),
    ("s8", b"\x02\0\x7f\x80", "\x7f\ufffd"),
    ("vu", b"\x80\x01", 128),
    ("vu", vu(2**64 - 1), 2**64 - 1),
    ("vi", b"\x03", -2),
    ("vi", vu(2**64 - 1), -(2**63)),
    ("bin*u32", b"\2\0\0\0\1\xff", b"\1\xff"),
    ("u4*u16", b"\2\0\1\0\0\0\2\0\0\0", [1, 2]),
    ("guid*u16", b"\1\0" + GUID, [UUID(bytes_le=GUID)]),
    ("bool8*2", b"\1\0", [True, False]),
    ("z16*u16", b"\2\0" + z16("one") + z16(""), ["one", ""]),
    ("{}*u16", b"\3\0", [{}, {}, {}]),
    ("{a:u1,:pad2,b:u2}*u16", b"\2\0\1..\2\0\3..\4\0", [{"a": 1, "b": 2}, {"a": 3, "b": 4}]),
    (
        "{n:u1,v:u2*n,s:z16}*u16",
        b"\2\0\1\7\0" + z16("x") + b"\0" + z16("y"),
        [{"n": 1, "v": [7], "s": "x"}, {"n": 0, "v": [], "s": "y"}],
    ),
    (
        "{n:u1,v:u1*n,f:u1*7,s:z8}*u16",
        b"\1\0\1\5abcdefgx\0",
        [{"n": 1, "v": [5], "f": list(b"abcdefg"), "s": "x"}],
    ),
    ("{a:u1,b:{c:z16,d:u1}}", b"\1" + z16("c") + b"\2", {"a": 1, "b": {"c": "c", "d": 2}}),
]


@pytest.mark.parametrize(
    ("text", "payload", "value"), SCALARS, ids=[f"{text}-{i}" for i, (text, *_) in enumerate(SCALARS)]
)
def test_a_value_of_every_type_between_others(text: str, payload: bytes, value: Any) -> None:
    table = decoded(schema_of(f"a:u1,x:{text},b:u4"), [b"\7" + payload + b"\1\0\0\0"] * 3)
    assert table.row(2) == {"a": 7, "x": value, "b": 1}
    assert table.to_pylist() == [table.row(0)] * 3
    assert table.undecodable is None
    assert table.remainder is None


@pytest.mark.parametrize(
    ("text", "payload", "value"), SCALARS, ids=[f"{text}-{i}" for i, (text, *_) in enumerate(SCALARS)]
)
def test_a_payload_cut_anywhere_costs_only_what_is_cut(text: str, payload: bytes, value: Any) -> None:
    whole = b"\7" + payload + b"\1\0\0\0"
    schema = schema_of(f"a:u1,x:{text},b:u4")
    cuts = [whole[:size] for size in range(len(whole))]
    table = decoded(schema, [*cuts, whole])
    assert table.row(len(whole)) == {"a": 7, "x": value, "b": 1}
    for row, cut in enumerate(cuts):
        broken = table.undecodable is not None and bool(table.undecodable[row])
        clean = len(cut) in (0, 1, 1 + len(payload)) or (
            text.startswith("{a:u1,b") and 1 < len(cut) <= 1 + len(payload)
        )
        assert broken or clean, cut
        if broken:
            assert table.remainder is not None
            assert table.remainder.item(row) == cut
        assert table["b"].item(row) is None
        assert table["a"].item(row) == (7 if cut else None)


def test_a_payload_longer_than_its_fields_keeps_the_rest() -> None:
    table = decoded(schema_of("a:u4"), [struct.pack("<II", 1, 2), struct.pack("<I", 3)])
    assert table.to_pylist() == [{"a": 1}, {"a": 3}]
    assert table.remainder is not None
    assert table.remainder.to_pylist() == [b"\2\0\0\0", b""]


def test_one_bad_payload_does_not_touch_the_others() -> None:
    good = struct.pack("<I", 1) + z16("good")
    table = decoded(schema_of("a:u4,s:z16"), [good, good[:-1], good])
    assert table["s"].to_pylist() == ["good", None, "good"]
    assert table["a"].to_pylist() == [1, 1, 1]
    assert table.undecodable_count == 1


def test_more_rows_than_a_batch_of_the_kernel() -> None:
    payloads = [struct.pack("<IH", row, row % 5) + b"x" * (row % 5) + z16(str(row)) for row in range(2500)]
    table = decoded(schema_of("n:u4,b:bin*u16,s:z16"), payloads)
    assert table["n"].to_pylist() == list(range(2500))
    assert table["s"].to_pylist() == [str(row) for row in range(2500)]
    assert table["b"].item(2499) == b"xxxx"


def test_no_rows_give_empty_columns() -> None:
    table = decoded(schema_of("a:u4,s:z16,l:z16*u16"), [])
    assert (len(table), table.to_pylist(), list(table.columns)) == (0, [], ["a", "s", "l"])


def test_only_selected_fields_are_made() -> None:
    fields = "a:u1,s:z16,o:{x:u1,y:z16},n:u1,v:{p:u1,q:z16}*n,end:u4"
    payload = b"\1" + z16("s") + b"\2" + z16("y") + b"\1\3" + z16("q") + b"\4\0\0\0"
    schema = schema_of(fields)
    everything = decoded(schema, [payload])
    assert everything.row(0) == {
        "a": 1, "s": "s", "o": {"x": 2, "y": "y"}, "n": 1, "v": [{"p": 3, "q": "q"}], "end": 4,
    }  # fmt: skip
    for name in everything.columns:
        table = decoded(schema, [payload], fields=[name])
        assert table.row(0) == {name: everything.row(0)[name]}
    assert decoded(schema, [payload], fields=["o.y", "end"]).row(0) == {"o": {"y": "y"}, "end": 4}
    with pytest.raises(UnknownName, match="no such"):
        decoded(schema, [payload], fields=["end", "no such"])
    assert decoded(schema, [payload], fields=[]).row(0) == {}


def test_members_of_an_unnamed_structure_are_offered_both_ways() -> None:
    schema = schema_of(":{Count:i4,Payload:{Name:z16}}")
    table = decoded(schema, [struct.pack("<i", 5) + z16("n")])
    assert table.row(0) == {"": {"Count": 5, "Payload": {"Name": "n"}}}
    assert table["Count"].item(0) == 5
    assert table["Payload.Name"].item(0) == "n"
    assert list(table.flat) == ["Count", "Payload"]
    assert "Payload.Nothing" not in table
    assert decoded(schema, [struct.pack("<i", 5) + z16("n")], fields=["Payload.Name"]).row(0) == {
        "": {"Payload": {"Name": "n"}}
    }
    with pytest.raises(KeyError):
        table["Nothing"]


def test_pointers_of_32_bits_are_numbers_of_64_as_those_of_others() -> None:
    column = decoded(schema_of("p:ptr,q:u1"), [b"\xff\xff\xff\xff\1"], pointer_size=4)["p"]
    assert isinstance(column, Scalar)
    assert (column.values.dtype, column.values.tolist()) == (np.uint64, [0xFFFFFFFF])


def test_fields_of_one_name_are_told_apart() -> None:
    assert decoded(schema_of("a:u1,a:u1,a:u1"), [b"\1\2\3"]).row(0) == {"a": 1, "a#2": 2, "a#3": 3}


def test_lazy_texts_are_the_same_texts() -> None:
    payloads = [z16("plain"), z16("zażółć"), b"x"]
    lazy = decoded(schema_of("s:z16"), payloads, lazy_text=True)
    assert lazy.take([1, 2]).to_pylist() == [{"s": "zażółć"}, {"s": None}]
    assert lazy.to_pylist() == decoded(schema_of("s:z16"), payloads).to_pylist()


def test_tables_without_damage_and_remainder_join_to_one_without() -> None:
    schema = schema_of("a:u1,s:z16")
    one, two = decoded(schema, [b"\1" + z16("x")]), decoded(schema, [b"\2" + z16("y")])
    joined = concat_tables([one, two])
    assert (joined.to_pylist(), joined.undecodable, joined.remainder) == (
        [{"a": 1, "s": "x"}, {"a": 2, "s": "y"}],
        None,
        None,
    )
    bad = decoded(schema, [b"\3."])
    both = concat_tables([bad, bad])
    assert both.undecodable is not None
    assert (both.undecodable.tolist(), len(both)) == ([True, True], 2)
    mixed = concat_tables([one, bad, two])
    assert mixed.undecodable is not None
    assert mixed.remainder is not None
    assert (mixed.undecodable.tolist(), mixed.remainder.to_pylist()) == ([False, True, False], [b"", b"\3.", b""])


def test_tables_join() -> None:
    schema = schema_of("a:u1,s:z16")
    one, two = decoded(schema, [b"\1" + z16("x") + b"rest"]), decoded(schema, [b"\2" + z16("y"), b"\3."])
    joined = concat_tables([one, two])
    assert joined["s"].to_pylist() == ["x", "y", None]
    assert joined.undecodable_count == 1
    assert joined.remainder is not None
    assert joined.remainder.to_pylist() == [b"rest", b"", b"\3."]


def test_rows_outside_of_the_buffer_are_refused() -> None:
    for offsets, lengths in (([0], [5]), ([-1], [1]), ([5], [0]), ([0], [-1]), ([0], [1 << 32])):
        with pytest.raises(FormatError):
            decode(schema_of("a:u1"), np.zeros(4, np.uint8), np.array(offsets), np.array(lengths, np.int64))


def test_payloads_of_no_bytes_need_no_buffer() -> None:
    nothing = np.zeros(0, np.uint8)
    table = decode(schema_of("a:u4,b:vu,s:z16,l:u1*u16"), nothing, np.zeros(2, np.int64), np.zeros(2, np.uint32))
    assert table.to_pylist() == [{"a": None, "b": None, "s": None, "l": None}] * 2
    assert table.undecodable is None


def test_offsets_without_a_length_are_refused() -> None:
    with pytest.raises(UsageError, match="2 offsets and 1 lengths"):
        decode(schema_of("a:u1"), np.zeros(4, np.uint8), np.array([0, 1]), np.array([1], np.uint32))


def location(size: int, offset: int) -> bytes:
    return struct.pack("<I", size << 16 | offset)


def test_relative_and_data_locations_point_into_the_payload() -> None:
    at = Layout(kind=Kind.TEXT16, count_at=Count.REL)
    data = Layout(kind=Kind.LIST, element=Layout(kind=Kind.U2), count_at=Count.DATA)
    schema = schema_of((SchemaField(name="r", layout=at), SchemaField(name="d", layout=data)))
    payload = location(4, 4) + location(4, 12) + "hi".encode("utf-16-le") + b"\1\0\2\0"
    table = decoded(schema, [payload])
    assert table.to_pylist() == [{"r": "hi", "d": [1, 2]}]
    assert table.remainder is None, "what is pointed to is behind the fields, and does not remain"
    for bad in (location(4, 0xFFFF), location(3, 4), location(0xFFFF, 4)):
        table = decoded(schema, [bad + payload[4:], payload])
        assert table.undecodable is not None
        assert table.undecodable.tolist() == [True, False]
        assert table.row(1) == {"r": "hi", "d": [1, 2]}


# What files declare -------------------------------------------------------------------------------------------------


def metadata(*fields: Field, **more: Any) -> Metadata:
    return Metadata(metadata_id=1, provider="P", event_id=1, name="E", fields=fields, **more)


def field(name: str, code: int, **more: Any) -> Field:
    return Field(name=name, type=FieldType(code=code, **more))


@pytest.mark.parametrize("code", [TypeCode.REL_LOC, TypeCode.DATA_LOC])
def test_fields_that_point_to_the_same_bytes_do_not_multiply_them(code: int) -> None:
    located = field("x", code, element=FieldType(code=TypeCode.UTF8_CODE_UNIT))
    schema = resolve(
        metadata(*[located] * 64, Field(name="s", type=FieldType(code=TypeCode.OBJECT, fields=(located,))))
    )
    size, first = 60_000, 4 * 64
    places = [size << 16 | first - 4 * (at + 1) * (code == TypeCode.REL_LOC) for at in range(64)]
    to_all = struct.pack("<64I", *places) + b"\xff" * size
    to_one = struct.pack("<I", places[0]) + bytes(4 * 63) + b"a" * size
    payloads = [to_all, to_one] * 8
    tracemalloc.start()
    table = decoded(schema, payloads)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert table.undecodable is not None
    assert table.undecodable.tolist() == [True, False] * 8
    assert table.remainder is not None
    assert table.remainder.item(0) == to_all
    assert table.row(1)["x"] == "a" * size
    assert peak < 16 * sum(map(len, payloads))


def test_booleans_take_one_byte_in_self_describing_events_only() -> None:
    flag, number = field("f", TypeCode.BOOLEAN), field("n", TypeCode.INT32)
    wrapped = resolve(metadata(field("", TypeCode.OBJECT, fields=(flag, number))))
    assert decoded(wrapped, [b"\1\2\0\0\0"]).row(0) == {"": {"f": True, "n": 2}}
    assert decoded(resolve(metadata(flag, number)), [b"\1\0\0\0\2\0\0\0"]).row(0) == {"f": True, "n": 2}


def test_decimals_are_doubles_in_self_describing_events_only() -> None:
    money = field("m", TypeCode.DECIMAL)
    wrapped = resolve(metadata(field("", TypeCode.OBJECT, fields=(money,))))
    assert decoded(wrapped, [struct.pack("<d", 12.34)]).row(0) == {"": {"m": 12.34}}
    raw = struct.pack("<IIQ", 0x80020000, 0, 1234)
    assert decoded(resolve(metadata(money)), [raw]).row(0) == {"m": Decimal("-12.34")}


def test_code_units_in_arrays_are_text_and_bytes_are_bytes() -> None:
    def array(code: int) -> dict[str, Any]:
        return {"element": FieldType(code=code)}

    schema = resolve(
        metadata(
            field("w", TypeCode.ARRAY, **array(TypeCode.CHAR)),
            field("n", TypeCode.ARRAY, **array(TypeCode.UTF8_CODE_UNIT)),
            field("b", TypeCode.ARRAY, **array(TypeCode.BYTE)),
            field("f", TypeCode.FIXED_ARRAY, count=2, **array(TypeCode.INT16)),
            field("c", TypeCode.UTF8_CODE_UNIT),
        )
    )
    payload = b"\1\0\xa9\3" + b"\2\0hi" + b"\1\0\xff" + b"\1\0\2\0" + b"x"
    assert decoded(schema, [payload]).row(0) == {"w": "Ω", "n": "hi", "b": b"\xff", "f": [1, 2], "c": "x"}


@pytest.mark.parametrize("code", [0, 2, 27, 255, -1, TypeCode.ARRAY])
def test_from_an_unknown_type_on_the_payload_is_bytes(code: int) -> None:
    schema = resolve(metadata(field("a", TypeCode.BYTE), field("x", code), field("b", TypeCode.BYTE)))
    assert decoded(schema, [b"\1\2\3"]).row(0) == {"a": 1, "x": b"\2\3"}


def test_types_too_deep_or_too_large_are_bytes() -> None:
    deep = FieldType(code=TypeCode.BYTE)
    for _ in range(500):
        deep = FieldType(code=TypeCode.OBJECT, fields=(Field(name="x", type=deep),))
    huge = FieldType(code=TypeCode.INT64)
    for _ in range(4):
        huge = FieldType(code=TypeCode.FIXED_ARRAY, element=huge, count=65535)
    for type_ in (deep, huge):
        table = decoded(resolve(metadata(Field(name="x", type=type_))), [b"abc"])
        assert table.row(0) == {"x": b"abc"}


def nested(element: FieldType, lists: int) -> FieldType:
    """A list of lists of … of those elements."""
    for _ in range(lists):
        element = FieldType(code=TypeCode.ARRAY, element=element)
    return element


@pytest.mark.parametrize(("lists", "value"), [(4, [[[["x"]]]]), (5, b"\1\0\1\0\1\0\1\0\1\0x\0\0\0")])
def test_more_than_four_lists_in_lists_are_bytes(lists: int, value: object) -> None:
    schema = resolve(metadata(Field(name="x", type=nested(FieldType(code=TypeCode.STRING), lists))))
    table = decoded(schema, [b"\1\0" * lists + z16("x")])
    assert table.row(0) == {"x": value}


def test_lists_are_among_the_fields_that_are_counted() -> None:
    kind = nested(FieldType(code=TypeCode.INT32), 3)
    fields = resolve(metadata(*(Field(name=f"f{number}", type=kind) for number in range(4096)))).fields
    assert len(fields) == layout.MAX_FIELDS // (1 + 3 * layout.LIST_FIELDS) + 1
    assert fields[-1].layout.kind == Kind.OPAQUE


def test_fields_of_one_type_share_what_says_so() -> None:
    kinds = [FieldType(code=TypeCode.INT32), nested(FieldType(code=TypeCode.INT32), 2)]
    fields = resolve(metadata(*(Field(name=f"f{at}", type=kind) for at in range(99) for kind in kinds))).fields
    assert len({id(field.layout) for field in fields}) == 2


@pytest.mark.parametrize("lists", range(5))
def test_no_field_list_becomes_a_plan_out_of_all_proportion(lists: int, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    value = program._Builder.value

    def counting(*arguments: Any) -> Any:
        nonlocal steps
        steps += 1
        return value(*arguments)

    monkeypatch.setattr(program._Builder, "value", counting)
    inner = FieldType(code=TypeCode.OBJECT, fields=tuple(field(f"f{number}", TypeCode.STRING) for number in range(9)))
    for kind in (FieldType(code=TypeCode.STRING), inner):
        steps = 0
        fields = tuple(Field(name=f"f{number}", type=nested(kind, lists)) for number in range(4096))
        program.build(resolve(metadata(*fields)).fields, 8)
        assert layout.MAX_FIELDS // 8 < steps <= (layout.MAX_LISTS + 1) * layout.MAX_FIELDS


def test_elements_of_no_bytes_are_capped() -> None:
    empty = FieldType(code=TypeCode.OBJECT)
    for _ in range(layout.MAX_LISTS - 1):
        empty = FieldType(code=TypeCode.FIXED_ARRAY, element=empty, count=1000)
    schema = resolve(metadata(field("e", TypeCode.ARRAY, element=empty)))
    table = decoded(schema, [b"\xff\xff", b"\1\0"])
    assert table.undecodable is not None
    assert table.undecodable.tolist() == [True, False]


def test_a_field_list_that_would_swell_the_output_is_refused_in_whole() -> None:
    fields = tuple(field(f"f{number}", TypeCode.INT64) for number in range(4000))
    rows = 20_000
    schema = resolve(metadata(*fields))
    table = decode(schema, np.zeros(8, np.uint8), np.zeros(rows, np.int64), np.full(rows, 1, np.uint32))
    assert table.undecodable_count == rows
    assert not table.columns
    assert table.remainder is not None
    assert table.remainder.item(rows - 1) == b"\0"


@pytest.mark.parametrize(("count", "fits"), [(0, True), (16, True), (17, False)])
@pytest.mark.parametrize("text", ["x:{}*u16", "x:{e:{}*u16,s:z8}*u16"], ids=["flat", "in elements that vary"])
def test_sixteen_elements_may_take_no_bytes(text: str, count: int, fits: bool) -> None:
    payload = struct.pack("<H", count)
    if "s:z8" in text:
        payload = struct.pack("<H", 1) + payload + b"a\0"
    table = decoded(schema_of(text), [payload])
    assert table.undecodable_count == (0 if fits else 1)


@pytest.mark.parametrize(("last", "fits"), [(0, True), (1, True), (2, False), (0x7F, False), (0x80, False)])
@pytest.mark.parametrize("text", ["x:vu", "x:{a:vu,s:z8}*u16"], ids=["flat", "in elements that vary"])
def test_a_varuint_has_64_bits_at_most(text: str, last: int, fits: bool) -> None:
    payload = b"\xff" * 9 + bytes([last]) + b"\0" * (last == 0x80)
    if "s:z8" in text:
        payload = struct.pack("<H", 1) + payload + b"a\0"
    assert decoded(schema_of(text), [payload]).undecodable_count == (0 if fits else 1)


def test_a_lying_count_never_allocates() -> None:
    for text in ("bin*u32", "u8*u32", "z16*u32", "{a:u1,s:z16}*u32"):
        table = decoded(schema_of(f"x:{text}"), [b"\xff\xff\xff\xff" + z16("abc")])
        assert table.undecodable_count == 1
        assert table.row(0) == {"x": None}


WIDE = "{a:u1," + ",".join(f"n{number}:bin*0" for number in range(50)) + "}"
"""Elements of one byte that take more than a kilobyte."""


def many(count: int) -> bytes:
    return struct.pack("<H", count) + bytes(count)


@pytest.fixture
def little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "NESTED_LIMIT", 1 << 20)


@pytest.mark.usefixtures("little_room")
@pytest.mark.parametrize("text", [f"x:{WIDE}*u16", "y:u1,x:{i:" + WIDE + "*u16}*1"], ids=["flat", "nested"])
def test_a_payload_whose_lists_would_take_memory_out_of_proportion_stays_bytes_and_is_counted(text: str) -> None:
    front = b"\7" if text.startswith("y") else b""
    payloads = [front + many(count) for count in (1, 0, 60_000, 2, 50_000, 3)]
    tracemalloc.start()
    table = decoded(schema_of(text), payloads)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20
    assert table.undecodable is not None
    assert table.undecodable.tolist() == [False, False, True, False, True, False]
    assert table.remainder is not None
    assert [table.remainder.item(row) for row in (2, 4)] == [payloads[2], payloads[4]]
    alone = decoded(schema_of(text), [payloads[row] for row in (0, 1, 3, 5)])
    assert [table.row(row) for row in (0, 1, 3, 5)] == alone.to_pylist()


@pytest.mark.usefixtures("little_room")
def test_lists_that_share_the_room_do_not_take_more_than_it_together() -> None:
    text = ",".join(f"x{number}:{WIDE}*u16" for number in range(20))
    table = decoded(schema_of(text), [many(600) * 20, many(1) * 20])
    assert table.undecodable is not None
    assert table.undecodable.tolist()[0]
    everything = decoded(schema_of(text), [many(600) * 20 for _ in range(30)])
    assert everything.undecodable_count == 30


@pytest.mark.usefixtures("little_room")
def test_lists_of_what_is_really_written_need_no_room_beyond_their_bytes() -> None:
    pairs = b"".join(z16(text) for text in ("k", "", "", "v") * 5000)
    table = decoded(schema_of("x:{Key:z16,Value:z16}*u16,n:z16*u16"), [struct.pack("<H", 10_000) + pairs + b"\0\0"] * 9)
    assert table.undecodable is None


def test_thousands_of_fields_of_one_name_are_named_in_steps_of_their_number() -> None:
    class Counting(dict[str, int]):
        steps = 0

        def __contains__(self, name: object) -> bool:
            Counting.steps += 1
            return super().__contains__(name)

    taken = Counting()
    names = [program.unique_name("a", taken) for _ in range(3000)]
    assert len(set(names)) == 3000
    assert names[:3] == ["a", "a#2", "a#3"]
    assert Counting.steps <= 3 * 3000


def test_events_of_the_runtime_get_the_catalogue_s_fields() -> None:
    native = Metadata(
        metadata_id=1, provider="Microsoft-Windows-DotNETRuntime", event_id=10, version=9, level=5, keywords=1
    )
    schema = resolve(native, 8)
    assert (schema.name, schema.source, schema.layout_version, schema.version) == (
        "GC/AllocationTick",
        Source.CATALOGUE,
        4,
        9,
    )
    payload = struct.pack("<IIHQQ", 1, 0, 2, 1, 0x7F) + z16("T") + struct.pack("<IQQ", 0, 5, 64)
    table = decoded(schema, [payload + b"new"])
    assert table["TypeName"].item(0) == "T"
    assert table["ObjectSize"].item(0) == 64
    assert table.remainder is not None
    assert table.remainder.item(0) == b"new"


def test_an_event_of_which_nothing_is_known_keeps_its_bytes() -> None:
    schema = resolve(Metadata(metadata_id=1, provider="P", event_id=7))
    assert (schema.name, schema.source) == ("EventID(7)", Source.NONE)
    table = decoded(schema, [b"ab", b""])
    assert table.to_pylist() == [{}, {}]
    assert table.remainder is not None
    assert table.remainder.to_pylist() == [b"ab", b""]


def test_universal_events_have_their_real_layout_whatever_is_declared() -> None:
    wrong = (field("Id", TypeCode.VARUINT), field("FileName", TypeCode.UTF8_CODE_UNIT))
    schema = resolve(
        Metadata(metadata_id=1, provider="Universal.System", event_id=4, name="ProcessSymbol", fields=wrong)
    )
    payload = vu(1) + vu(2) + vu(0xFFFFFFFF81000000) + vu(0xFFFFFFFF81000FFF) + b"\4\0name"
    assert decoded(schema, [payload]).row(0) == {
        "Id": 1, "MappingId": 2, "StartAddress": 0xFFFFFFFF81000000, "EndAddress": 0xFFFFFFFF81000FFF, "Name": "name",
    }  # fmt: skip
    sample = resolve(Metadata(metadata_id=1, provider="Universal.Events", event_id=99, name="cswitch"))
    assert decoded(sample, [b"\5"]).row(0) == {"Value": 5}


def test_bridged_diagnostic_source_events_need_no_metadata() -> None:
    schema = resolve(
        Metadata(metadata_id=1, provider="Microsoft-Diagnostics-DiagnosticSource", event_id=4, name="Activity1Start")
    )
    payload = z16("src") + z16("ev") + b"\2\0" + z16("k") + z16("v") + z16("k2") + z16("")
    assert schema.name == "Activity1/Start"
    assert decoded(schema, [payload]).row(0) == {
        "SourceName": "src", "EventName": "ev", "Arguments": [{"Key": "k", "Value": "v"}, {"Key": "k2", "Value": ""}],
    }  # fmt: skip


def test_process_info_and_samples_are_known_by_id() -> None:
    old = resolve(Metadata(metadata_id=1, provider="Microsoft-DotNETCore-EventPipe", event_id=1, version=0))
    new = resolve(Metadata(metadata_id=1, provider="Microsoft-DotNETCore-EventPipe", event_id=1, version=1))
    assert ([f.name for f in old.fields], len(new.fields)) == (["CommandLine"], 3)
    sample = resolve(Metadata(metadata_id=1, provider="Microsoft-DotNETCore-SampleProfiler", event_id=0))
    assert (sample.name, sample.opcode) == ("Thread/Sample", 1)
    assert decoded(sample, [b"\2\0\0\0"]).row(0) == {"Type": 2}


# What lengths prove -------------------------------------------------------------------------------------------------


def blob(number: int, size: int, fill: int = 0) -> bytes:
    return struct.pack("<iiI", 1, number, size) + bytes([fill]) * size


def test_a_byte_array_at_the_end_is_inferred_and_says_so() -> None:
    table = decoded(schema_of(""), [blob(number, number % 17, 9) for number in range(20)])
    assert table.inferred
    assert table.schema.source == Source.INFERRED
    assert table.row(2) == {"u32@0": 1, "u32@4": 2, "bytes@12": b"\x09\x09"}
    again = decoded(table.schema, [blob(7, 0)])
    assert again.inferred
    assert again.row(0)["u32@4"] == 7


@pytest.mark.parametrize(
    "payloads",
    [
        [blob(1, 3)],
        [blob(1, 0), blob(2, 0)],
        [blob(1, 4), blob(2, 4)],
        [blob(1, 4), blob(2, 5) + b"x"],
        [b"abc", b"abcd"],
        [b"", b""],
    ],
    ids=["one", "always empty", "two alike", "one does not fit", "no counts", "nothing"],
)
def test_what_is_not_proved_stays_bytes(payloads: list[bytes]) -> None:
    table = decoded(schema_of(""), payloads)
    assert not table.inferred
    assert table.to_pylist() == [{}] * len(payloads)
    kept = [b""] * len(payloads) if table.remainder is None else table.remainder.to_pylist()
    assert kept == payloads


@pytest.mark.parametrize(
    ("size", "rows", "proved"),
    [(8, 16, True), (8, 15, False), (7, 16, False), (7, 400, False), (300, 15, False), (300, 16, True)],
)
def test_payloads_of_one_length_prove_a_layout_when_they_are_many_and_long(size: int, rows: int, proved: bool) -> None:
    assert decoded(schema_of(""), [blob(number, size, 9) for number in range(rows)]).inferred is proved


def test_bytes_that_are_all_zero_prove_a_layout_too() -> None:
    assert decoded(schema_of(""), [blob(number, 8, 0) for number in range(16)]).inferred


def test_a_layout_is_proved_by_all_payloads_and_not_by_the_first() -> None:
    payloads = [blob(number, number % 17, 9) for number in range(200)]
    assert decoded(schema_of(""), payloads).inferred
    assert not decoded(schema_of(""), [*payloads, blob(1, 4) + b"x"]).inferred


def test_fields_of_events_without_bytes_are_not_made_up_by_the_megabyte() -> None:
    few, many = (schema_of(",".join(f"f{at}:u4" for at in range(count))) for count in (100, 4000))
    empty = [b""] * 3000
    assert len(decoded(few, empty).columns) == 100
    refused = decoded(many, empty)
    assert (len(refused.columns), refused.undecodable_count) == (0, 3000)
    assert len(decoded(many, [bytes(4 * 4000)] * 3000).columns) == 4000


def test_one_damaged_payload_in_a_thousand_is_marked_and_the_others_keep_their_fields() -> None:
    payloads = [blob(number, 4 + number % 7) for number in range(1000)]
    payloads[3] = payloads[3][:8] + b"\xff" + payloads[3][9:]
    table = decoded(schema_of(""), payloads)
    assert table.inferred
    assert table.undecodable_count == 1
    assert not decoded(schema_of(""), payloads[:999]).inferred
    payloads[900] = payloads[900][:8] + b"\xff" + payloads[900][9:]
    assert not decoded(schema_of(""), payloads).inferred


def test_a_layout_that_two_offsets_would_prove_is_not_inferred() -> None:
    def both(size: int) -> bytes:
        return struct.pack("<II", size + 4, size) + bytes(size)

    assert not decoded(schema_of(""), [both(size) for size in range(1, 40)]).inferred


@pytest.mark.parametrize(("size", "proved"), [(size, size <= 256) for size in (0, 1, 3, 4, 5, 7, 8, 255, 256, 257)])
def test_what_stands_in_front_of_the_bytes_is_shown_as_numbers_of_four_bytes_and_of_one(
    size: int, proved: bool
) -> None:
    front = bytes(range(1, 251)) + b"\xfa" * 7
    payloads = [front[:size] + struct.pack("<I", length) + b"x" * length for length in (300, 70_000, 5)]
    table = decoded(schema_of(""), payloads)
    assert table.inferred is proved
    if proved:
        words = {f"u32@{at}": int.from_bytes(front[at : at + 4], "little") for at in range(0, size // 4 * 4, 4)}
        single = {f"u8@{at}": front[at] for at in range(size // 4 * 4, size)}
        assert table.row(2) == words | single | {f"bytes@{size + 4}": b"x" * 5}


@pytest.mark.parametrize("source", Source)
def test_nothing_is_inferred_of_events_that_are_said_to_have_no_fields(source: Source) -> None:
    table = decoded(schema_of("", source=source), [blob(1, 4), blob(1, 5)])
    assert bool(table.columns) is (source == Source.NONE)


@pytest.mark.parametrize("byte", [1, 2, 3])
def test_a_count_is_a_number_of_four_bytes(byte: int) -> None:
    payloads = [blob(1, size) for size in (4, 5, 6)]
    odd = bytearray(blob(1, 7))
    odd[8 + byte] = 1
    assert decoded(schema_of(""), payloads).inferred
    assert not decoded(schema_of(""), [*payloads, bytes(odd)]).inferred


@pytest.mark.parametrize("size", [4, 5, 6])
def test_a_count_of_nothing_at_the_end_of_the_shortest_payload_is_one(size: int) -> None:
    payloads = [b"\7" * size + struct.pack("<I", length) + b"x" * length for length in (0, 3)]
    assert decoded(schema_of(""), payloads).columns[f"bytes@{size + 4}"].to_pylist() == [b"", b"xxx"]


def test_two_payloads_of_different_lengths_prove_a_layout_and_one_does_not() -> None:
    assert decoded(schema_of(""), [blob(1, 4), blob(1, 5)]).inferred
    assert not decoded(schema_of(""), [blob(1, 5)]).inferred


# Any layout ----------------------------------------------------------------------------------------------------------

LEAVES: dict[Kind, tuple[st.SearchStrategy[Any], Any]] = {
    Kind.U1: (st.integers(0, 255), lambda v: struct.pack("<B", v)),
    Kind.U2: (st.integers(0, 65535), lambda v: struct.pack("<H", v)),
    Kind.I4: (st.integers(-(2**31), 2**31 - 1), lambda v: struct.pack("<i", v)),
    Kind.U8: (st.integers(0, 2**64 - 1), lambda v: struct.pack("<Q", v)),
    Kind.F8: (st.floats(allow_nan=False), lambda v: struct.pack("<d", v)),
    Kind.BOOL32: (st.booleans(), lambda v: struct.pack("<I", v * 3)),
    Kind.GUID: (st.uuids(), lambda v: v.bytes_le),
    Kind.Z16: (st.text(st.characters(exclude_characters="\0"), max_size=9), z16),
    Kind.VARUINT: (st.integers(0, 2**64 - 1), vu),
    Kind.VARINT: (st.integers(-(2**63), 2**63 - 1), lambda v: vu(v << 1 if v >= 0 else (-v << 1) - 1)),
}


def layouts() -> st.SearchStrategy[Layout]:
    leaf = st.sampled_from(list(LEAVES)).map(lambda kind: Layout(kind=kind))

    def grow(inner: st.SearchStrategy[Layout]) -> st.SearchStrategy[Layout]:
        members = st.lists(inner, max_size=4).map(
            lambda found: tuple(SchemaField(name=f"m{i}", layout=one) for i, one in enumerate(found))
        )
        structure = members.map(lambda fields: Layout(kind=Kind.STRUCT, fields=fields))
        counted = inner.map(lambda element: Layout(kind=Kind.LIST, element=element, count_at=Count.U16))
        fixed = inner.map(lambda element: Layout(kind=Kind.LIST, element=element, count=2))
        return structure | counted | fixed

    return st.recursive(leaf, grow, max_leaves=8)


def values(layout: Layout) -> st.SearchStrategy[Any]:
    if layout.kind in LEAVES:
        return LEAVES[layout.kind][0]
    if layout.kind == Kind.STRUCT:
        return st.fixed_dictionaries({field.name: values(field.layout) for field in layout.fields})
    assert layout.element is not None
    least, most = (0, 3) if layout.count_at == Count.U16 else (layout.count, layout.count)
    return st.lists(values(layout.element), min_size=least, max_size=most)


def encoded(layout: Layout, value: Any) -> bytes:
    if layout.kind in LEAVES:
        packed: bytes = LEAVES[layout.kind][1](value)
        return packed
    if layout.kind == Kind.STRUCT:
        return b"".join(encoded(field.layout, value[field.name]) for field in layout.fields)
    assert layout.element is not None
    head = struct.pack("<H", len(value)) if layout.count_at == Count.U16 else b""
    return head + b"".join(encoded(layout.element, item) for item in value)


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[SchemaField, ...], list[dict[str, Any]], bytes]:
    fields = tuple(SchemaField(name=f"f{i}", layout=one) for i, one in enumerate(draw(st.lists(layouts(), max_size=5))))
    row = st.fixed_dictionaries({field.name: values(field.layout) for field in fields})
    return fields, draw(st.lists(row, max_size=4)), draw(st.binary(max_size=40))


def with_plain_nothing(value: Any, layout: Layout) -> Any:
    """Elements of no bytes come back as empty structures, whatever they were declared to hold."""
    from dotnetdiag.events.layout import fixed_size

    if layout.kind == Kind.LIST:
        assert layout.element is not None
        if fixed_size(layout.element, 8) == 0:
            return [{} for _ in value]
        return [with_plain_nothing(item, layout.element) for item in value]
    if layout.kind == Kind.STRUCT:
        return {field.name: with_plain_nothing(value[field.name], field.layout) for field in layout.fields}
    return value


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(cases())
def test_any_values_of_any_layout_come_back_and_any_bytes_do_no_harm(
    case: tuple[tuple[SchemaField, ...], list[dict[str, Any]], bytes],
) -> None:
    fields, rows, noise = case
    payloads = [b"".join(encoded(field.layout, row[field.name]) for field in fields) for row in rows]
    wanted = [{field.name: with_plain_nothing(row[field.name], field.layout) for field in fields} for row in rows]
    schema = schema_of(fields)
    table = decoded(schema, payloads, infer_layout=False)
    assert table.to_pylist() == wanted
    assert table.undecodable is None
    mixed = decoded(schema, [*payloads, noise, noise[:-1], *[payload[:-1] for payload in payloads]], infer_layout=False)
    assert mixed.to_pylist()[: len(rows)] == wanted
    both = (str(mixed.to_pylist()), None if mixed.remainder is None else mixed.remainder.to_pylist())
    assert both == other_way(mixed, schema, [*payloads, noise, noise[:-1], *[payload[:-1] for payload in payloads]])


def other_way(table: Table, schema: Any, payloads: list[bytes]) -> tuple[str, Any]:
    """The same with the other loops."""
    with pytest.MonkeyPatch().context() as context:
        context.setattr(kernels, "KERNELS", None if kernels.KERNELS is not None else kernels._compiled())
        again = decoded(schema, payloads, infer_layout=False)
    assert (table.undecodable_count, len(table)) == (again.undecodable_count, len(again))
    return str(again.to_pylist()), None if again.remainder is None else again.remainder.to_pylist()


NO_ARGUMENTS: dict[str, dict[str, Any]] = {
    "a text for names": {"fields": "number"},
    "a name of nothing": {"fields": ["nope"]},
    "a member of nothing": {"fields": ["number.nope"]},
    "a name that is no text": {"fields": [5]},
    "pointers of 5 bytes": {"pointer_size": 5},
    "pointers of no bytes": {"pointer_size": 0},
    "a buffer of numbers": {"buffer": np.arange(8, dtype=np.int32)},
    "a buffer of two dimensions": {"buffer": np.zeros((2, 8), np.uint8)},
    "a buffer of floats, none": {"buffer": np.zeros(0), "offsets": np.zeros(0, int), "lengths": np.zeros(0, int)},
    "offsets of fractions": {"offsets": np.array([0.9])},
    "lengths of fractions": {"lengths": np.array([7.9])},
    "one offset": {"offsets": np.array(0)},
}


@pytest.mark.parametrize("name", NO_ARGUMENTS)
def test_arguments_that_make_no_sense_are_refused_at_the_call(name: str) -> None:
    given: dict[str, Any] = {
        "buffer": np.frombuffer(b"\5\0\0\0a\0\0\0", np.uint8),
        "offsets": np.array([0]),
        "lengths": np.array([8]),
    } | NO_ARGUMENTS[name]
    schema = schema_of("number:i4,text:z16")
    with pytest.raises(UsageError):
        decode(schema, given.pop("buffer"), given.pop("offsets"), given.pop("lengths"), **given)


def test_fields_of_one_name_are_selected_by_the_names_of_their_columns() -> None:
    fields = schema_of("number:i4").fields
    schema = schema_of(fields * 3)
    payload = struct.pack("<iii", 1, 2, 3)
    assert decoded(schema, [payload], fields=["number#2"]).row(0) == {"number#2": 2}
    assert decoded(schema, [payload], fields=["number"]).row(0) == {"number": 1, "number#2": 2, "number#3": 3}


def test_an_unnamed_structure_without_a_selected_member_is_left_out() -> None:
    schema = schema_of(":{a:u1},:{b:u1},c:{d:u1}")
    assert decoded(schema, [b"\1\2\3"], fields=["b"]).row(0) == {"#2": {"b": 2}}
    assert decoded(schema, [b"\1\2\3"], fields=["a", "c"]).row(0) == {"": {"a": 1}, "c": {"d": 3}}
