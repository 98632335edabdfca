"""What ``gcdump report`` and its relatives say of a heap, as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import GrammarError

if TYPE_CHECKING:
    from dotnetdiag.heap.difference import HeapDiff
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.heap.type_totals import TypeTotals
    from dotnetdiag.recipes.limit import Limit
    from dotnetdiag.table import Table


def summary(heap: Heap | TypeTotals) -> dict[str, Any]:
    """``nodes edges bytes complete``, what is missing, and what is known of the process. ``nodes`` are those of the graph, ``objects`` what the
    program has made; ``dump`` is which of the ``dumps`` of a recording it is; ``sample`` is a sentence where the file is a sample of PerfView's,
    whose numbers all these are.
    """
    facts = heap.facts
    return {
        "nodes": heap.nodes,
        "edges": heap.edges,
        "bytes": heap.bytes,
        "objects": heap.objects,
        "complete": heap.completeness.complete,
        "problems": list(heap.completeness.problems),
        "sample": facts.sample,
        "pid": facts.pid or None,
        "process": facts.process,
        "collected": None if facts.collected is None else facts.collected.isoformat(),
        "pause_ms": facts.pause_ms,
        "dump": facts.dump,
        "dumps": facts.dumps,
    }


def report(heap: Heap | TypeTotals, by: str = "bytes") -> dict[str, Any]:
    """The summary, and ``types``: a table, or rows, of ``type module count bytes retained_bytes``, in the order of :func:`sorted_rows`."""
    return {**summary(heap), "types": _types(heap, by)}


def type_rows(heap: Heap | TypeTotals, by: str = "bytes") -> list[dict[str, Any]]:
    """The rows of types, in the order of :func:`sorted_rows`."""
    types = _types(heap, by)
    return types if isinstance(types, list) else types.to_pylist()


def _types(heap: Heap | TypeTotals, by: str) -> Table | list[dict[str, Any]]:
    from dotnetdiag.heap.type_totals import TypeTotals

    if not isinstance(heap, TypeTotals):
        return sorted_rows(heap.types, by)
    return heap.rows if by == "bytes" else sorted(heap.rows, key=lambda row: -row[_COLUMNS.get(by, by)])


_COLUMNS = {"retained": "retained_bytes"}


def sorted_rows(rows: Table, by: str) -> Table:
    """Rows of a report that are in the order of bytes, in that of ``bytes``, ``count`` or ``retained``, as far as they have it."""
    name = _COLUMNS.get(by, by)
    if by == "bytes" or name not in rows.columns:
        return rows
    import numpy as np

    from dotnetdiag.table import Table

    order = np.argsort(-rows.numpy(name).astype(np.int64), kind="stable")
    columns = {one: rows[one].take(order) for one in rows.columns}
    return Table(columns, title=rows.title, units=rows.units)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """What grew by more bytes than a limit: all together (``total``), and rows of the types that changed."""

    total: bool = False
    rows: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    """Of both, as programs get them: ``total``, and the types."""


def grown(made: HeapDiff, limit: Limit | None) -> Grown:
    """What grew by more than the limit: an amount, or a share of all bytes before."""
    if limit is None:
        return Grown()
    most = limit.of(made.before_bytes)
    total = made.grown_bytes > most
    rows = [row for row, size in enumerate(made.types.values("bytes_grown")) if size > most]
    names = made.types.values("type")
    return Grown(
        total=total,
        rows=tuple(rows),
        names=(*(("total",) if total else ()), *(str(names[row]) for row in rows)),
    )


def way_of_growth(before: Heap, after: Heap, made: HeapDiff) -> tuple[str, ...]:
    """From the roots to the type that grew most: the types on the way on which most of its bytes are held that were not there before. Empty where
    none grew, and where it is not known.
    """
    if not (before.has_roots and after.has_roots):
        return ()
    from dotnetdiag.heap.holders import is_pseudo_node
    from dotnetdiag.heap.way_growth import BytesByWay, GrownWays

    rows = zip(*(made.types.values(name) for name in ("bytes_grown", "type", "module")), strict=True)
    grown = [row for row in rows if row[1] and row[0] > 0 and not is_pseudo_node(row[1])]
    if not grown:
        return ()
    _, name, module = max(grown, key=lambda one: one[0])
    return GrownWays(BytesByWay.of(before), after).path(name, module) or ()


def parse_growth(text: str) -> Limit:
    """``5%`` of all bytes before, ``10MB``, ``500000``. Raises GrammarError."""
    from dotnetdiag.recipes.limit import Limit

    stripped = text.strip()
    number = stripped.removesuffix("%").strip()
    if stripped.endswith("%") and number.replace(".", "", 1).isdecimal() and number.isascii():
        return Limit(amount=float(number), percent=True)
    if not stripped[:1].isdigit():
        raise GrammarError("limit", text, 0, "write 5% (of all bytes before), 100MB, 1.5GB or 64MiB")
    from dotnetdiag.recipes.sizes import size_bytes_of

    if not number.strip("0."):
        return Limit(amount=0.0, percent=False)  # nothing may grow
    return Limit(amount=float(size_bytes_of(stripped, "limit")), percent=False)
