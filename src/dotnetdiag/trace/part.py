"""A part of a trace: which rows are kept when it is trimmed or filtered.

Beside the events asked for, a part keeps what gives names to others, whatever its time and provider:

* all of the rundown's events (methods, modules, assemblies, native maps),
* loads and unloads of methods, modules, assemblies and domains, entry points and IL maps, types (``Type/BulkType``) and
  the runtime's own description, of the runtime's provider,
* ``ProcessInfo``, and all of ``Universal.System`` (processes, mappings, symbols).

A part is written in time order. TraceEvent looks at the capture thread of events marked *sorted* only; what is left of
a runtime's batches begins with others, and would be counted as lost.

Stacks, activity ids, threads, sequence points and losses stay as well: see ``nettrace.rewrite``. Times stay those of
the whole trace, from its start.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import replace
from dotnetdiag.events.well_known import EVENT_PIPE, UNIVERSAL_SYSTEM
from dotnetdiag.nettrace import Contents
from dotnetdiag.trace.source import lookup, wanted_of
from dotnetdiag.trace.trace import Trace

RUNTIME = "Microsoft-Windows-DotNETRuntime"
RUNDOWN = "Microsoft-Windows-DotNETRuntimeRundown"
NAMING_IDS = frozenset({15, *range(141, 145), *range(151, 158), 159, 187, 190})
"""Ids of the runtime's provider that name things (nettrace.md §11)."""
COUNTED_IDS = frozenset({154, 159})
"""Of these the assemblies that were loaded, and looks for code that was compiled ahead: reports count them, within the time of a part alone."""


def naming_types(trace: Trace) -> set[int]:
    """Metadata ids of the events that give names to addresses, types and processes."""
    found = set()
    for number in trace.raw.type_ids:
        schema = trace.raw.types.name_of(number)
        if schema.provider in (RUNDOWN, EVENT_PIPE, UNIVERSAL_SYSTEM) or (
            schema.provider == RUNTIME and schema.event_id in NAMING_IDS
        ):
            found.add(number)
    return found


def part_of(
    trace: Trace,
    *,
    time: tuple[float | None, float | None] | None = None,
    metadata_ids: Iterable[int] | None = None,
    naming: bool = True,
) -> npt.NDArray[np.bool_]:
    """Which events of ``trace.contents`` to keep: those in ``time`` (seconds since the start, half-open) of the types
    ``metadata_ids`` (None: all), and with ``naming`` what gives them names.
    """
    headers = trace.raw.source.typed(trace.raw.contents.headers)
    keep = np.ones(len(headers), np.bool_)
    if time is not None:
        first, last = trace.raw.ticks_between(*time)
        keep &= (headers.time >= first) & (headers.time < last)
    if metadata_ids is not None:
        keep &= lookup(wanted_of(metadata_ids), headers.metadata_id)
    if naming:
        keep |= lookup(wanted_of(naming_types(trace)), headers.metadata_id)
    return keep


def in_time_order(contents: Contents) -> tuple[Contents, npt.NDArray[np.int64]]:
    """The same contents with the events of each segment in time order, all marked sorted; and the rows' old numbers."""
    headers = contents.headers
    order = contents.order()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    by_thread = np.argsort(headers.capture_thread, kind="stable")
    thread = headers.capture_thread[by_thread]
    if ((thread[1:] == thread[:-1]) & (np.diff(places[by_thread]) < 0)).any():  # equal times: numbers go first
        bounds = [*contents.segment_starts.tolist(), len(headers)]
        parts = [np.argsort(headers.time[a:b], kind="stable") + a for a, b in pairwise(bounds)]
        order = np.concatenate(parts)
    sorted_headers = replace(headers[order], is_sorted=np.ones(len(order), np.bool_))
    return replace(contents, headers=sorted_headers), order
