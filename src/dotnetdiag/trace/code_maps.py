"""Which instruction of the intermediate language (IL) a place in jitted code was made of: Method/ILToNativeMap events and those of rundown.

Rule 1: a map is of a method's code in one version (tier, OSR): MethodID and ReJITID say which. Where several are of the same, it is the one that
ends nearest to the end of the code, and not behind it.
Rule 2: .NET Core 3 says the version of code (0, 1, …) but not of maps: there the first map of a method is of version 0, the second of 1. Those of
rundown come first, for they are of all versions.
Rule 3: a place belongs to the last entry at or before it.
Rule 4: a prolog is of the entry behind it, what is entered first (in a method, a handler, or a loop: OSR), and an epilog of that before it, what
returns. Of other code without an IL offset (NO_MAPPING) the map says nothing: it begins with a block that the compiler made, and may be long. The
nearest is taken, and said to be no more than that: the entry before, else the first behind, but none beyond a prolog or an epilog, for there code
does not run on into the next. Debuggers have no line there (MAPPING_UNMAPPED_ADDRESS), TraceEvent has the first of the method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag import events
from dotnetdiag.events import EventSchema, Scalar
from dotnetdiag.events.columns import ListOf
from dotnetdiag.nettrace import HeaderColumns, ThreadInfo
from dotnetdiag.trace.bounds import ANY_PROCESS, process_ids
from dotnetdiag.trace.symbol_events import RUNDOWN, RUNTIME

Array: TypeAlias = "np.ndarray[Any, Any]"

_ORDER = {(RUNDOWN, 150): 0, (RUNDOWN, 149): 1, (RUNTIME, 190): 2}
"""Which events these are, and of which maps are taken where they are of the same code."""
_KEY = ("MethodID", "ReJITID")
_OFFSETS = ("ILOffsets", "NativeOffsets")
NO_MAPPING, PROLOG, EPILOG = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
"""In the place of IL offsets (ICorDebugInfo::MappingTypes)."""
NOT_KNOWN = -1
"""In the place of an IL offset: no map says it."""
_WIDE = 32
"""Bits of a native offset; a code's number stands above them."""


def is_code_map(schema: EventSchema) -> bool:
    """Whether events of this type are maps."""
    return (schema.provider, schema.event_id) in _ORDER


