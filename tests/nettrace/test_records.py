"""Metadata records in all their layouts: how deep fields may be nested, how much a count may claim, what damage costs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

import pytest
from tests.nettrace import by_hand
from tests.nettrace.traces import z16

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode
from dotnetdiag.nettrace.constants import FIELD_DEPTH_LIMIT
from dotnetdiag.nettrace.records import pack_record, pack_row, parse_flat_record, parse_record, parse_row
from dotnetdiag.wire import Cursor

NUMBER = Field(name="n", type=FieldType(code=TypeCode.INT32))
GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def test_type_codes_are_those_of_the_format() -> None:
    """nettrace.md §7: those of System.TypeCode, and what nettrace adds."""
    assert {code.name: code.value for code in TypeCode} == {
        "OBJECT": 1, "BOOLEAN": 3, "CHAR": 4, "SBYTE": 5, "BYTE": 6, "INT16": 7, "UINT16": 8, "INT32": 9, "UINT32": 10,
        "INT64": 11, "UINT64": 12, "SINGLE": 13, "DOUBLE": 14, "DECIMAL": 15, "DATETIME": 16, "GUID": 17, "STRING": 18,
        "ARRAY": 19, "VARINT": 20, "VARUINT": 21, "FIXED_ARRAY": 22, "UTF8_CODE_UNIT": 23, "REL_LOC": 24,
        "DATA_LOC": 25, "BOOLEAN8": 26,
    }  # fmt: skip


# nesting --------------------------------------------------------------------------------------------------------------


def in_object(kind: FieldType) -> FieldType:
    return FieldType(code=TypeCode.OBJECT, fields=(Field(name="", type=kind),))


def in_array(kind: FieldType) -> FieldType:
    return FieldType(code=TypeCode.ARRAY, element=kind)


def in_location(kind: FieldType) -> FieldType:
    return FieldType(code=TypeCode.DATA_LOC, element=kind)


def nested(levels: int, *wraps: Callable[[FieldType], FieldType]) -> Metadata:
    """A field in so many others, of these kinds in turn."""
    kind = FieldType(code=TypeCode.BYTE)
    for level in range(levels):
        kind = wraps[level % len(wraps)](kind)
    return Metadata(metadata_id=1, provider="P", event_id=1, fields=(Field(name="f", type=kind),))


def again_5(metadata: Metadata) -> Metadata:
    return parse_record(Cursor(pack_record(metadata, version=5)))


def again_6(metadata: Metadata) -> Metadata:
    return parse_row(Cursor(pack_row(metadata)[2:]))


ARRAY = Field(name="a", type=in_array(FieldType(code=TypeCode.BYTE)))
"""Beside it version 5 writes fields in its second form."""


@pytest.mark.parametrize(
    ("again", "wraps", "extra"),
    [
        (again_5, (in_object,), ()),
        (again_5, (in_object,), (ARRAY,)),
        (again_5, (in_array,), ()),
        (again_5, (in_array, in_object), ()),
        (again_6, (in_object,), ()),
        (again_6, (in_array,), ()),
        (again_6, (in_location,), ()),
        (again_6, (in_object, in_array, in_location), ()),
    ],
    ids=lambda value: "-".join(getattr(one, "__name__", "a") for one in value) if isinstance(value, tuple) else None,
)
def test_fields_may_be_nested_to_the_limit_and_no_deeper(
    again: Callable[[Metadata], Metadata],
    wraps: tuple[Callable[[FieldType], FieldType], ...],
    extra: tuple[Field, ...],
) -> None:
    for levels in (1, 2, FIELD_DEPTH_LIMIT - 1, FIELD_DEPTH_LIMIT):
        metadata = nested(levels, *wraps)
        metadata = replace(metadata, fields=metadata.fields + extra)
        assert again(metadata) == metadata
    for levels in (FIELD_DEPTH_LIMIT + 1, FIELD_DEPTH_LIMIT + 5):
        metadata = nested(levels, *wraps)
        found = again(replace(metadata, fields=metadata.fields + extra))
        assert (found.fields, found.declared, found.event_id) == ((), False, 1)


def test_nesting_beyond_any_stack_is_no_fields() -> None:
    """What no writer of ours could pack: as deep as 64 KB allow."""
    array = struct.pack("<H", 1) + struct.pack("<H", 60_000) + b"\0" + bytes([TypeCode.ARRAY]) * 59_999
    assert parse_row(Cursor(b"\1\0\1\0" + array)).declared is False
    objects = struct.pack("<i", TypeCode.OBJECT) + struct.pack("<i", 1)
    record = RECORD + struct.pack("<i", 1) + objects * 7000
    assert parse_record(Cursor(record)).declared is False


# counts and sizes -----------------------------------------------------------------------------------------------------

RECORD = struct.pack("<i", 7) + z16("P") + struct.pack("<i", 8) + z16("E") + struct.pack("<qii", 9, 10, 11)
PLAIN = Metadata(metadata_id=7, provider="P", event_id=8, name="E", keywords=9, version=10, level=11, fields=(NUMBER,))
NAMELESS = struct.pack("<i", TypeCode.INT32) + z16("")
"""The smallest field of the first form: 6 bytes."""


def parsed(fields: bytes, *tags: tuple[int, bytes]) -> Metadata:
    return parse_record(
        Cursor(RECORD + fields + b"".join(struct.pack("<iB", len(tag), kind) + tag for kind, tag in tags))
    )


def fields_v1(*fields: bytes, count: int | None = None) -> bytes:
    return struct.pack("<i", len(fields) if count is None else count) + b"".join(fields)


def field_v2(name: str, kind: bytes, size: int | None = None) -> bytes:
    content = z16(name) + kind
    return struct.pack("<i", len(content) + 4 if size is None else size) + content


INT32 = struct.pack("<i", TypeCode.INT32)


def test_as_many_fields_as_a_count_says_are_there_or_none() -> None:
    for there in (1, 2, 5):
        for count in (-(1 << 31), -1, 0, there, there + 1, (1 << 31) - 1):
            found = parsed(fields_v1(*[NAMELESS] * there, count=count))
            # with no count the fields are what follows: a tag that is none
            assert len(found.fields) == (there if count == there else 0), count
            assert found.declared == (count == there)
            second = [field_v2("", INT32)] * there
            found = parsed(fields_v1(), (2, fields_v1(*second, count=count)))
            assert len(found.fields) == (there if count == there else 0), count
            row = struct.pack("<H", count & 0xFFFF) + b"\2\0\0\x09" * there
            found = parse_row(Cursor(b"\7\1P\x08\1E" + row))
            assert len(found.fields) == (there if count == there else 0), count


def test_record_says_what_stands_in_it() -> None:
    number = struct.pack("<i", TypeCode.INT32) + z16("n")
    assert parsed(fields_v1(number)) == PLAIN
    assert parsed(b"") == parsed(fields_v1()) == replace(PLAIN, fields=(), declared=False)
    assert parsed(fields_v1(number), (1, b"\5")) == replace(PLAIN, opcode=5)
    assert parsed(fields_v1(number), (9, b"what"), (1, b"\5more")) == replace(PLAIN, opcode=5)
    assert parsed(fields_v1(), (2, fields_v1(field_v2("n", INT32)))) == PLAIN
    assert parsed(fields_v1(), (1, b"\5"), (2, fields_v1(field_v2("n", INT32 + b"??")))) == replace(PLAIN, opcode=5)
    for left in range(5):  # too short for a tag
        assert parsed(fields_v1(number) + bytes(left)) == PLAIN
    words = struct.pack("<I", 0xFFFFFFFE) + z16("P") + struct.pack("<I", 0xFFFFFFFD) + z16("E")
    words += struct.pack("<QII", 0xFFFFFFFFFFFFFFFC, 0xFFFFFFFB, 0xFFFFFFFA)
    found = parse_record(Cursor(words))
    top = 1 << 32
    assert (found.metadata_id, found.event_id, found.version, found.level) == (top - 2, top - 3, top - 5, top - 6)
    assert found.keywords == (1 << 64) - 4


@pytest.mark.parametrize(
    ("fields", "tags"),
    [
        (fields_v1(INT32 + z16("n")), [(2, fields_v1(field_v2("n", INT32)))]),
        (fields_v1(INT32 + z16("n")), [(1, b"")]),
        (fields_v1(struct.pack("<i", TypeCode.ARRAY) + z16("n")), []),
        (fields_v1(), [(2, fields_v1(field_v2("n", INT32, size=3) + bytes(9)))]),
        (fields_v1(), [(2, fields_v1(field_v2("n", INT32, size=4) + bytes(9)))]),
        (fields_v1(), [(2, fields_v1(field_v2("n", INT32, size=-1) + bytes(9)))]),
        (fields_v1(), [(2, fields_v1(field_v2("n", INT32, size=13)))]),
        (fields_v1(), [(2, fields_v1(field_v2("n", struct.pack("<i", TypeCode.ARRAY))))]),
        (fields_v1(INT32 + z16("n")) + struct.pack("<iB", 1, 9), []),
        (fields_v1(INT32 + z16("n")) + struct.pack("<iB", -1, 9), []),
        (fields_v1(INT32 + b"n"), []),
    ],
)
def test_damage_in_a_field_list_costs_the_fields_and_not_the_event_type(
    fields: bytes, tags: list[tuple[int, bytes]]
) -> None:
    assert parsed(fields, *tags) == replace(PLAIN, fields=(), declared=False)


def test_damage_before_the_field_list_costs_the_event_type() -> None:
    for cut in range(len(RECORD)):
        with pytest.raises(FormatError):
            parse_record(Cursor(RECORD[:cut]))
    row = b"\7\1P\x08\1E"
    for cut in range(len(row)):
        with pytest.raises(FormatError):
            parse_row(Cursor(row[:cut]))


# NetPerf 1 and 2 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("major", [1, 2])
def test_flat_record_says_as_much_as_is_there(major: int) -> None:
    block = struct.pack("<i", 8) + z16("E") + struct.pack("<Qii", 1 << 63, 10, -1)
    fields = struct.pack("<i", 1) + INT32 + z16("n")
    head = (GUID.bytes_le if major == 1 else z16("P")) + struct.pack("<ii", -8, -10)
    bare = Metadata(
        metadata_id=7,
        provider="" if major == 1 else "P",
        event_id=(1 << 32) - 8,
        version=(1 << 32) - 10,
        declared=False,
        provider_guid=GUID if major == 1 else None,
    )

    def parse(behind: bytes) -> Metadata:
        return parse_flat_record(Cursor(head + behind), 7, major=major)

    named = replace(bare, name="E", keywords=1 << 63, level=0xFFFFFFFF)
    whole = replace(named, fields=(NUMBER,), declared=True)
    for behind in (b"", b"\5\0\0", struct.pack("<i", 0), struct.pack("<i", -1) + block):
        assert parse(behind) == bare
    size = struct.pack("<i", len(block + fields))
    for cut in range(len(block + fields)):  # it is shorter than it says
        assert parse(size + (block + fields)[:cut]) == bare
    for cut in range(len(block + fields) + 1):  # it ends, and says so
        found = parse(struct.pack("<i", cut) + (block + fields)[:cut])
        assert found == (bare if cut < len(block) else whole if cut == len(block + fields) else named), cut
    for cut in range(len(head)):
        with pytest.raises(FormatError):
            parse_flat_record(Cursor(head[:cut]), 7, major=major)


# version 6 ------------------------------------------------------------------------------------------------------------

ITEMS: dict[int, tuple[bytes, dict[str, object]]] = {
    1: (b"\x21", {"opcode": 0x21}),
    3: (struct.pack("<Q", 0xFEDCBA9876543210), {"keywords": 0xFEDCBA9876543210}),
    4: (b"\2ab", {"message_template": "ab"}),
    5: (b"\3cde", {"description": "cde"}),
    6: (b"\1k\2vw", {"attributes": (("k", "vw"),)}),
    7: (GUID.bytes_le, {"provider_guid": GUID}),
    8: (b"\xfe", {"level": 0xFE}),
    9: (b"\xfd", {"version": 0xFD}),
}
ROW = Metadata(metadata_id=7, provider="P", event_id=8, name="E", fields=(NUMBER,))
ROW_BYTES = b"\7\1P\x08\1E" + b"\1\0" + b"\3\0\1n\x09"


@pytest.mark.parametrize("kind", ITEMS)
def test_optional_item_of_a_row_is_read_and_packed(kind: int) -> None:
    content, says = ITEMS[kind]
    row = ROW_BYTES + struct.pack("<H", 1 + len(content)) + bytes([kind]) + content
    said = replace(ROW, **says)  # type: ignore[arg-type]
    assert parse_row(Cursor(row)) == parse_row(Cursor(row + b"behind")) == said
    assert pack_row(said) == struct.pack("<H", len(row)) + row


def test_items_before_one_that_is_broken_or_not_known_count() -> None:
    for broken in (b"\7short", b"\x02what", b"\x0a", b"\0\x01\5"):
        items = b"\1\5\6\1a\1b" + broken + (b"\x08\4" if broken[0] != 7 else b"")
        row = ROW_BYTES + struct.pack("<H", len(items)) + items
        assert parse_row(Cursor(row)) == replace(ROW, opcode=5, attributes=(("a", "b"),))
    assert parse_row(Cursor(ROW_BYTES)) == parse_row(Cursor(ROW_BYTES + b"\5")) == ROW
    assert parse_row(Cursor(ROW_BYTES + b"\5\0\1\5")) == ROW  # shorter than it says: not looked at
    assert parse_row(Cursor(ROW_BYTES.replace(b"\3\0\1n", b"\3\0\2n") + b"\2\0\1\5")) == replace(
        ROW, fields=(), declared=False
    )


def test_counts_of_fixed_arrays_and_elements_stand_behind_each_other() -> None:
    kind = FieldType(code=TypeCode.FIXED_ARRAY, element=FieldType(code=TypeCode.INT16), count=0x1234)
    for code in (TypeCode.ARRAY, TypeCode.REL_LOC, TypeCode.DATA_LOC):
        fields = (Field(name="", type=FieldType(code=code, element=kind)), NUMBER)
        packed = pack_row(replace(ROW, fields=fields))
        assert bytes([code, TypeCode.FIXED_ARRAY, TypeCode.INT16, 0x34, 0x12, 3, 0, 1, ord("n")]) in packed
        assert parse_row(Cursor(packed[2:])).fields == fields


def test_row_that_does_not_fit_64_kb_is_refused() -> None:
    empty = len(pack_row(replace(ROW, description="x" * 20_000))) - 20_000 - 2
    longest = replace(ROW, description="x" * (0xFFFF - empty))
    assert parse_row(Cursor(pack_row(longest)[2:])) == longest
    with pytest.raises(UsageError, match="does not fit 64 KB"):
        pack_row(replace(longest, description=longest.description + "x"))
    for name in ("version", "level"):
        assert getattr(again_6(replace(ROW, **{name: 255})), name) == 255  # type: ignore[arg-type]
        with pytest.raises(UsageError, match="up to 255"):
            pack_row(replace(ROW, **{name: 256}))  # type: ignore[arg-type]


def test_strings_are_utf_8_and_what_is_none_is_replaced() -> None:
    row = by_hand.event_type(1, "ä€")[2:]
    assert parse_row(Cursor(row)).name == "ä€"
    assert parse_row(Cursor(row.replace("€".encode(), b"\xff\xfe\xfd"))).name == "ä\ufffd\ufffd\ufffd"


# what versions 4 and 5 can say ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "change", "problem"),
    [
        (5, {"message_template": "x"}, "message template"),
        (5, {"description": "x"}, "message template"),
        (5, {"attributes": (("a", "b"),)}, "message template"),
        (5, {"fields": (Field(name="f", type=FieldType(code=TypeCode.VARINT)),)}, "a field type of version 6"),
        (5, {"fields": (Field(name="f", type=in_array(FieldType(code=TypeCode.VARINT))),)}, "a field type"),
        (5, {"fields": (Field(name="f", type=in_object(FieldType(code=TypeCode.BOOLEAN8))),)}, "a field type"),
        (5, {"fields": (Field(name="f", type=FieldType(code=TypeCode.ARRAY)),)}, "a field type"),
        (4, {"opcode": 0}, "an opcode"),
        (4, {"fields": (ARRAY,)}, "an array"),
        (4, {"fields": (NUMBER, Field(name="f", type=in_object(ARRAY.type)))}, "an array"),
        (4, {"fields": (ARRAY,), "opcode": 3}, "an array"),
    ],
)
def test_record_of_what_a_version_has_no_word_for_is_refused(
    version: int, change: dict[str, object], problem: str
) -> None:
    metadata = replace(PLAIN, **change)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=problem) as raised:
        pack_record(metadata, version=version)
    assert f"nettrace {version} cannot say this of event 8 of P" in str(raised.value)


def test_records_are_packed_in_the_oldest_form_that_says_it() -> None:
    assert pack_record(PLAIN, version=4) == RECORD + fields_v1(INT32 + z16("n"))
    with_opcode = RECORD + fields_v1(INT32 + z16("n")) + struct.pack("<iBB", 1, 1, 5)
    assert pack_record(replace(PLAIN, opcode=5), version=5) == with_opcode
    byte = struct.pack("<ii", TypeCode.ARRAY, TypeCode.BYTE)
    params = fields_v1(field_v2("a", byte), field_v2("n", INT32))
    assert pack_record(replace(PLAIN, fields=(ARRAY, NUMBER)), version=5) == (
        RECORD + fields_v1() + struct.pack("<iB", len(params), 2) + params
    )
    inner = fields_v1(field_v2("n", INT32))
    both = replace(PLAIN, fields=(Field(name="o", type=FieldType(code=TypeCode.OBJECT, fields=(NUMBER,))), ARRAY))
    params = fields_v1(field_v2("o", struct.pack("<i", TypeCode.OBJECT) + inner), field_v2("a", byte))
    assert pack_record(both, version=5).endswith(params)
    for value in (0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1):
        odd = replace(PLAIN, metadata_id=value, event_id=value, version=value, level=value)
        assert parse_record(Cursor(pack_record(odd, version=4))) == odd
