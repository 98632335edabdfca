"""``trace sql``: questions in SQL to one recording or many."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import report
from dotnetdiag.cli.files import STDIN, FilePath, shown_path
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.losses import say_losses
from dotnetdiag.cli.output import CHOICES, TABLE, show
from dotnetdiag.cli.questions import lines_options, wanted_lines
from dotnetdiag.cli.render import echo, table
from dotnetdiag.errors import FormatError, InputError, UsageError
from dotnetdiag.tui.widths import cut

if TYPE_CHECKING:
    from dotnetdiag.table import Table

_MOST_CHARACTERS = 200
"""Of a cell for people, who see lists of frames by their begins."""
_NAMED = 6
"""Columns that are named where there is no row."""


@click.command("sql", cls=Command)
@click.argument("files", nargs=-1, required=True, metavar="FILE... QUERY")
@click.option(
    "--format",
    "form",
    type=click.Choice(CHOICES),
    help="How to print it.  [default: what the name after -o ends in, csv for a FIFO or a device; on stdout table]",
)
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option(
    "-o",
    "--output",
    type=FilePath(),
    help="The file to write, in the format that its name ends in; - for stdout, as without -o.",
)
@click.option("--force", is_flag=True, help="Overwrite a file that is there.")
@click.option("--external-access", is_flag=True, help="The query may read and write files, and load extensions.")
@click.option(
    "--skip-unreadable", is_flag=True, help="Answer from the FILEs that can be read, and say which were skipped."
)
@lines_options
def sql(
    files: tuple[str, ...],
    form: str | None,
    output: Path | None,
    force: bool,
    external_access: bool,
    skip_unreadable: bool,
) -> None:
    """Ask trace FILEs a QUERY of SQL, in DuckDB's words. Each event type is a table by its name, each report too.

    \b
    dotnetdiag trace sql app.nettrace 'show tables'
    dotnetdiag trace sql app.nettrace 'describe "GC/Start"'
    dotnetdiag trace sql app.nettrace 'select Reason, count(*) from "GC/Start" group by all'
    dotnetdiag trace sql *.nettrace 'select file, max(pause_ms) from gc group by all' --json
    dotnetdiag trace sql app.nettrace "from spans('GC/Start', 'GC/Stop') order by duration_ms desc limit 5"
    dotnetdiag trace sql 's3://bucket/*.nettrace' 'from exceptions' -o exceptions.parquet
    dotnetdiag trace sql app.nettrace 'select frames, count(*) from "Exception/Start" group by all' --by line

    Tables: events by name, in quotes, with Provider/ before it where several have it; events (all, without payloads); reports.
    leaf is the method that an event happened in, frames the call stack, file the recording. FILEs may be patterns and URLs.
    """
    if len(files) < 2:
        raise click.UsageError("Give FILE and QUERY: the query is one word, in quotes.", click.get_current_context())
    be_lean()
    from dotnetdiag.recipes.outputs import is_stdout
    from dotnetdiag.recipes.queries import database
    from dotnetdiag.table.json_rows import in_json_forms

    *sources, query = (str(STDIN) if one == "-" else one for one in files)
    if os.path.isfile(query):
        raise click.UsageError(f"{query} is a file: give QUERY behind the FILEs.", click.get_current_context())
    lines = wanted_lines()
    with _skipping_is_told_of():
        made = database(
            sources,
            external_access=external_access,
            output=output,
            force=force,
            lines=lines,
            skip_unreadable=skip_unreadable,
        )
        try:
            answer = made.sql(query)
        except UsageError:  # of a table that is not there, one that was skipped may have it
            _say(made.unreadable.notes)
            raise
        finally:
            made.close()
    if output is not None and not is_stdout(output):
        _write(answer, output, form, force=force)
    else:
        show(form or TABLE, lambda: answer, people=lambda: _show(answer), document=lambda: in_json_forms(answer))
    _say((*answer.notes, *(lines.notes if lines is not None else ())))
    for name, losses in made.losses_by_recording.items():
        say_losses(name, losses.lost, losses.damage)


@contextmanager
def _skipping_is_told_of() -> Iterator[None]:
    """Where one of several recordings ends the query the line of the error says what would not."""
    from dotnetdiag.recipes.queries import is_skippable

    try:
        yield
    except (InputError, FormatError) as error:
        if not is_skippable(error):
            raise
        raise click.exceptions.Exit(report(f"{error}; --skip-unreadable answers from the others", error)) from error


def _say(notes: Iterable[str]) -> None:
    for note in notes:
        echo(f"note: {note}", err=True)


def _write(answer: Table, output: Path, form: str | None, *, force: bool) -> None:
    from dotnetdiag.export import find_format, format_of
    from dotnetdiag.recipes.outputs import is_stream, replacing

    if form == TABLE:
        raise UsageError("a table for people goes to stdout; a file has another format")
    chosen = (
        format_of(str(output), table=True)
        if form is None and not is_stream(output)
        else find_format(form or "csv", table=True)
    )
    chosen.check()
    with replacing(output, force=force) as file:
        chosen.write(answer, file)
        size = file.tell()
    echo(f"{shown_path(output)}: {len(answer):,} rows, {size:,} bytes")


def _show(answer: Table) -> None:
    from dotnetdiag.table.texts import cell_texts, is_number

    columns = answer.columns
    if not columns:
        return
    cells: Sequence[Sequence[str]] = [
        [cut(text, _MOST_CHARACTERS) for text in cell_texts(answer[one])] for one in columns
    ]
    right = tuple(name for name in columns if is_number(answer[name]))
    if len(answer):
        table(columns, list(zip(*cells, strict=True)), right=right, shorten=cut)
    else:
        more = f" and {len(columns) - _NAMED:,} columns more" if len(columns) > _NAMED else ""
        echo(f"no rows of {', '.join(columns[:_NAMED])}{more}")
