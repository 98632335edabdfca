"""The types of a heap for people: what ``gcdump report`` prints. Without click, which takes as long as a heap of a million objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag.cli.render import counted, echo, say_more, table
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.heap import Heap
    from dotnetdiag.heap.type_totals import TypeTotals

SHOWN = 30
_PROBLEM_WIDTH = 100
"""Of the first problem, where all are said on stderr."""


def say_problems(heap: Heap | TypeTotals, name: str = "") -> None:
    """What is missing of a heap, which is that of a name where it is one of several."""
    of = f" of {name}" if name else ""
    for problem in heap.completeness.problems:
        echo(f"The heap{of} is not complete: {problem}.", err=True)
    if heap.facts.sample is not None:
        echo(f"Not all objects are in {name or 'it'}: {heap.facts.sample}.", err=True)


def show_way(name: str, path: Sequence[str]) -> None:
    """What holds objects of a type, from the roots on."""
    echo()
    echo(f"{name} is held by")
    for level, name in enumerate(path):
        echo(f"  {'  ' * level}{name}")


def show_types(heap: Heap | TypeTotals, rows: list[dict[str, Any]], by: str, number: int) -> None:
    """Totals, and ``number`` of the rows that are what is taken together ``by``."""
    echo(f"{heap.bytes:>14,}  GC Heap bytes")
    echo(f"{heap.objects:>14,}  GC Heap objects")
    echo(f"{heap.edges:>14,}  Total references")
    if not heap.completeness.complete:
        first, *others = heap.completeness.problems
        more = f", and {counted(len(others), 'more problem')}" if others else ""
        echo(f"not complete: {cut(first, _PROBLEM_WIDTH)}{more}")
    if not heap.has_roots:
        echo("What holds objects is missing: what they keep alive is not known.")
    echo()
    figures = ["bytes", "count", *(("retained_bytes",) if by != "generation" and heap.has_roots else ())]
    from dotnetdiag.heap.holders import is_pseudo_node

    shown = [row for row in rows if by != "type" or row["bytes"] or not is_pseudo_node(row["type"])]
    cells = [(*(f"{row[name]:,}" for name in figures), _named(row, by)) for row in shown[:number]]
    heads = [name.replace("_bytes", "") for name in figures]
    if cells:
        table((*heads, by), cells, right=heads, shorten=cut)
    say_more(len(shown) - number)


def _named(row: dict[str, Any], by: str) -> str:
    name = row[by] or "-"
    module = row.get("module") if by == "type" else None
    return name if not module else f"{name}  [{_file_name(module)}]"


def _file_name(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2]
