"""Of very many methods those whose code is in a call stack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.events import EventSchema, Scalar, decode
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.symbol_events import METHOD_ROLES, Role, wanted_events

if TYPE_CHECKING:
    from dotnetdiag.nettrace import HeaderColumns, Metadata, StackTable

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
        self._starts = np.zeros(0, np.uint64)

    @classmethod
    def of(
        cls, metadata: Mapping[int, Metadata], pointer_size: int, stacks: StackTable, buffer: Array
    ) -> UsedCode | None:
        """That of a recording; None where methods tell of each other: of which module an entry point is, or what one is called that is told without
        its name.
        """
        wanted, _ = wanted_events(metadata, pointer_size)
        methods = {number: schema for number, (role, schema) in wanted.items() if role in METHOD_ROLES}
        told = [{field.name for field in schema.fields} for schema in methods.values()]
        if any(role is Role.ENTRY_POINT for role, _ in wanted.values()) or not all(_NAME in names for names in told):
            return None
        addresses = _addresses(stacks)
        return None if addresses is None else cls(methods, addresses, buffer)

    def look_at(self, headers: HeaderColumns) -> None:
        """Take note of where code begins that stacks go through. Events of one method at one place may say different sizes; all are kept then."""
        for rows, start, size, is_told in self._methods(headers):
            end = start + size  # where a call returns to may be behind the last byte
            used = np.searchsorted(self._addresses, start) < np.searchsorted(self._addresses, end, "right")
            found = start[(used | (end < start)) & is_told]
            if len(rows) and len(found):
                self._starts = distinct(np.append(self._starts, found))

    def among(self, headers: HeaderColumns) -> HeaderColumns:
        """The events of these methods, and all others."""
        keep = np.ones(len(headers), np.bool_)
        for rows, start, _, is_told in self._methods(headers):
            keep[rows] = is_among(start, self._starts) | ~is_told
        return headers if keep.all() else headers[keep]

    def _methods(self, headers: HeaderColumns) -> Iterator[tuple[Array, Array, Array, Array]]:
        """Of each type the rows, where code begins, its bytes, and whether both are told."""
        for number, schema in self._schemas.items():
            rows = np.flatnonzero(headers.metadata_id == number)
            offsets, lengths = headers.payload_offset[rows], headers.payload_length[rows]
            table = decode(schema, self._buffer, offsets, lengths, fields=_WHERE, infer_layout=False)
            columns = [one for one in (table[name] for name in _WHERE) if isinstance(one, Scalar)]
            if len(columns) < len(_WHERE):
                continue
            is_told = np.ones(len(rows), np.bool_)
            for column in columns:
                if column.valid is not None:
                    is_told &= column.valid
            start, size = (column.values.astype(np.uint64) for column in columns)
            yield rows, start, size, is_told


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
