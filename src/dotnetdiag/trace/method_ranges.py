"""Where the methods that the runtime announced lie, and when (nettrace.md §11)."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.trace.bounds import ALWAYS, FOREVER
from dotnetdiag.trace.code_ranges import NO_RANGES, CodeRanges
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.symbol_events import METHOD_ROLES, Role, RoleEvents, SymbolEvents

Array: TypeAlias = "np.ndarray[Any, Any]"

_ENTRY_LIMIT = 1 << 16
"""An R2R entry point has no size: it owns what follows it up to the next one, but not more than this."""


def method_ranges(events: SymbolEvents) -> CodeRanges:
    """Code of methods, one range for each time that a method lay at an address.

    The events of one (process, start, method) in order of time: a load begins a range, an unload ends it, rundown says
    that it was there all along. What follows an unload is a new range: ids of dynamic methods are used again. Of ranges
    whose begin nobody saw, the one that ended first was there first.
    """
    methods = events.of(*METHOD_ROLES)
    if methods is None:
        return NO_RANGES
    names = ("MethodStartAddress", "MethodID", "MethodSize", "ModuleID")
    start, method, size, module = (methods.column(name) for name in names)
    token, version = (methods.optional_column(name) for name in ("MethodToken", "ReJITID"))
    columns = [
        *(start, method, size.astype(np.uint64), module, methods.role, methods.text, methods.process, methods.time),
        *(token, version),
    ]
    order = np.lexsort((methods.row, methods.time, method, start, methods.process))
    start, method, size, module, role, text, process, time, token, version = (column[order] for column in columns)
    same = (start[1:] == start[:-1]) & (method[1:] == method[:-1]) & (process[1:] == process[:-1])
    is_unload = role == Role.UNLOAD.value
    new = np.ones(len(start), np.bool_)
    new[1:] = ~same | is_unload[:-1]
    firsts = np.flatnonzero(new)
    lasts = np.append(firsts[1:], len(start)) - 1
    end = start[firsts] + np.maximum.reduceat(size, firsts)
    return CodeRanges.of(
        start=start[firsts],
        end=np.where(end < start[firsts], start[firsts], end),
        begin=np.where(role[firsts] == Role.LOAD.value, time[firsts], ALWAYS),
        until=np.where(is_unload[lasts], time[lasts], FOREVER),
        seen=time[firsts],
        text=_with_texts_of_others(process[firsts], method[firsts], np.maximum.reduceat(text, firsts)),
        module=module[firsts],
        process=process[firsts],
        method=method[firsts],
        token=np.maximum.reduceat(token, firsts),
        version=np.maximum.reduceat(version, firsts),
    )


def _with_texts_of_others(process: Array, method: Array, text: Array) -> Array:
    """Ranges without texts (events 141, 142) take those of another range of the same method."""
    bare = np.flatnonzero(text < 0)
    if not len(bare):
        return text
    text = text.copy()
    for owner in distinct(process[bare]).tolist():
        rows, named = bare[process[bare] == owner], np.flatnonzero((text >= 0) & (process == owner))
        place, hit = _looked_up(method[rows], method[named])
        text[rows[hit]] = text[named[place[hit]]]
    return text


def _looked_up(wanted: Array, known: Array) -> tuple[Array, Array]:
    """Of each the place of the first that is the same, and whether there is one."""
    ids, first = np.unique(known, return_index=True)
    if not len(ids):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    place = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return first[place], ids[place] == wanted


def entry_point_ranges(events: SymbolEvents, methods: CodeRanges) -> CodeRanges:
    """Code of precompiled methods, to which R2RGetEntryPoint gives a start but no size.

    Only of use when the session saw every method being prepared, which is when it saw the runtime start: then code
    between an entry point and what begins next is that method's, or was never run.
    """
    entries = events.of(Role.ENTRY_POINT) if events.from_start else None
    if entries is None:
        return NO_RANGES
    points, prepared = entries.column("EntryPoint"), entries.column("MethodID")
    others = events.of(*METHOD_ROLES)
    parts = [NO_RANGES]
    for owner in distinct(entries.process).tolist():
        own = np.flatnonzero(entries.process == owner)
        start, first = np.unique(points[own], return_index=True)
        rows = own[first]
        begins = distinct(methods.start[methods.process == owner])
        edges = np.append(np.union1d(start, begins), np.uint64((1 << 64) - 1))
        fresh = ~np.isin(start, begins) & (start > 0) & (entries.text[rows] >= 0)
        start, rows = start[fresh], rows[fresh]
        following = edges[np.searchsorted(edges, start, side="right").clip(max=len(edges) - 1)]
        parts.append(
            CodeRanges.of(
                start=start,
                end=np.minimum(following, start + np.uint64(_ENTRY_LIMIT)),
                text=entries.text[rows],
                module=_modules_of(prepared[rows], others, owner),
                process=np.full(len(start), owner),
            )
        )
    return CodeRanges.concatenate(parts)


def _modules_of(method: Array, others: RoleEvents | None, process: int) -> Array:
    """The event of an entry point names no module; another event of the same method may."""
    module = np.zeros(len(method), np.uint64)
    if others is not None:
        own = np.flatnonzero(others.process == process)
        place, hit = _looked_up(method, others.column("MethodID")[own])
        module[hit] = others.column("ModuleID")[own][place[hit]]
    return module
