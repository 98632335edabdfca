"""Layouts: what a text says, what a file may declare and no more, and how many bytes a value takes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from dotnetdiag.errors import FormatError
from dotnetdiag.events import EventSchema, Source, catalogue, kernels, layout, operations, program, slices, table
from dotnetdiag.events.layout import (
    Count,
    Kind,
    Layout,
    SchemaField,
    fixed_size,
    from_metadata,
    least_size,
    parse_fields,
)
from dotnetdiag.nettrace.metadata import Field, FieldType, TypeCode

U1, U2, Z8 = Layout(kind=Kind.U1), Layout(kind=Kind.U2), Layout(kind=Kind.Z8)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("", ()),
        (":u1", (SchemaField(name="", layout=U1),)),
        ("a:u1,b:z8", (SchemaField(name="a", layout=U1), SchemaField(name="b", layout=Z8))),
        ("a:u2#", (SchemaField(name="a", layout=U2, hexadecimal=True),)),
        ("a:u2=Map", (SchemaField(name="a", layout=U2, map="Map"),)),
        ("a:u2#=Map", (SchemaField(name="a", layout=U2, map="Map", hexadecimal=True),)),
        ("a:pad12", (SchemaField(name="a", layout=Layout(kind=Kind.PAD, count=12)),)),
        ("a:s8", (SchemaField(name="a", layout=Layout(kind=Kind.TEXT8, count_at=Count.U16)),)),
        ("a:bin*3", (SchemaField(name="a", layout=Layout(kind=Kind.BYTES, count=3)),)),
        ("a:bin*u32", (SchemaField(name="a", layout=Layout(kind=Kind.BYTES, count_at=Count.U32)),)),
        ("a:z8*u16", (SchemaField(name="a", layout=Layout(kind=Kind.LIST, element=Z8, count_at=Count.U16)),)),
        ("a:u2*15", (SchemaField(name="a", layout=Layout(kind=Kind.LIST, element=U2, count=15)),)),
        (
            "n:u1,a:u2*n=Map",
            (
                SchemaField(name="n", layout=U1),
                SchemaField(
                    name="a",
                    layout=Layout(kind=Kind.LIST, element=U2, count_at=Count.FIELD, count_field="n"),
                    map="Map",
                ),
            ),
        ),
        (
            "a:{b:u1,c:{}},d:u2",
            (
                SchemaField(
                    name="a",
                    layout=Layout(
                        kind=Kind.STRUCT,
                        fields=(
                            SchemaField(name="b", layout=U1),
                            SchemaField(name="c", layout=Layout(kind=Kind.STRUCT)),
                        ),
                    ),
                ),
                SchemaField(name="d", layout=U2),
            ),
        ),
    ],
)
def test_a_text_says_names_types_counts_maps_and_form(text: str, fields: tuple[SchemaField, ...]) -> None:
    assert parse_fields(text) == fields


@pytest.mark.parametrize(
    ("text", "says", "offset"),
    [
        ("a", "a field without a type", 0),
        ("a:u1,b", "a field without a type", 5),
        ("a:", "no type ''", 2),
        ("a:u3", "no type 'u3'", 2),
        ("a:u1,b:pad", "no type 'pad'", 7),
        ("a:padx", "no type 'padx'", 2),
        ("a:bin", "bytes without a count", 2),
        ("a:{b:u1", "a structure without an end", 2),
        ("x:u1,a:{b:u1,", "a structure without an end", 7),
        ("a:u1}", "'}' not expected", 4),
        ("a:u1#b:u2", "'b' not expected", 5),
        ("a:{b:u1}c:u1", "'c' not expected", 8),
        ("a:u1:u2", "':' not expected", 4),
        ("a:u1*2*3", "'*' not expected", 6),
    ],
)
def test_a_text_that_is_wrong_says_where(text: str, says: str, offset: int) -> None:
    with pytest.raises(FormatError, match="field list") as caught:
        parse_fields(text)
    assert says in str(caught.value)
    assert caught.value.offset == offset


# (type, bytes of every value or None, bytes at least as an element), with pointers of 4 bytes
SIZES: list[tuple[str, int | None, int]] = [
    *[(word, 1, 1) for word in ("u1", "i1", "bool8")],
    *[(word, 2, 2) for word in ("u2", "i2")],
    *[(word, 4, 4) for word in ("u4", "i4", "f4", "bool", "ptr")],
    *[(word, 8, 8) for word in ("u8", "i8", "f8", "date")],
    ("guid", 16, 16),
    ("pad7", 7, 7),
    *[(word, None, 1) for word in ("vu", "vi", "z8")],
    ("z16", None, 2),
    ("s8", None, 2),
    ("bin*u32", None, 4),
    ("bin*5", 5, 5),
    ("u2*u16", None, 2),
    ("u2*5", 10, 10),
    ("z16*5", None, 10),
    ("z16*0", 0, 0),
    ("{}*u32", None, 4),
    ("{}", 0, 0),
    ("{a:u1,b:guid}", 17, 17),
    ("{a:u1,b:z16,c:vu,d:u4}", None, 8),
    ("{a:u1,b:{c:z8,d:u1*u32}*3}", None, 16),
    ("{n:u1,b:u8*n}", None, 1),
]


@pytest.mark.parametrize(("text", "fixed", "least"), SIZES)
def test_a_value_takes_so_many_bytes(text: str, fixed: int | None, least: int) -> None:
    (made,) = parse_fields(f"x:{text}")
    assert (fixed_size(made.layout, 4), least_size(made.layout, 4)) == (fixed, least)
    assert fixed_size(made.layout, 8) == (8 if text == "ptr" else fixed)


def test_characters_and_decimals_take_so_many_bytes() -> None:
    sizes = {Kind.CHAR: 2, Kind.CHAR8: 1, Kind.DECIMAL: 16}
    assert {kind: fixed_size(Layout(kind=kind), 8) for kind in sizes} == sizes
    assert fixed_size(Layout(kind=Kind.TEXT16, count=3), 8) == 6
    assert fixed_size(Layout(kind=Kind.TEXT8, count=3), 8) == 3


# Limits of what a file may declare (docs/decoding.md): at the limit, and one beyond -------------------------------------


def declared(*types: FieldType) -> tuple[SchemaField, ...]:
    return from_metadata(tuple(Field(name="x", type=type_) for type_ in types), self_describing=False)


def is_followed(type_: FieldType) -> bool:
    (made,) = declared(type_)
    return made.layout.kind != Kind.OPAQUE


def array(element: FieldType, code: int = TypeCode.ARRAY, count: int = 0) -> FieldType:
    return FieldType(code=code, element=element, count=count)


BYTE, LONG = FieldType(code=TypeCode.BYTE), FieldType(code=TypeCode.INT64)


@pytest.mark.parametrize(("arrays", "limit"), [(0, 32), (4, 32), (99, 4)])
def test_types_are_followed_32_deep_and_four_lists_of_them(arrays: int, limit: int) -> None:
    """Structures below, and so many arrays around the innermost value."""
    assert (layout.MAX_DEPTH, layout.MAX_LISTS) == (32, 4)
    type_ = LONG
    for depth in range(1, 40):
        as_array = depth <= arrays
        type_ = array(type_) if as_array else FieldType(code=TypeCode.OBJECT, fields=(Field(name="x", type=type_),))
        assert is_followed(type_) is (depth <= limit), depth


@pytest.mark.parametrize("nested", [False, True])
def test_an_event_has_4096_fields(nested: bool) -> None:
    assert layout.MAX_FIELDS == 4096
    for count in (4096, 4097):
        if nested:
            fields = tuple(Field(name="x", type=BYTE) for _ in range(count - 1))
            assert is_followed(FieldType(code=TypeCode.OBJECT, fields=fields)) is (count == 4096)
        else:
            made = declared(*[BYTE] * (count + 3 * (count > 4096)))
            assert (len(made), made[4095].layout.kind) == (count, Kind.U1)
            assert (made[-1].layout.kind == Kind.OPAQUE) is (count > 4096)


@pytest.mark.parametrize("code", [TypeCode.REL_LOC, TypeCode.DATA_LOC])
def test_an_event_has_64_fields_that_point_into_the_payload(code: int) -> None:
    assert layout.MAX_LOCATIONS == 64
    at = Count.REL if code == TypeCode.REL_LOC else Count.DATA
    location = array(FieldType(code=TypeCode.CHAR), code)
    made = declared(*[location] * 66)
    assert [field.layout for field in made[:64]] == [Layout(kind=Kind.TEXT16, count_at=at)] * 64
    assert [field.layout.kind for field in made[64:]] == [Kind.OPAQUE]


@pytest.mark.parametrize("code", [TypeCode.REL_LOC, TypeCode.DATA_LOC])
def test_only_elements_of_one_size_are_pointed_to_and_only_at_top_level(code: int) -> None:
    assert is_followed(array(LONG, code))
    assert not is_followed(array(FieldType(code=TypeCode.STRING), code))
    assert not is_followed(array(FieldType(code=TypeCode.OBJECT), code))
    assert not is_followed(array(array(LONG, code)))


@pytest.mark.parametrize(
    ("element", "count"),
    [(LONG, 1 << 17), (BYTE, 1 << 20), (FieldType(code=TypeCode.CHAR), 1 << 19), (array(LONG, TypeCode.FIXED_ARRAY, 1 << 10), 1 << 7)],
)  # fmt: skip
def test_a_value_of_fixed_size_has_a_megabyte(element: FieldType, count: int) -> None:
    assert layout.MAX_FIXED_SIZE == 1 << 20
    assert is_followed(array(element, TypeCode.FIXED_ARRAY, count))
    assert not is_followed(array(element, TypeCode.FIXED_ARRAY, count + 1))
    assert not is_followed(array(element, TypeCode.FIXED_ARRAY, -1))
    assert is_followed(array(element, TypeCode.FIXED_ARRAY, 0))


def test_the_count_of_a_type_that_states_its_own_does_not_count() -> None:
    (made,) = declared(array(LONG, TypeCode.ARRAY, 5))
    assert made.layout == Layout(kind=Kind.LIST, element=Layout(kind=Kind.I8), count_at=Count.U16)


# Values -----------------------------------------------------------------------------------------------------------------


VALUES: list[Any] = [
    Layout, SchemaField, EventSchema, catalogue.ValueMap, catalogue.Provider, table.Table, slices.BatchTable, program.Program,
    program.Decoded, program._Node,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES)
def test_values_do_not_change_and_have_no_other_attributes(value: Any) -> None:
    assert value.__dataclass_params__.frozen
    assert "__slots__" in vars(value)


@pytest.mark.parametrize("value", [*VALUES, operations.Operation, kernels.Walked])
def test_values_are_made_by_name(value: Any) -> None:
    assert all(field.kw_only for field in dataclasses.fields(value))


def test_an_event_of_which_nothing_more_is_known() -> None:
    bare = EventSchema(provider="P", event_id=1, version=2, name="E", manifest_name="E")
    assert bare == EventSchema(
        provider="P", event_id=1, version=2, name="E", manifest_name="E", level=0, keywords=0, opcode=0, fields=(),
        source=Source.NONE, layout_version=0, pointer_size=8, provider_guid=None,
    )  # fmt: skip
    assert not bare.self_describing


@pytest.mark.parametrize(
    ("text", "is_so"), [(":{a:u1}", True), (":{}", False), (":u1", False), ("a:{a:u1}", False), (":{a:u1},b:u1", False)]
)
def test_an_event_whose_only_field_is_an_unnamed_structure_describes_itself(text: str, is_so: bool) -> None:
    fields = parse_fields(text)
    assert EventSchema(
        provider="P", event_id=1, version=0, name="E", manifest_name="E", fields=fields
    ).self_describing is is_so  # fmt: skip
