"""``gcdump convert``: a heap in another format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.files import FilePath, RecordingPath, shown_path
from dotnetdiag.cli.heap_types import say_problems
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.options import completed, json_option
from dotnetdiag.cli.render import echo, json_text


def _formats() -> Iterable[str]:
    from dotnetdiag.export.heap_formats import HEAP_FORMATS

    return HEAP_FORMATS


@click.command("convert", cls=Command)
@click.argument("file", type=RecordingPath())
@click.option(
    "-o", "--output", type=FilePath(), help="File to write; its end names the format.  [default: FILE with another end]"
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    metavar="FORMAT",
    shell_complete=completed(_formats),
    help="gcdump, heapsnapshot (Chrome DevTools), graphml, parquet, sqlite, html; several with commas.",
)
@click.option("--dump", type=click.IntRange(min=1), help="Which of the dumps of a recording, from 1.  [default: 1]")
@click.option("--force", is_flag=True, help="Overwrite files that are there.")
@click.option("-v", "--verbose", is_flag=True, expose_value=False, hidden=True)
@json_option
def convert(
    file: Path, output: Path | None, formats: tuple[str, ...], dump: int | None, force: bool, as_json: bool
) -> None:
    """Write the heap of a recording, or of a .gcdump, in other formats.

    parquet is three files, NAME.nodes.parquet, NAME.edges.parquet and NAME.types.parquet; sqlite a database of the three.

    \b
    dotnetdiag gcdump convert heap.nettrace -o heap.gcdump
    dotnetdiag gcdump convert app.gcdump --format heapsnapshot,sqlite
    dotnetdiag gcdump convert app.gcdump -o app.graphml
    """
    be_lean()
    from dotnetdiag.heap.gcdump_writer import modules_left_out
    from dotnetdiag.recipes.heap_convert import convert_heap
    from dotnetdiag.recipes.outputs import is_stdout

    names = [word.strip() for text in formats for word in text.split(",") if word.strip()]
    if formats and not names:
        raise click.UsageError("--format names no format")
    heap, made = convert_heap(file, names, output, dump=dump, force=force)
    say_problems(heap)
    if any(one.format == "gcdump" for one in made) and (left_out := modules_left_out(heap)):
        echo(
            f"{left_out:,} modules of COM objects are left out: dotnet-gcdump opens no .gcdump that has several.",
            err=True,
        )
    to_stdout = output is not None and is_stdout(output)
    if as_json:
        rows = [{"path": str(one.path), "format": one.format, "size_bytes": one.size_bytes} for one in made]
        json_text(rows, err=to_stdout)
        return
    for one in made:
        echo(shown_path(one.path), err=to_stdout)
