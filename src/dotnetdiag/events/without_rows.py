"""Columns without rows: which ones an event type has, and of which kinds, without the making of a program for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dotnetdiag.events.columns import Bytes, Column, ListOf, Scalar, Struct, Text
from dotnetdiag.events.layout import Count, Kind, Layout, SchemaField, unit_size
from dotnetdiag.events.program import BOOLS, DTYPES, ENCODINGS, not_in_front, unique_name
from dotnetdiag.events.schema import EventSchema

_NO_BYTES = np.zeros(0, np.uint8)
_NO_ELEMENTS = np.zeros(1, np.int64)


def columns_without_rows(schema: EventSchema) -> Mapping[str, Column]:
    """As ``decode`` makes of no payloads, ``flat`` and with nothing inferred. It is asked of every type that somebody wants, of each before the first
    event: programs for that alone were 2 % of the time of a report. :class:`FormatError` as from ``decode``.
    """
    made = _members(schema.fields, schema.pointer_size)
    only = made.get("")
    return only.fields if len(made) == 1 and isinstance(only, Struct) else made


def _members(fields: Sequence[SchemaField], pointer_size: int) -> dict[str, Column]:
    made: dict[str, Column] = {}
    in_front: set[str] = set()
    taken: dict[str, int] = {}
    for field in fields:
        layout = field.layout
        in_front.add(field.name)
        if layout.count_at == Count.FIELD and layout.count_field not in in_front:
            raise not_in_front(field.name, layout)
        if layout.kind != Kind.PAD:
            made[unique_name(field.name, taken)] = _column(layout, pointer_size)
    return made


def _column(layout: Layout, pointer_size: int) -> Column:
    kind = layout.kind
    if kind == Kind.STRUCT:
        return Struct(_members(layout.fields, pointer_size), 0)
    if kind == Kind.POINTER:
        return Scalar(np.zeros(0, np.uint64), None, Kind.U8)
    if kind in BOOLS:
        return Scalar(np.zeros(0, np.bool_), None, kind)
    if kind in DTYPES:
        return Scalar(np.zeros(0, DTYPES[kind]), None, kind)
    if kind in ENCODINGS:
        return Text(_NO_ELEMENTS, _NO_BYTES)
    if layout.element is None:
        return Bytes(_NO_ELEMENTS, _NO_BYTES)
    return ListOf(_NO_ELEMENTS, _element(layout, layout.element, pointer_size))


def _element(of: Layout, layout: Layout, pointer_size: int) -> Column:
    if unit_size(of, pointer_size) == 0:  # of no bytes
        return Struct({}, 0)
    (made,) = _members((SchemaField(name="", layout=layout),), pointer_size).values() or (Struct({}, 0),)
    return made
