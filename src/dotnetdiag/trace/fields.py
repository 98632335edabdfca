"""The payload fields of several event types together, joined by name.

Fields come in the order of the newest version. Where those of one name have types that cannot be joined, the later one is
named ``Field (provider/event vN)``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from functools import lru_cache

import numpy as np

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.events import Column, EventSchema, ListOf, Scalar, Struct
from dotnetdiag.events.catalogue import ValueMap, enumeration
from dotnetdiag.events.columns import nulls
from dotnetdiag.events.layout import Kind
from dotnetdiag.events.without_rows import columns_without_rows

_VARIANTS_LIMIT = 16
"""Columns of one name that others are joined with; who has more of them does not mean one thing."""
_SCHEMAS_KEPT = 256
_NOT_PROMOTED = frozenset({Kind.DATETIME, Kind.GUID, Kind.DECIMAL, Kind.CHAR, Kind.CHAR8, Kind.BOOL, Kind.BOOL32})


@dataclass(slots=True, eq=False, repr=False, kw_only=True)  # quick to import
class FieldSource:
    """Where a joined column comes from: the field's name by metadata id, and a column without rows of its kind. ``enumerations`` are the
    names that the runtime gives to its values, by metadata id.
    """

    name: str
    by_type: Mapping[int, str]
    like: Column
    enumerations: Mapping[int, ValueMap] = field(default_factory=dict)

    @property
    def names(self) -> tuple[ValueMap | None, ...]:
        """All kinds of names that its values have; None: in some types they have none."""
        found: list[ValueMap | None] = []
        for number in self.by_type:
            one = self.enumerations.get(number)
            if one not in found:
                found.append(one)
        return tuple(found)


def join_fields(schemas: Mapping[int, EventSchema]) -> tuple[FieldSource, ...]:
    """The payload columns of several event types together; the highest version gives the order."""
    names: dict[str, dict[int, str]] = {}
    likes: dict[str, Column] = {}
    variants: dict[str, list[str]] = {}
    by_shape: dict[tuple[str, Hashable], str] = {}
    enumerations: dict[str, dict[int, ValueMap]] = {}
    for number in sorted(schemas, key=lambda number: (-schemas[number].version, number)):
        schema = schemas[number]
        numbered = enumerations_of(schema)
        for own, column in _empty(schema).items():
            known, shape = variants.setdefault(own, []), (own, _shape(column))
            if shape not in by_shape:
                for name in known[:_VARIANTS_LIMIT]:
                    common = _common(likes[name], column)
                    if common is not None:
                        likes[name] = common
                        break
                else:
                    name = own if not known else f"{own} ({schema.provider}/{schema.name} v{schema.version})"
                    if name in likes:
                        name = f"{name[:-1]}, type {number})"
                    known.append(name)
                    likes[name] = column
                by_shape[shape] = name
            names.setdefault(by_shape[shape], {})[number] = own
            if own in numbered:
                enumerations.setdefault(by_shape[shape], {})[number] = numbered[own]
    return tuple(
        FieldSource(name=name, by_type=by_type, like=likes[name], enumerations=enumerations.get(name, {}))
        for name, by_type in names.items()
    )


def fields_named(fields: Iterable[FieldSource], name: str) -> list[FieldSource]:
    """Those that a name means: of that field in all types, whatever their kinds; where none is called just so, case does not count."""
    for same in (str, str.lower):
        wanted = same(name)
        found = [one for one in fields if wanted == same(one.name) or wanted in map(same, one.by_type.values())]
        if found:
            return found
    return []


def enumerations_of(schema: EventSchema) -> Mapping[str, ValueMap]:
    """The names that the runtime gives to the values of fields, by field."""
    found = ((one.name, enumeration(schema.provider, one)) for one in schema.fields if one.map)
    return {name: names for name, names in found if names is not None}


def cast(column: Column, like: Column) -> Column:
    """The column in the kind of the joined column, ``like``."""
    if isinstance(column, Scalar) and isinstance(like, Scalar):
        if column.values.dtype == like.values.dtype:
            return column
        return Scalar(column.values.astype(like.values.dtype), column.valid, like.kind)
    if isinstance(column, ListOf) and isinstance(like, ListOf):
        return ListOf(column.offsets, cast(column.child, like.child), column.valid)
    if isinstance(column, Struct) and isinstance(like, Struct):
        members = {
            name: cast(column.fields[name], inner) if name in column.fields else nulls(inner, len(column))
            for name, inner in like.fields.items()
        }
        return Struct(members, len(column), column.valid)
    return column


@lru_cache(_SCHEMAS_KEPT)
def _empty(schema: EventSchema) -> Mapping[str, Column]:
    """Kept, for each window of a session has much the same types: half of what a window cost."""
    return columns_without_rows(schema)


def _shape(column: Column) -> Hashable:
    """Equal for columns that are joined with the same others."""
    if isinstance(column, Scalar):
        return column.kind, column.values.dtype.str
    if isinstance(column, ListOf):
        return ListOf, _shape(column.child)
    if isinstance(column, Struct):
        return Struct, tuple((name, _shape(inner)) for name, inner in column.fields.items())
    return type(column).__name__


def _common(one: Column, other: Column) -> Column | None:
    """A column without rows of the kind that holds the values of both without loss, or None.

    Structures hold the members of both.
    """
    if isinstance(one, Scalar) and isinstance(other, Scalar):
        return _common_scalar(one, other)
    if isinstance(one, ListOf) and isinstance(other, ListOf):
        child = _common(one.child, other.child)
        return None if child is None else ListOf(one.offsets, child)
    if isinstance(one, Struct) and isinstance(other, Struct):
        members: dict[str, Column] = dict(one.fields)
        for name, column in other.fields.items():
            common = _common(members[name], column) if name in members else column
            if common is None:
                return None
            members[name] = common
        return Struct(members, 0)
    return one if type(one) is type(other) else None


def _common_scalar(one: Scalar, other: Scalar) -> Scalar | None:
    if one.kind == other.kind and one.values.dtype == other.values.dtype:
        return one
    if one.kind in _NOT_PROMOTED or other.kind in _NOT_PROMOTED:
        return None
    dtype = np.promote_types(one.values.dtype, other.values.dtype)
    if dtype.kind == "f" and (one.values.dtype.kind != "f" or other.values.dtype.kind != "f"):
        return None  # a 64-bit number does not survive as a float
    return Scalar(np.zeros(0, dtype), None, one.kind if one.values.dtype == dtype else other.kind)
