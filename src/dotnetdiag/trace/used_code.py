"""Of very many methods those whose code is in a call stack."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import EventSchema, Scalar, decode
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.symbol_events import METHOD_ROLES, Role, wanted_events

if TYPE_CHECKING:
    from dotnetdiag.nettrace import HeaderColumns, StackTable
    from dotnetdiag.trace.raw import RawTrace

Array: TypeAlias = "np.ndarray[Any, Any]"

_WHERE = ("MethodStartAddress", "MethodSize")
_NAME = "MethodName"
_HELD = 1 << 20
"""Addresses that are held before those that are the same are left out."""


class UsedCode:
    """Who makes methods as it runs has hundreds of thousands of them, a kilobyte of memory for each: 640 MB of a report on a recording of 180. Those
    that no stack goes through need no name.
    """

    def __init__(self, schemas: Mapping[int, EventSchema], addresses: Array, buffer: Array) -> None:
        self._schemas, self._addresses, self._buffer = schemas, addresses, buffer

    @classmethod
    def of(cls, raw: RawTrace) -> UsedCode | None:
        """That of a recording; None where methods tell of each other: of which module an entry point is, or what one is called that is told without
        its name.
        """
        wanted, _ = wanted_events(raw.metadata, raw.meaning.info.pointer_size)
        methods = {number: schema for number, (role, schema) in wanted.items() if role in METHOD_ROLES}
        told = [{field.name for field in schema.fields} for schema in methods.values()]
        if any(role is Role.ENTRY_POINT for role, _ in wanted.values()) or not all(_NAME in names for names in told):
            return None
        addresses = _addresses(raw.source.stacks)
        return None if addresses is None else cls(methods, addresses, raw.buffer)

    def among(self, headers: HeaderColumns) -> HeaderColumns:
        """The events of these methods, and all others."""
        keep = np.ones(len(headers), np.bool_)
        for number, schema in self._schemas.items():
            rows = np.flatnonzero(headers.metadata_id == number)
            if len(rows):
                keep[rows] = self._are_used(schema, headers.payload_offset[rows], headers.payload_length[rows])
        return headers if keep.all() else headers[keep]

    def _are_used(self, schema: EventSchema, offsets: Array, lengths: Array) -> Array:
        table = decode(schema, self._buffer, offsets, lengths, fields=_WHERE, infer_layout=False)
        start, size = (table[name] for name in _WHERE)
        if not isinstance(start, Scalar) or not isinstance(size, Scalar):
            return np.ones(len(offsets), np.bool_)
        begin = start.values.astype(np.uint64)
        end = begin + size.values.astype(np.uint64)  # where a call returns to may be behind the last byte
        used = np.searchsorted(self._addresses, begin) < np.searchsorted(self._addresses, end, "right")
        for column in (start, size):
            if column.valid is not None:
                used |= ~column.valid
        return np.asarray(used | (end < begin))


def _addresses(stacks: StackTable) -> Array | None:
    """All different ones, ascending; None of stacks that are not of whole addresses."""
    kind = np.dtype(f"<u{stacks.pointer_size}")
    found, held = [np.zeros(0, np.uint64)], 0
    for _, data in stacks.runs(0):
        if len(data) % stacks.pointer_size:
            return None
        found.append(distinct(np.frombuffer(data, kind)).astype(np.uint64))
        held += len(found[-1])
        if held > _HELD:
            found = [distinct(np.concatenate(found))]
            held = 0
        stacks.let_go()
    return distinct(np.concatenate(found))