class CodeMaps:
    """The maps of a trace. Their keys are read at once, the entries of those alone that are asked for.

    Never raises for what is in the trace: events that break, or whose fields are others, are left out.
    """

    def __init__(
        self,
        schemas: Mapping[int, EventSchema],
        headers: HeaderColumns,
        threads: Mapping[int, ThreadInfo],
        buffer: Array,
    ) -> None:
        """``headers`` are those of events of ``schemas``, by metadata id; ``buffer`` (u8) has their payloads."""
        self._schemas, self._headers, self._buffer = schemas, headers, buffer
        process = process_ids(threads, headers.thread)
        self._process: Array = np.full(len(headers), ANY_PROCESS, np.int64) if process is None else process
        self._key: Array = np.zeros((2, len(headers)), np.uint64)
        self._valid: Array = np.zeros(len(headers), np.bool_)
        for number, schema in schemas.items():
            rows = np.flatnonzero(headers.metadata_id == number)
            if len(rows) and {field.name for field in schema.fields}.issuperset((*_KEY, *_OFFSETS)):
                self._read_keys(schema, rows)
        self._number_versions()

    def __len__(self) -> int:
        return int(self._valid.sum())

    def _read_keys(self, schema: EventSchema, rows: Array) -> None:
        table = events.decode(
            schema,
            self._buffer,
            self._headers.payload_offset[rows],
            self._headers.payload_length[rows],
            fields=_KEY,
            lazy_text=True,
        )
        valid = np.ones(len(rows), np.bool_)
        for at, name in enumerate(_KEY):
            column = table[name]
            if not isinstance(column, Scalar):
                return
            self._key[at, rows] = column.values.astype(np.uint64)
            if column.valid is not None:
                valid &= column.valid
        self._valid[rows] = valid

    def _number_versions(self) -> None:
        """Rule 2, of each method whose maps all say 0."""
        usable = np.flatnonzero(self._valid)
        if not len(usable):
            return
        orders = {number: _ORDER[schema.provider, schema.event_id] for number, schema in self._schemas.items()}
        order = np.array([orders[number] for number in self._headers.metadata_id[usable].tolist()], np.int64)
        pairs = np.stack([self._process[usable].astype(np.uint64), self._key[0, usable]], axis=1)
        _, group = np.unique(pairs, axis=0, return_inverse=True)
        group = group.reshape(-1)
        groups = int(group.max()) + 1
        version, first = np.zeros(groups, np.uint64), np.full(groups, len(_ORDER), np.int64)
        np.maximum.at(version, group, self._key[1, usable])
        np.minimum.at(first, group, order)
        untold = version[group] == 0
        self._valid[usable[untold & (order > first[group])]] = False
        kept = np.flatnonzero(untold & (order == first[group]))
        kept = kept[np.lexsort((kept, group[kept]))]
        heads = np.flatnonzero(np.diff(group[kept], prepend=-1))
        counts = np.diff(np.append(heads, len(kept)))
        self._key[1, usable[kept]] = np.arange(len(kept)) - np.repeat(heads, counts)

    def il_offsets(self, codes: Sequence[Array], which: Array, native: Array) -> tuple[Array, Array]:
        """(IL offset (i64), whether the map says it) of each place: of the others it is that of code beside (rule 4), or ``NOT_KNOWN``.

        ``codes`` are processes, method ids, versions and sizes in bytes, one each; place ``i`` is ``native[i]`` bytes behind the begin of code
        ``which[i]``.
        """
        process, method, version, size = codes
        found, is_told = np.full(len(which), NOT_KNOWN, np.int64), np.zeros(len(which), np.bool_)
        maps, owner = self._maps_of(process, method, version)
        if not len(maps):
            return found, is_told
        owner_of, starts, il, told = self._entries(maps, owner, size.astype(np.int64))
        if not len(owner_of):
            return found, is_told
        keys = owner_of << _WIDE | starts
        place = np.searchsorted(keys, which.astype(np.int64) << _WIDE | native.astype(np.int64), side="right") - 1
        hit = (place >= 0) & (owner_of[np.maximum(place, 0)] == which)
        found[hit], is_told[hit] = il[place[hit]], told[place[hit]]
        return found, is_told

    def _maps_of(self, process: Array, method: Array, version: Array) -> tuple[Array, Array]:
        """(rows of maps, the code that each is of), of all maps that are of one of the codes."""
        usable = np.flatnonzero(self._valid)
        ours = np.stack([self._process[usable].astype(np.uint64), *self._key[:, usable]], axis=1)
        theirs = np.stack([process.astype(np.uint64), method, version], axis=1)
        _, number = np.unique(np.concatenate([ours, theirs]), axis=0, return_inverse=True)
        number = number.reshape(-1)
        mine, wanted = number[: len(ours)], number[len(ours) :]
        order = np.argsort(mine, kind="stable")
        first, last = (np.searchsorted(mine[order], wanted, side=side) for side in ("left", "right"))
        counts = last - first
        owner = np.repeat(np.arange(len(wanted)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return usable[order[np.repeat(first, counts) + within]], owner

    def _entries(self, maps: Array, owner: Array, size: Array) -> tuple[Array, Array, Array, Array]:
        """(code, native offset, IL offset, whether it is told) of all entries of the best map of each code, sorted by the first two."""
        parts = [part for number, schema in self._schemas.items() for part in self._decoded(number, schema, maps)]
        if not parts:
            return (np.zeros(0, np.int64),) * 4
        which, il, native = (np.concatenate([part[at] for part in parts]) for at in range(3))
        code = owner[which]
        # the place of the last entry of each map, and of each code the map that fits best
        reach = np.full(len(maps), -1, np.int64)
        np.maximum.at(reach, which, native)
        fits = np.flatnonzero((reach >= 0) & (reach <= size[owner]))
        best = np.full(len(size), -1, np.int64)
        order = fits[np.lexsort((fits, reach[fits]))]
        best[owner[order]] = order
        kept = best[code] == which
        code, il, native = code[kept], il[kept], native[kept]
        order = np.lexsort((np.arange(len(code)), native, code))
        code, il, native = code[order], il[order], native[order]
        return code, native, *_completed(code, il)

    def _decoded(self, number: int, schema: EventSchema, maps: Array) -> list[tuple[Array, Array, Array]]:
        which = np.flatnonzero(self._headers.metadata_id[maps] == number)
        if not len(which):
            return []
        rows = maps[which]
        table = events.decode(
            schema,
            self._buffer,
            self._headers.payload_offset[rows],
            self._headers.payload_length[rows],
            fields=_OFFSETS,
            lazy_text=True,
        )
        il, native = (table[name] for name in _OFFSETS)
        if not isinstance(il, ListOf) or not isinstance(native, ListOf):
            return []
        whole = np.flatnonzero(
            np.diff(il.offsets) == np.diff(native.offsets)
        )  # what breaks off has fewer of the second
        if len(whole) < len(which):
            il, native, which = il.take(whole), native.take(whole), which[whole]
        which = np.repeat(which, np.diff(il.offsets))
        values = [_numbers(il), _numbers(native)]
        return [(which, values[0], values[1])] if len(which) == len(values[0]) == len(values[1]) else []


def _numbers(column: ListOf) -> Array:
    """The numbers of all rows (i64), one row behind the other; nothing for lists of something else."""
    if not isinstance(column.child, Scalar):
        return np.zeros(0, np.int64)
    return column.child.values[column.offsets[0] : column.offsets[-1]].astype(np.int64)


def _completed(code: Array, il: Array) -> tuple[Array, Array]:
    """(IL offset or ``NOT_KNOWN``, whether the map says it) of entries by ascending place: rule 4."""
    count, has_il = len(il), il < EPILOG
    begins = np.ones(count, np.bool_)
    begins[1:] = (code[1:] != code[:-1]) | (il[1:] == PROLOG) | (il[:-1] == EPILOG)
    part, place = np.cumsum(begins), np.arange(count)
    before = np.maximum.accumulate(np.where(has_il, place, -1))
    behind = np.minimum.accumulate(np.where(has_il, place, count)[::-1])[::-1]
    is_before = (before >= 0) & (part[np.maximum(before, 0)] == part)
    is_behind = (behind < count) & (part[np.minimum(behind, count - 1)] == part)
    taken = np.where(is_before, before, np.minimum(behind, count - 1))
    told = has_il | ((il == PROLOG) & is_behind & (behind == place + 1))
    told |= (il == EPILOG) & is_before & (before == place - 1)
    return np.where(is_before | is_behind, il[taken], NOT_KNOWN), told
