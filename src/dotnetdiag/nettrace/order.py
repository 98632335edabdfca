"""The order in which events happened, from the order in which they were written (nettrace.md §8).

The rule for a stream: one queue per capture thread; an event marked *sorted* first lets out all queued events older
than itself (by time; equal times by the thread that appeared first), then goes out itself; at a sequence point all
go out.

For a whole file that is one stable sort by (segment, time, not sorted, thread in order of appearance, position):
of the events with one time T in a segment, the sorted ones go out as they come, and the queued ones wait for the first
sorted event later than T, or the end of the segment. The tests hold this against the queues.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.columns import HeaderColumns


def sort_order(
    headers: HeaderColumns,
    segment_starts: npt.NDArray[np.int64] | None = None,
    *,
    in_file_order: bool = False,
) -> npt.NDArray[np.int64]:
    """Row numbers in time order. ``segment_starts``: rows where segments begin (default: all is one segment).

    NetPerf files are in time order as they are: ``in_file_order``.
    """
    rows = len(headers)
    if in_file_order or not rows:
        return np.arange(rows, dtype=np.int64)
    starts = np.zeros(1, np.int64) if segment_starts is None else np.asarray(segment_starts, np.int64)
    edges = np.sort(np.concatenate([starts[(starts >= 0) & (starts < rows)], [0, rows]]))
    edges = edges[np.append(True, edges[1:] != edges[:-1])]  # as numpy.unique, which loads numpy.ma
    order = np.empty(rows, np.int64)
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        part = np.argsort(headers.time[first:last], kind="stable")
        part += first
        order[first:last] = part
    time = headers.time[order]
    inner = np.ones(rows - 1, np.bool_)
    inner[edges[1:-1] - 1] = False
    tied = (time[1:] == time[:-1]) & inner
    if tied.any():
        _order_ties(headers, order, tied)
    return order


def _order_ties(headers: HeaderColumns, order: npt.NDArray[np.int64], tied: npt.NDArray[np.bool_]) -> None:
    """Reorder rows of equal time within a segment: ``tied[i]`` says that places ``i`` and ``i + 1`` are such."""
    member = np.zeros(len(order), np.bool_)
    member[:-1] |= tied
    member[1:] |= tied
    places = np.flatnonzero(member)
    new_group = np.ones(len(places), np.bool_)
    new_group[1:] = ~tied[places[1:] - 1]
    group = np.cumsum(new_group)
    rows = order[places]
    threads, first_seen, which = np.unique(headers.capture_thread, return_index=True, return_inverse=True)
    appearance = np.empty(len(threads), np.int64)
    appearance[np.argsort(first_seen, kind="stable")] = np.arange(len(threads))
    is_sorted = headers.is_sorted[rows]
    rank = np.where(is_sorted, -1, appearance[which[rows]])
    order[places] = rows[np.lexsort((rows, rank, group))]
