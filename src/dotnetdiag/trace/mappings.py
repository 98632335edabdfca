"""What files are mapped where, and the symbols of perf maps and ELF files in them (version 6; nettrace.md §12)."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.bounds import KERNEL, KERNEL_START
from dotnetdiag.trace.code_ranges import NO_RANGES, CodeRanges
from dotnetdiag.trace.symbol_events import Role, SymbolEvents

Array: TypeAlias = "np.ndarray[Any, Any]"

_SYMBOLS_LIMIT = 1 << 22
"""Rows that symbols of mappings shared by many processes may multiply to."""
_PAGE = 4096


class Mappings:
    """The mapped files of a trace as ``ranges``, and the ``symbols`` in them, whose ``mapping`` is a row of ``ranges``."""

    def __init__(self, events: SymbolEvents) -> None:
        self._texts = events.texts
        self._described: dict[int, tuple[str, int]] = {}
        self.ranges, ids = _mapped(events)
        self.symbols = _symbols(events, ids, self.ranges.process)

    def path(self, row: int) -> str:
        """The file that is mapped."""
        return self._description(row)[0]

    def offset(self, row: int, address: int) -> int:
        """The place of an address in the file as its symbols count."""
        ranges, shift = self.ranges, self._description(row)[1]
        return address - int(ranges.start[row]) + int(ranges.file_offset[row]) + shift

    def _description(self, row: int) -> tuple[str, int]:
        """(path, what is added to a place in the file for the address that its symbols have)."""
        found = self._described.get(row)
        if found is None:
            path, metadata = next(self._texts.take(self.ranges.text[row : row + 1]))
            found = self._described[row] = path, _address_shift(metadata)
        return found


def _mapped(events: SymbolEvents) -> tuple[CodeRanges, Array]:
    """The ranges of mappings and their ids; those of the kernel are :data:`KERNEL`'s."""
    mapped = events.of(Role.MAPPING)
    if mapped is None:
        return NO_RANGES, np.zeros(0, np.uint64)
    start, end = mapped.column("StartAddress"), mapped.column("EndAddress")
    kernel = start >= np.uint64(KERNEL_START)
    # inclusive ends (nettrace.md §12): of kernel mappings, and of those that end one byte before a page does
    inclusive = kernel | ((end + np.uint64(1)) % np.uint64(_PAGE) == 0)
    whole = _possible(start, end)
    columns = {
        "start": start,
        "end": _past(end, inclusive),
        "begin": mapped.time,
        "seen": mapped.time,
        "text": mapped.text,
        "file_offset": mapped.column("FileOffset"),
        "process": np.where(kernel, KERNEL, mapped.process),
    }
    return CodeRanges.of(**{name: column[whole] for name, column in columns.items()}), mapped.column("Id")[whole]


def _symbols(events: SymbolEvents, ids: Array, process: Array) -> CodeRanges:
    """The ranges of ProcessSymbol, once for each process that announced the mapping."""
    symbols = events.of(Role.SYMBOL)
    if symbols is None or not len(ids):
        return NO_RANGES
    start, end, mapping = (symbols.column(name) for name in ("StartAddress", "EndAddress", "MappingId"))
    whole = np.flatnonzero(_possible(start, end))
    # a mapping said twice of one process is one
    order = np.lexsort((np.arange(len(ids)), process, ids))
    keep = np.ones(len(order), np.bool_)
    keep[1:] = (ids[order][1:] != ids[order][:-1]) | (process[order][1:] != process[order][:-1])
    order = order[keep]
    ids = ids[order]
    low = np.searchsorted(ids, mapping[whole], side="left")
    count = np.searchsorted(ids, mapping[whole], side="right") - low
    if int(count.sum()) > _SYMBOLS_LIMIT:
        count = np.minimum(count, 1)
    which = np.repeat(whole, count)
    place = np.repeat(low, count) + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
    return CodeRanges.of(
        start=start[which],
        end=_past(end, start >= np.uint64(KERNEL_START))[which],
        text=symbols.text[which],
        mapping=order[place],
        process=process[order[place]],
    )


def _possible(start: Array, end: Array) -> Array:
    """Zeroed symbols of the kernel have impossible sizes (nettrace.md §12)."""
    possible: Array = (end > start) & (end - start < np.uint64(KERNEL_START)) & (start > 0)
    return possible


def _past(end: Array, inclusive: Array) -> Array:
    """The first address behind a range; the last address there is stands behind none."""
    past: Array = end + (inclusive & (end < np.uint64((1 << 64) - 1))).astype(np.uint64)
    return past


def _address_shift(metadata: str) -> int:
    """``p_vaddr - p_offset`` of a mapping's SymbolMetadata (JSON, nettrace.md §12), 0 where it says nothing."""
    try:
        found = json.loads(metadata) if metadata else {}
        if not isinstance(found, dict):
            return 0
        named = {str(name).lower(): value for name, value in found.items()}
        return _whole(named.get("p_vaddr", 0)) - _whole(named.get("p_offset", 0))
    except (ValueError, RecursionError):
        return 0


def _whole(value: object) -> int:
    """A number, or its text in decimal or with ``0x``."""
    return int(value, 0) if isinstance(value, str) else value if isinstance(value, int) else 0
