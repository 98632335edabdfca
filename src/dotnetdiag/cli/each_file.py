"""A report on several files: each in its turn, under its name, as one list of JSON, or as one table with a column ``file``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import report
from dotnetdiag.cli.files import STDIN, RecordingPath
from dotnetdiag.cli.lazy import Kinds, kinds_or_files
from dotnetdiag.cli.output import TABLE, show
from dotnetdiag.cli.render import echo, json_list
from dotnetdiag.errors import DiagnosticsError, UsageError

if TYPE_CHECKING:
    from dotnetdiag.table import Table

F = TypeVar("F", bound=Callable[..., Any])
_SEVERAL = "dotnetdiag.cli.several"
PAGE, OUTPUT = "dotnetdiag.cli.page", "dotnetdiag.cli.output"
"""Where the files are remembered that the options of a report name."""


def named(path: Path) -> str:
    """As it is written on the command line."""
    return "-" if path == STDIN else str(path)


class Answers:
    """What was found in some files, until all have been asked."""

    def __init__(self) -> None:
        self.form = TABLE
        self.digits: int | None = None
        self.name, self.count = "", 0
        self.documents: list[dict[str, Any]] = []
        self.tables: list[tuple[str, Table]] = []

    def begin(self, name: str) -> None:
        """The next file."""
        self.name = name

    def take(
        self,
        form: str,
        rows: Callable[[], Table],
        *,
        people: Callable[[], None],
        document: Callable[[], dict[str, Any]],
        digits: int | None = None,
    ) -> None:
        """What was found in it: printed at once for people, kept for programs."""
        self.form, self.digits = form, digits
        if form == TABLE:
            if self.count:
                echo()
            echo(f"==> {self.name} <==")
            people()
        elif form == "json":
            self.documents.append({"file": self.name, **document()})
        else:
            self.tables.append((self.name, rows()))
        self.count += 1

    def end(self) -> None:
        """Print what was kept."""
        if self.form == "json":
            json_list(self.documents)
        elif self.form != TABLE:
            show(self.form, lambda: joined(self.tables), people=lambda: None, digits=self.digits)


def joined(tables: Sequence[tuple[str, Table]]) -> Table:
    """The rows of tables one below the other, each with its name in a column ``file``, or ``recording`` where they have that."""
    from dotnetdiag.table import Table

    names = dict.fromkeys(name for _, one in tables for name in one.columns)
    own = "recording" if "file" in names else "file"  # lines of source have files too
    columns: dict[str, list[Any]] = {own: [], **{name: [] for name in names}}
    for file, one in tables:
        columns[own] += [file] * len(one)
        for name in names:
            columns[name] += one.values(name) if name in one else [None] * len(one)
    first = tables[0][1]
    return Table(columns, title=first.title, units=first.units)


class EachFile(Command):
    """A verb whose ``file`` is one or several, as :func:`files_argument` has it: it is called with each. What cannot be read of several is told, and
    the first such decides the exit code when all others were answered.
    """

    def invoke(self, ctx: click.Context) -> Any:
        files = ctx.params["file"]
        _refuse_kinds(ctx, files[1:])
        if len(files) == 1:
            ctx.params["file"] = files[0]
            return super().invoke(ctx)
        if ctx.meta.get(PAGE) is not None or ctx.meta.get(OUTPUT) not in (None, Path("-")):
            raise UsageError(
                "a page and files of tables are of one recording: ask for one, or of several with --format"
            )
        made = ctx.meta[_SEVERAL] = Answers()
        codes = list[int]()
        for file in files:
            ctx.params["file"] = file
            made.begin(named(file))
            try:
                super().invoke(ctx)
            except UsageError:  # of all of them
                raise
            except DiagnosticsError as error:  # one that cannot be read keeps nobody from the others
                codes.append(report(str(error), error))
        made.end()
        if codes:
            raise click.exceptions.Exit(codes[0])
        return None


def _refuse_kinds(ctx: click.Context, files: Sequence[Path]) -> None:
    """Before the first file is read: a second kind is none."""
    group = ctx.parent.command if ctx.parent is not None else None
    kinds = group.entries if isinstance(group, Kinds) else {}
    for file in files:
        if str(file) in kinds and not file.exists():
            raise UsageError(f"{file}: one kind of report at a time; all of them are a page: all --html FILE")


def several() -> Answers | None:
    """What collects the answers where several files are asked."""
    found: Answers | None = click.get_current_context().meta.get(_SEVERAL)
    return found


def files_argument(callback: Callable[[click.Context, click.Parameter, Any], Any] | None = None) -> Callable[[F], F]:
    """FILE..., as the keyword ``file`` of a verb that is an :class:`EachFile`."""
    return click.argument(
        "file",
        type=RecordingPath(),
        nargs=-1,
        required=True,
        callback=callback,
        shell_complete=lambda context, _, incomplete: kinds_or_files(context, incomplete),
    )
