"""The columns of a table of events that come from the header: times, threads, types, activities, call stacks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.events import Column, EventSchema, Scalar, Text
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.layout import Kind
from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.nettrace.info import NO_TIME

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Schemas = Mapping[int, EventSchema]


def header_column(trace: Context, schemas: Schemas, headers: HeaderColumns, key: str) -> Column:
    """A column by its key (see :mod:`.header`), of events that are of some types by metadata id."""
    meaning = trace.meaning
    if key == "time":
        utc = meaning.utc_ns(headers)
        known = utc != NO_TIME
        valid = None if known.all() else known
        return Scalar(utc if valid is None else np.where(known, utc, 0), valid, Kind.TIMESTAMP)
    if key == "utc":
        return Text.from_pylist(meaning.utc_text(headers))
    if key == "ms":
        return Scalar(meaning.ms(headers), None, Kind.F8)
    if key == "pid":
        pid, known = meaning.pid(headers)
        return Scalar(pid, None if known.all() else known, Kind.U8)
    if key == "tid":
        return Scalar(meaning.tid(headers), None, Kind.U8)
    if key == "bytes":
        return Scalar(headers.payload_length, None, Kind.U4)
    if key == "stack_id":
        return Scalar(headers.stack, None, Kind.U4)
    if key == "leaf":
        return trace.leaves_of(headers)
    if key == "frames":
        return trace.frames_column(headers)
    if key in ("activity", "related"):
        ids = headers.activity if key == "activity" else headers.related
        if not ids.any():  # as of most events: no bytes for each, and the file need not be searched for them
            return Scalar(np.broadcast_to(np.zeros(1, "V16"), len(ids)), np.zeros(len(ids), np.bool_), Kind.GUID)
        guids = trace.guids.bytes().view("V16")
        return Scalar(guids[ids], None if ids.all() else ids != 0, Kind.GUID)
    return _type_column(trace, schemas, headers, key)


def _type_column(trace: Context, schemas: Schemas, headers: HeaderColumns, key: str) -> Column:
    which: np.ndarray[Any, Any]
    if len(schemas) == 1:
        distinct, which = np.array(list(schemas), np.uint32), np.zeros(len(headers), np.uint8)
    else:
        distinct, which = np.unique(headers.metadata_id, return_inverse=True)
    values = [_type_value(schemas[number], key) for number in distinct.tolist()]
    if key in ("provider", "event"):
        return Coded(Text.from_pylist(values), which)
    kind = Kind.U8 if key == "keywords" else Kind.I8
    column = np.array(values, np.uint64 if key == "keywords" else np.int64)[which]
    changed = trace.overrides
    if changed and key in ("version", "level", "opcode", "keywords"):
        lists, of_row = np.unique(headers.label_list, return_inverse=True)
        stated = [getattr(changed.get(index), key, None) for index in lists.tolist()]
        overridden = np.array([value is not None for value in stated], np.bool_)[of_row]
        column = np.where(overridden, np.array([value or 0 for value in stated], column.dtype)[of_row], column)
    return Scalar(column, None, kind)


def _type_value(schema: EventSchema, key: str) -> Any:
    """What a key of the header says of an event type."""
    if key == "event":
        return schema.name
    if key == "id":
        return schema.event_id
    return getattr(schema, key)
