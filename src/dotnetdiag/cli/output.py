"""``--format`` and ``--json``: what a verb prints, as people read it or in a form for programs. The same for every verb."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli.render import json_text, stdout_bytes
from dotnetdiag.cli.verdict import settled
from dotnetdiag.errors import DiagnosticsError, OutputError, UsageError

if TYPE_CHECKING:
    from dotnetdiag.table import Table

F = TypeVar("F", bound=Callable[..., Any])
TABLE = "table"
READ_BY_PEOPLE = ("markdown", "html")
CHOICES = (TABLE, "json", "jsonl", "csv", "markdown", "html", "parquet", "sqlite")
"""What people read, and export's formats of tables."""


def format_option(function: F) -> F:
    """``--format`` and ``--json``, as the keyword ``form``."""
    function = click.option("--json", "form", flag_value="json", help="The same as --format json.")(function)
    return click.option(
        "--format", "form", type=click.Choice(CHOICES), default=TABLE, show_default=True, help="How to print it."
    )(function)


def show(
    form: str,
    tables: Callable[[], Table | Sequence[Table]],
    *,
    people: Callable[[], None],
    document: Callable[[], Any] | None = None,
    err: bool = False,
    digits: int | None = None,
) -> None:
    """Print a result: for ``people``, as the ``document`` that its JSON is (else its tables), or as tables, of which some formats take the
    first alone. ``err``: the document on stderr (:func:`refuse_second_output` refuses the tables before). ``digits``:
    so many decimals for people, also where they read Markdown or HTML.
    """
    if form == TABLE:
        people()
    elif form == "json" and document is not None:
        json_text(document(), err=err)
    else:
        from dotnetdiag.export import find_format

        found = find_format(form, table=True)
        found.check()
        refuse_terminal(form, is_text=found.is_text)
        made = tables()
        if digits is not None and form in READ_BY_PEOPLE:
            from dotnetdiag.table import Table

            made = [_rounded(one, digits) for one in ([made] if isinstance(made, Table) else made)]
        with to_stdout(form) as stream:
            found.write(made, stream)


def _rounded(table: Table, digits: int) -> Table:
    from dotnetdiag.table import Table

    columns: dict[str, Any] = {}
    for name in table.columns:
        values = table.values(name)
        is_float = any(isinstance(value, float) for value in values)
        columns[name] = (
            [None if one is None else round(one, digits) + 0.0 for one in values] if is_float else table[name]
        )
    return Table(columns, title=table.title, units=table.units, notes=table.notes, losses=table.losses)


def refuse_second_output(form: str, *, to_stdout: bool) -> None:
    """For verbs that write a file, and say what they have written. Raises UsageError where the file is stdout, and ``form`` is not said on
    stderr.
    """
    if to_stdout and form not in (TABLE, "json"):
        raise UsageError(
            f"{form} goes to stdout, as does the file: write the file elsewhere, or take json, which is said on stderr then"
        )


def refuse_terminal(form: str, *, is_text: bool = False) -> None:
    """Raises UsageError where stdout is a terminal, and the format nothing to be read there."""
    if not is_text and sys.stdout.isatty():
        raise UsageError(f"{form} is not for a terminal: lead stdout into a file")


@contextmanager
def to_stdout(form: str) -> Iterator[IO[bytes]]:
    """Standard output for bytes of a format. Ends the verb with its verdict, or 0, where nobody reads any more (`| head`); OutputError where it takes
    nothing.
    """
    stream = stdout_bytes(is_json=form in ("json", "jsonl"))
    try:
        yield stream
        stream.flush()
    except BrokenPipeError as error:
        raise click.exceptions.Exit(settled()) from error
    except OSError as error:
        if isinstance(error, DiagnosticsError):  # of what is written, as of a target that is not there
            raise
        raise OutputError("stdout", error.strerror or str(error)) from error
