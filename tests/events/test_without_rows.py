"""Columns without rows are those that decode makes of no payloads."""

from __future__ import annotations

from typing import Any

import pytest
from tests.events.help import decoded, schema_of
from tests.events.test_fallback import Maker

from dotnetdiag.errors import FormatError
from dotnetdiag.events import Column, EventSchema, ListOf, Scalar, Struct, catalogue, resolve
from dotnetdiag.events.layout import Count, Kind, Layout, SchemaField
from dotnetdiag.events.without_rows import columns_without_rows
from dotnetdiag.nettrace import Metadata


def shape(column: Column) -> Any:
    """All that there is to say of a column without rows."""
    assert len(column) == 0
    assert column.valid is None
    if isinstance(column, Scalar):
        return column.kind, column.values.dtype
    if isinstance(column, ListOf):
        return "list", shape(column.child)
    if isinstance(column, Struct):
        return {name: shape(one) for name, one in column.fields.items()}
    return type(column), column.offsets.tolist(), column.data.dtype, len(column.data)


def same(schema: EventSchema) -> int:
    """Says how many columns there are."""
    wanted, made = decoded(schema, [], infer_layout=False).flat, columns_without_rows(schema)
    assert [(name, shape(column)) for name, column in made.items()] == [
        (name, shape(column)) for name, column in wanted.items()
    ]
    return len(made)


@pytest.mark.parametrize("seed", range(200))
def test_they_are_those_of_any_layout(seed: int) -> None:
    maker = Maker(seed)
    same(schema_of(maker.top(), pointer_size=maker.pointer_size))


def test_they_are_those_of_all_events_of_runtimes() -> None:
    count = 0
    for name in catalogue.providers():
        provider = catalogue.provider(name)
        assert provider is not None
        for event_id in provider.event_ids:
            for version in catalogue.versions(name, event_id):
                count += same(resolve(Metadata(metadata_id=1, provider=name, event_id=event_id, version=version)))
    assert count > 1500


@pytest.mark.parametrize(
    "text",
    ["", "A:u4,A:u4,A:z16,A#2:u1", ":{A:u4,B:z16}", ":{A:u4,B:z16},C:u4"],
    ids=["none", "twice", "own", "member"],
)
def test_names_and_members_are_the_same(text: str) -> None:
    same(schema_of(text))


def test_elements_of_no_bytes_have_no_members() -> None:
    nothing = Layout(kind=Kind.STRUCT, fields=(SchemaField(name="p", layout=Layout(kind=Kind.PAD, count=0)),))
    for count_at in (Count.FIXED, Count.U16):
        inner = Layout(kind=Kind.LIST, element=nothing, count_at=count_at, count=2)
        assert same(schema_of((SchemaField(name="l", layout=inner),))) == 1


def test_who_is_counted_by_what_comes_later_is_refused_in_the_same_words() -> None:
    counted = Layout(kind=Kind.BYTES, count_at=Count.FIELD, count_field="n")
    schema = schema_of((SchemaField(name="b", layout=counted), SchemaField(name="n", layout=Layout(kind=Kind.U4))))
    with pytest.raises(FormatError) as ours:
        columns_without_rows(schema)
    with pytest.raises(FormatError) as theirs:
        decoded(schema, [])
    assert str(ours.value) == str(theirs.value)
