"""Events that carry others: the runtime's GCDynamicEvent names in its payload what it holds (nettrace.md §10.5).

``Name: z16, DataSize: u32, Data, ClrInstanceID: u16``. Each thing that is carried is a type of its own, with a metadata
record as a file would define it; all that comes after sees types only. Names are those of the runtime, but come out of
a file: what is no name, and what comes after the first ``TYPES_LIMIT``, stays a GCDynamicEvent.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag._patterns import pattern
from dotnetdiag.events import kernels, well_known
from dotnetdiag.events.titles import is_carrier
from dotnetdiag.nettrace import EventBatch, HeaderColumns, Metadata

Array: TypeAlias = "np.ndarray[Any, Any]"

TYPES_LIMIT = 1024
"""Names that are told apart; the runtimes up to 10 know six. Of more than that, which ones depends on the order in which blocks are decoded."""
_NAME = pattern(r"[A-Za-z]\w{0,62}", re.ASCII)
_NAME_BYTES = 2 * 64
_SIZE_BYTES = 4
_INSTANCE_BYTES = 2
_FEW = 16
_MASKED = 1 << 20
"""Ids below are looked for at once. Comparing all events with each was a tenth of a pass over four million."""
_FACTORS = np.array([pow(0x9E3779B97F4A7C15, power, 1 << 64) for power in range(1, _NAME_BYTES // 2 + 1)], np.uint64)


class CarriedTypes:
    """The types that events carry: ``records`` by the ids that they are given, from ``first_id()`` on, which is asked once."""

    def __init__(self, first_id: Callable[[], int]) -> None:
        self.records: dict[int, Metadata] = {}
        self._first_id = first_id
        self._next = 0
        self._ids: dict[tuple[Metadata, str, bool], int] = {}
        self._carriers: tuple[int, frozenset[int]] = (0, frozenset())
        self._mask = np.zeros(0, np.bool_)

    def carriers(self, metadata: Mapping[int, Metadata]) -> frozenset[int]:
        """The ids of the types that carry others, of records that only become more."""
        if len(metadata) != self._carriers[0]:
            found = frozenset(number for number, record in metadata.items() if is_carrier(record))
            self._carriers = len(metadata), found
            self._mask = np.zeros(max((one for one in found if one < _MASKED), default=-1) + 1, np.bool_)
            self._mask[[one for one in found if one < _MASKED]] = True
        return self._carriers[1]

    def typed_batch(self, batch: EventBatch) -> EventBatch:
        """The batch with the types that its events carry."""
        headers = self.typed(batch.headers, batch.buffer, batch.metadata)
        if headers is batch.headers:
            return batch
        return replace(batch, headers=headers, metadata=ChainMap(self.records, batch.metadata))  # type: ignore[arg-type]

    def typed(self, headers: HeaderColumns, buffer: Array, metadata: Mapping[int, Metadata]) -> HeaderColumns:
        """The headers with the ids of what is carried in the place of the carriers' own."""
        carriers = self.carriers(metadata)
        ids = headers.metadata_id
        if not carriers:
            return headers
        is_masked = max(carriers) < _MASKED
        rows = kernels.select(ids, self._mask) if is_masked else np.flatnonzero(np.isin(ids, list(carriers)))
        if not len(rows):
            return headers
        made = ids.copy()
        for carrier in set(ids[rows].tolist()):  # np.unique imports more of numpy, for 10 ms
            some = rows[ids[rows] == carrier]
            offsets, lengths = headers.payload_offset[some], headers.payload_length[some].astype(np.int64)
            made[some] = self._types(metadata[carrier], buffer, offsets, lengths)
        return replace(headers, metadata_id=made)

    def _types(self, carrier: Metadata, buffer: Array, offsets: Array, lengths: Array) -> Array:
        names, fronts = _known()
        which = fronts.of(buffer, offsets, lengths)
        types = np.full(len(names) + 1, carrier.metadata_id, np.uint32)
        for number in np.flatnonzero(np.bincount(which, minlength=len(types))[:-1]).tolist():
            types[number] = self._id_of(carrier, names[number], known=True)
        ids: Array = types[which]
        others = np.flatnonzero(which == len(names))
        for name, rows in _by_name(buffer, offsets[others], lengths[others]):
            rows = others[rows]
            rows = rows[lengths[rows] >= 2 * len(name) + 2 + _SIZE_BYTES]  # of others the size is cut off
            if len(rows):
                ids[rows] = self._id_of(carrier, name, known=False)
        return ids

    def _id_of(self, carrier: Metadata, name: str, *, known: bool) -> int:
        """The id of a type; that of the carrier when there are too many."""
        found = self._ids.get((carrier, name, known))
        if found is None:
            self._next = self._next or self._first_id()
            if len(self.records) >= TYPES_LIMIT or self._next > 0xFFFFFFFF:
                return carrier.metadata_id
            found = self._ids[carrier, name, known] = self._next
            self._next += 1
            record = replace(carrier, metadata_id=found, name=well_known.carried_name(name), declared=known, fields=())
            self.records[found] = record
        return found


