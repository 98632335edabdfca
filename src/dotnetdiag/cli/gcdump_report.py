"""``gcdump report``, ``tree``, ``paths``, ``advice``: questions to one heap."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.files import FilePath, RecordingPath
from dotnetdiag.cli.gcdump_live import NO_SOURCE, Find, source_options
from dotnetdiag.cli.heap_types import SHOWN, show_types
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.output import TABLE, format_option, show
from dotnetdiag.cli.render import echo, table
from dotnetdiag.errors import UsageError
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.heap import Heap
    from dotnetdiag.heap.type_totals import TypeTotals
    from dotnetdiag.table import Table

_GROUPS = {"type": "types", "module": "by_module", "namespace": "by_namespace", "generation": "generations"}
_NOTHING = re.compile(r"\s*0+(?:\.0+)?\s*(?:[kmgt]i?)?b?\s*", re.IGNORECASE | re.ASCII)
"""A size of 0, which no other option takes."""


@click.command("report", cls=Command)
@click.argument("file", type=RecordingPath(), required=False)
@source_options
@click.option(
    "--number",
    type=click.IntRange(min=0),
    help="How many rows; JSON has all.  [default: 30, and all in forms for programs]",
)
@click.option(
    "--by", type=click.Choice(list(_GROUPS)), default="type", show_default=True, help="What to take together."
)
@click.option(
    "--sort",
    type=click.Choice(["bytes", "retained", "count"]),
    default="bytes",
    show_default=True,
    help="What comes first: most bytes, what keeps most alive, most objects. Generations stay in their order.",
)
@click.option(
    "--html",
    type=FilePath(),
    help="Write one page that needs no network: an icicle of what is kept alive, search, paths.",
)
@click.option("--force", is_flag=True, help="Overwrite the page if it is there.")
@format_option
def report(find: Find, number: int | None, by: str, sort: str, html: Path | None, force: bool, form: str) -> None:
    """Show the types that fill a heap: how many objects, how many bytes, and how many bytes they keep alive.

    FILE is a .gcdump or a recording of a heap session; with -p the heap of a process is collected. Bytes are of all objects of a type
    together; retained bytes are what each of them keeps alive alone, added up: so much at least would be free without them, and what several
    of them hold together besides. They are of the graph as it is, in which an array of the runtime's own holds what static variables hold:
    what a variable keeps alive says tree.

    Exit codes, of tree, paths and advice too: 0 there is an answer, also of a heap that is not complete, which is said (complete in --json
    of this one); 1 the process does not answer; 2 the file could not be read, or the heap not be collected; 3 wrong arguments, or no such
    process; 4 its runtime has no heap to show.

    --json: one object, {nodes, edges, bytes, objects, complete, problems, sample, pid, process, collected, pause_ms, dump, dumps, types:
    [{type, module, count, bytes, retained_bytes}]}. dump is which of the dumps of a recording it is. nodes are objects, what holds the
    roots, and what was referred to and not told of. With --by also modules, namespaces or generations: [{module, namespace or generation,
    count, bytes}], and retained_bytes but of generations.

    \b
    dotnetdiag gcdump report app.gcdump
    dotnetdiag gcdump report -p 1234 --sort retained
    dotnetdiag gcdump report app.gcdump --json | jq '.types[0]'
    dotnetdiag gcdump report app.gcdump --html heap.html
    """
    be_lean()
    if html is not None:
        from dotnetdiag.cli.questions import sources
        from dotnetdiag.recipes.heap_convert import write_heap
        from dotnetdiag.recipes.outputs import check_outputs, is_stdout

        check_outputs([html], force=force, sources=sources())
        whole = find()
        write_heap(whole, html, "html", force=force)
        echo(f"Wrote {html}", err=True)
        if is_stdout(html):  # which has the page alone
            return
        heap: Heap | TypeTotals = whole
    else:
        heap = find.totals() if by == "type" and form in (TABLE, "json") else find()
    from dotnetdiag.recipes.heap_reports import report as document
    from dotnetdiag.recipes.heap_reports import sorted_rows, type_rows

    def table_of() -> Table:
        return sorted_rows(getattr(heap, _GROUPS[by]), sort)

    def rows_of() -> list[dict[str, Any]]:
        return type_rows(heap, sort) if by == "type" else table_of().to_pylist()

    def value() -> dict[str, Any]:
        made = document(heap, sort)
        if by != "type":
            made[f"{by}s"] = table_of()
        return made

    show(
        form,
        lambda: table_of()[:number],
        people=lambda: show_types(heap, rows_of(), by, SHOWN if number is None else number),
        document=value,
    )


@click.command("tree", cls=Command)
@click.argument("file", type=RecordingPath(), required=False)
@source_options
@click.option("--depth", type=click.IntRange(min=1), default=8, show_default=True, help="How many levels.")
@click.option("--minimum", metavar="SIZE", help="Leave out what keeps less alive: 1MB.  [default: 0.1 % of the heap]")
@format_option
def tree(find: Find, depth: int, minimum: str | None, form: str) -> None:
    """Show who keeps what alive: the tree of dominators, objects of the same type under the same holder in one row.

    What stands under a row would be free without it. Static variables are there by their names, stacks and handles by their kinds; what several
    hold stands under what all ways to it share, often the root: paths says what holds it. From level 31 on a row says its level, and is
    not indented further.

    \b
    dotnetdiag gcdump tree app.gcdump --depth 4
    dotnetdiag gcdump tree -p 1234 --minimum 10MB
    """
    be_lean()
    from dotnetdiag.recipes.sizes import size_bytes_of

    least = None if minimum is None else (0 if _NOTHING.fullmatch(minimum) else size_bytes_of(minimum))
    heap = find()
    rows = heap.tree(depth, least)
    show(form, lambda: rows, people=lambda: _show_tree(heap, rows), document=lambda: rows)


MOST_INDENT = 30
"""Levels of a tree: deeper ones are told by their number, or a long list would be a page as wide as it is long."""


def _indented(level: int, name: str) -> str:
    return f"{'  ' * level}{name}" if level <= MOST_INDENT else f"{'  ' * MOST_INDENT}{level}: {name}"


def _show_tree(heap: Heap, rows: Table) -> None:
    if not heap.has_roots:
        echo("Who keeps what alive is not known: what holds objects is missing.")
        return
    cells = [
        (
            f"{row['retained_bytes']:,}",
            f"{row['bytes']:,}",
            f"{row['count']:,}",
            _indented(row["level"], row["type"] or "-"),
        )
        for row in rows.to_pylist()
    ]
    if cells:
        table(("retained", "bytes", "count", "type"), cells, right=("retained", "bytes", "count"), shorten=cut)
    for note in rows.notes:
        echo(f"note: {note}")


@click.command("paths", cls=Command)
@click.argument("words", nargs=-1, required=True, metavar="[FILE] TYPE|ADDRESS")
@source_options
@click.option("--number", type=click.IntRange(min=1), default=10, show_default=True, help="How many ways.")
@format_option
def paths(find: Any, number: int, form: str, what: str) -> None:
    """Show why objects are alive: the ways to them from the roots, merged by type, and then other ways.

    The first way to an object is the shortest from what lasts: static variables, handles, the finalizer; from a variable of a method where
    nothing else holds it.

    TYPE is a name of the report; or the last part of some (Session of MyApp.Session); or what is in names, in any case. What holds roots is
    asked for with [ at the begin. ADDRESS is 0x7f….

    \b
    dotnetdiag gcdump paths app.gcdump MyApp.Session
    dotnetdiag gcdump paths app.gcdump 0x7f3a1c0040a8
    dotnetdiag gcdump paths -p 1234 MyApp.Session --json
    """
    be_lean()
    heap = find()
    rows = heap.paths_to_root(what, number)
    show(form, lambda: rows, people=lambda: _show_paths(heap, rows, what), document=lambda: rows)


def _split_words(command: click.Command) -> None:
    """``[FILE] WHAT``: the last word is what is looked for."""
    inner = command.callback
    assert inner is not None

    def with_words(words: Sequence[str], **others: Any) -> Any:
        if len(words) > 2:
            raise UsageError("give a FILE and one TYPE or ADDRESS: a name with blanks stands in quotes")
        context = click.get_current_context()
        file = RecordingPath().convert(words[0], None, context) if len(words) == 2 else None
        if file is None and not any(others.get(name) for name in ("pid", "name", "wait_for", "port", "router")):
            from dotnetdiag.recipes.heap_files import looks_like_file

            if looks_like_file(words[0]):
                raise UsageError(f"give a TYPE or an ADDRESS behind the file {words[0]}")
            raise UsageError(NO_SOURCE)
        return inner(file=file, what=words[-1], **others)

    command.callback = with_words


_split_words(paths)


def _show_paths(heap: Heap, rows: Table, what: str) -> None:
    if not heap.has_roots:
        echo(f"Why objects of {what} are alive is not known: what holds objects is missing.")
        return
    if not len(rows):
        echo(f"no object of {what} is reached from a root")
    for row in rows.to_pylist():
        kind = "" if row["is_shortest"] else ", another way"
        objects = f"{row['count']:,} object{'s' if row['count'] != 1 else ''}"
        echo(f"{objects}, {row['bytes']:,} bytes{kind}:")
        for level, name in enumerate(row["path"]):
            echo(f"  {'  ' * level}{name}")
    for note in rows.notes:
        echo(f"note: {note}")


@click.command("advice", cls=Command)
@click.argument("file", type=RecordingPath(), required=False)
@source_options
@format_option
def advice(find: Find, form: str) -> None:
    """Say what stands out in a heap: static variables that keep much alive, each by itself (from 1 % and 64 KB on) or several together (from 5 %
    and 256 KB on), what [ThreadStatic] variables or waiting finalizers hold (the same), what roots of a kind without names hold, such as
    variables of methods (20 % and 256 KB), collections that are mostly empty, events with many handlers, timers that nobody disposed of, bytes
    that no root reaches. Of collections arrays of references are judged: a heap does not tell which places of an array of values (List<int>)
    are used, and of a dictionary whether it is empty at most.

    \b
    dotnetdiag gcdump advice app.gcdump
    dotnetdiag gcdump advice -p 1234 --json
    """
    be_lean()
    heap = find()
    rows = heap.advice

    def people() -> None:
        if not heap.has_roots:
            echo("What stands out is not known: what holds objects is missing.")
            return
        for row in rows.to_pylist():
            echo(f"{row['kind']:13}  {row['advice']}")
        if not len(rows):
            echo("Nothing stands out.")

    show(form, lambda: rows, people=people, document=lambda: rows)
