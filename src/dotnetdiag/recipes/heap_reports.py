"""What ``gcdump report`` and its relatives say of a heap, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dotnetdiag.recipes.limit import Limit
from dotnetdiag.table import Table

if TYPE_CHECKING:
    from dotnetdiag.heap.difference import HeapDiff
    from dotnetdiag.heap.heap import Heap


def summary(heap: Heap) -> dict[str, Any]:
    """``nodes edges bytes complete``, what is missing, and what is known of the process."""
    facts = heap.facts
    return {
        "nodes": heap.nodes,
        "edges": heap.edges,
        "bytes": heap.bytes,
        "complete": heap.completeness.complete,
        "problems": list(heap.completeness.problems),
        "pid": facts.pid or None,
        "process": facts.process,
        "collected": None if facts.collected is None else facts.collected.isoformat(),
        "pause_ms": facts.pause_ms,
    }


def report(heap: Heap) -> dict[str, Any]:
    """The summary, and ``types``: ``type module count bytes retained_bytes``, most bytes first."""
    return {**summary(heap), "types": heap.types.to_pylist()}


def sorted_rows(rows: Table, by: str) -> Table:
    """Rows of a report that are in the order of bytes, in that of ``bytes``, ``count`` or ``retained``, as far as they have it."""
    name = {"retained": "retained_bytes"}.get(by, by)
    if by == "bytes" or name not in rows.columns:
        return rows
    order = np.argsort(-rows.numpy(name).astype(np.int64), kind="stable")
    columns = {one: rows[one].take(order) for one in rows.columns}
    return Table(columns, title=rows.title, units=rows.units)


def grown(made: HeapDiff, limit: Limit | None) -> list[str]:
    """The types that grew by more bytes than the limit: an amount, or a share of all bytes before; all together is ``total``."""
    if limit is None:
        return []
    most = limit.of(made.before_bytes)
    names = made.types.values("type")
    sizes = made.types.values("bytes_grown")
    found = [str(name) for name, size in zip(names, sizes, strict=True) if size > most]
    return (["total"] if made.grown_bytes > most else []) + found


def parse_growth(text: str) -> Limit:
    """``5%`` of all bytes before, ``10MB``, ``500000``. Raises GrammarError."""
    stripped = text.strip()
    number = stripped.removesuffix("%").strip()
    if stripped.endswith("%") and number.replace(".", "", 1).isdecimal() and number.isascii():
        return Limit(amount=float(number), percent=True)
    from dotnetdiag.recipes.sizes import size_bytes_of

    return Limit(amount=float(size_bytes_of(stripped, "limit")), percent=False)