@cache
def _known() -> tuple[tuple[str, ...], kernels.Fronts]:
    """The names that a runtime carries things under, and how payloads begin that hold the whole of one."""
    names = well_known.carried_names()
    sizes = [well_known.carried_size(name) for name in names]
    fronts = [_z16(name) + size.to_bytes(_SIZE_BYTES, "little") for name, size in zip(names, sizes, strict=True)]
    lengths = [len(front) + size + _INSTANCE_BYTES for front, size in zip(fronts, sizes, strict=True)]
    return names, kernels.Fronts([*zip(fronts, lengths, strict=True)])


def _z16(name: str) -> bytes:
    return f"{name}\0".encode("utf-16-le")


def _by_name(buffer: Array, offsets: Array, lengths: Array) -> Iterator[tuple[str, Array]]:
    """The rows of each name. Few names are compared one after the other: taking all out first cost a report of a million events a quarter of its
    time.
    """
    left = np.arange(len(offsets))
    for _ in range(_FEW):
        if not len(left):
            return
        first = int(offsets[left[0]])
        name = _name_in(buffer[first : first + min(int(lengths[left[0]]), _NAME_BYTES)].tobytes())
        if name is None:
            break
        alike = kernels.Fronts([(_z16(name), -1)]).of(buffer, offsets[left], lengths[left]) == 0
        yield name, left[alike]
        left = left[~alike]
    for begin, rows in _groups(_begins(buffer, offsets[left], lengths[left])) if len(left) else ():
        other = _name_in(begin)
        if other is not None:
            yield other, left[rows]


def _begins(buffer: Array, offsets: Array, lengths: Array) -> Array:
    """The names of payloads and their ends (a row each), with zeros behind."""
    places = offsets[:, None] + np.arange(_NAME_BYTES)
    inside = np.arange(_NAME_BYTES) < lengths[:, None]
    units = np.where(inside, buffer[np.where(inside, places, 0)], 0).astype(np.uint8).view("<u2")
    ended = np.logical_or.accumulate(units == 0, axis=1)
    closed = ended & (2 * np.arange(1, units.shape[1] + 1) <= lengths[:, None])  # the end itself is of the payload
    units[ended] = 0
    units[~closed.any(axis=1)] = 0  # no name, as the empty one
    return units


def _groups(rows: Array) -> list[tuple[bytes, Array]]:
    """Equal rows together: what they hold, and which they are, in the order of their first. (Some may be in two groups.)"""
    hashes = (rows.astype(np.uint64) * _FACTORS).sum(axis=1, dtype=np.uint64)
    order = np.argsort(hashes, kind="stable")
    differs = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    groups = np.split(order, np.flatnonzero(differs) + 1)
    return [(rows[group[0]].tobytes(), group) for group in sorted(groups, key=lambda group: int(group[0]))]


def _name_in(payload: bytes) -> str | None:
    text, end, _ = payload[: len(payload) & ~1].decode("utf-16-le", "replace").partition("\0")
    return text if end and _NAME.fullmatch(text) else None
