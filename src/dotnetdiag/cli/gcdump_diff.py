"""``gcdump diff``: what grew from one heap to another."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli import verdict
from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import OK, TRACING_ERROR
from dotnetdiag.cli.files import RecordingPath
from dotnetdiag.cli.heap_types import say_problems, show_way
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.output import TABLE, format_option, show
from dotnetdiag.cli.render import echo, say_more, table
from dotnetdiag.cli.trace_report import ABOVE, WORSE

if TYPE_CHECKING:
    from dotnetdiag.heap import HeapDiff
    from dotnetdiag.recipes.heap_reports import Grown


NO_VERDICT = "What grew is not known: of one heap it is missing what holds the objects, and which objects there are."
_SEVERAL = ("html", "markdown", "sqlite")
"""Formats that take several tables."""


def _limit(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    from dotnetdiag.recipes.heap_reports import parse_growth

    return parse_growth(text)


@click.command("diff", cls=Command)
@click.argument("before", type=RecordingPath())
@click.argument("after", type=RecordingPath())
@click.option(
    "-n",
    "--number",
    type=click.IntRange(min=0),
    help="How many rows of each; JSON has all.  [default: 20, and all in forms for programs]",
)
@click.option(
    "--fail-above",
    "limit",
    metavar="LIMIT",
    callback=_limit,
    help="Exit with 1 when the heap or a type grew by more: 5% (of all bytes before), or 10MB; a number alone is of bytes.",
)
@click.option(
    "--before-dump", type=click.IntRange(min=1), help="Which of the dumps of a recording BEFORE is.  [default: 1]"
)
@click.option(
    "--after-dump", type=click.IntRange(min=1), help="Which of the dumps of a recording AFTER is.  [default: 1]"
)
@format_option
def diff(
    before: Path,
    after: Path,
    number: int | None,
    limit: Any,
    before_dump: int | None,
    after_dump: int | None,
    form: str,
) -> None:
    """Compare heap AFTER with heap BEFORE: types that grew, and what keeps more alive than before.

    Types are the same whose names are, and the names of their modules' files, in whichever folder. With --fail-above both heaps have to be
    complete: what is missing of one may be what grew. Two dumps of one recording: give it twice, and --after-dump.

    The first heap of a process leaves some 0.2 MB in it, which are in the second: what is said of them is no leak. Where that matters,
    take one heap that is not looked at before the one to compare with.

    Exit codes: 0 compared; 1 something grew by more than --fail-above; 2 a file could not be read, or what grew is not known, for of a heap
    what holds the objects is missing, or --fail-above is given and a heap is not complete, or a sample; 3 wrong arguments.

    --json: one object, {before_bytes, after_bytes, grown_bytes, before_nodes, after_nodes, complete, problems, above, types, dominators, way}.

    \b
    dotnetdiag gcdump diff before.gcdump after.gcdump
    dotnetdiag gcdump diff before.gcdump after.gcdump --fail-above 5%
    dotnetdiag gcdump diff app.nettrace app.nettrace --after-dump 2
    """
    be_lean()
    from dotnetdiag.recipes.heap_files import open_heap
    from dotnetdiag.recipes.heap_reports import grown, way_of_growth

    heaps = []
    for path, which, dump in ((before, "before", before_dump), (after, "after", after_dump)):
        heap = open_heap(path, dump)
        heaps.append(heap)
        say_problems(heap, path.name)
        if heap.facts.dumps > 1 and dump is None:
            echo(f"{path.name} has {heap.facts.dumps} dumps; this is the first, --{which}-dump tells which.", err=True)
    made = heaps[0].diff(heaps[1])
    way = way_of_growth(heaps[0], heaps[1], made) if form in (TABLE, "json") else ()
    above = grown(made, limit)
    is_known = all(heap.has_roots for heap in heaps)
    is_certain = limit is None or made.completeness.complete
    code = TRACING_ERROR if not (is_known and is_certain) else WORSE if above.names else OK
    verdict.settle(code)

    def document() -> dict[str, Any]:
        return {
            "before_bytes": made.before_bytes,
            "after_bytes": made.after_bytes,
            "grown_bytes": made.grown_bytes,
            "before_nodes": made.before_nodes,
            "after_nodes": made.after_nodes,
            "complete": made.completeness.complete,
            "problems": list(made.completeness.problems),
            "above": list(above.names),
            "way": list(way),
            "types": made.types,
            "dominators": made.dominators,
        }

    show(
        form,
        lambda: [one[:number] for one in ((made.types, made.dominators) if form in _SEVERAL else (made.types,))],
        people=lambda: echo(NO_VERDICT) if not is_known else _show(made, 20 if number is None else number, above, way),
        document=document,
    )
    sys.stdout.flush()
    if form not in (TABLE, "json", *_SEVERAL):
        echo("note: these are the types; what keeps more alive (dominators) is in --json and the other forms", err=True)
    if not is_known:
        if form != TABLE:
            echo(NO_VERDICT, err=True)
        raise click.exceptions.Exit(code)
    if above.names and form == TABLE:
        echo(f"{len(above.names)} above the limit", err=True)
    if not is_certain:
        echo("Nothing is certain of --fail-above: not all is in both heaps.", err=True)
    if code:
        raise click.exceptions.Exit(code)


def _show(made: HeapDiff, number: int, above: Grown, way: Sequence[str]) -> None:
    from dotnetdiag.heap.holders import is_holder_of_roots, is_pseudo_node

    objects = made.after_objects - made.before_objects
    mark = ABOVE if above.total else ""
    echo(f"{made.after_bytes:,} bytes, {made.grown_bytes:+,}; {made.after_objects:,} objects, {objects:+,}{mark}")
    if made.diagnostics_bytes > 0:
        echo(
            f"{made.diagnostics_bytes:,} bytes more are what the first session of events leaves in a process, and no leak."
        )
    rows = [(place, row) for place, row in enumerate(made.types.to_pylist()) if not is_pseudo_node(row["type"])]
    rows.sort(key=lambda one: (-one[1]["bytes_grown"], -one[1]["retained_bytes_grown"]))
    heads = ("bytes", "count", "retained")
    if number and rows:
        echo()
        cells = [
            (
                *(f"{row[f'{name}_grown']:+,}" for name in ("bytes", "count", "retained_bytes")),
                (row["type"] or "-") + (ABOVE if place in above.rows else ""),
            )
            for place, row in rows[:number]
        ]
        table((*heads, "type"), cells, right=heads)
        say_more(len(rows) - number)
    if number and way:
        show_way(way[-1], way)
    grown = [
        row
        for row in made.dominators.to_pylist()
        if row["retained_bytes_grown"] > 0 and not is_holder_of_roots(row["path"][-1])
    ]
    if number and grown:
        echo()
        cells = [
            (f"{row['retained_bytes_grown']:+,}", f"{row['count_grown']:+,}", " > ".join(row["path"]))
            for row in grown[:number]
        ]
        table(
            ("keeps more alive", "count", "dominators, from the root"),
            cells,
            right=("keeps more alive", "count"),
        )
        say_more(len(grown) - number)
