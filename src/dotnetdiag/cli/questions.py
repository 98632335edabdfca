"""What kinds of ``trace report`` have in common: a question to a file, whose answer has tables, a document, lines for people, and a page."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

from dotnetdiag.cli.each_file import OUTPUT, PAGE, named, several
from dotnetdiag.cli.files import STDIN, FilePath, RecordingPath, shown_path
from dotnetdiag.cli.losses import say_losses_of
from dotnetdiag.cli.output import TABLE, format_option, show
from dotnetdiag.cli.render import echo, json_pieces
from dotnetdiag.cli.shown import KINDS, OTHERS
from dotnetdiag.errors import UsageError, WrongCombination

if TYPE_CHECKING:
    from datetime import datetime

    from dotnetdiag.recipes.pdb_files import PdbFiles
    from dotnetdiag.table import Table
    from dotnetdiag.trace.trace import Trace


class Answer(Protocol):
    """What was found."""

    @property
    def rows(self) -> Table:
        """The table that formats have which take one."""

    def document(self) -> dict[str, Any]:
        """All of it, with tables in the place of their rows."""


A = TypeVar("A", bound=Answer)
F = TypeVar("F", bound=Callable[..., Any])
_FORCE, _BY, _SYMBOLS = "dotnetdiag.cli.force", "dotnetdiag.cli.by", "dotnetdiag.cli.symbols"
LINE = "line"


_AFTER_RECORDING = "\0"
"""Nobody can type it."""


class _PagePath(FilePath):
    """Of a page, which may go without a name of its own."""

    name = "page"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises UsageError for what is a kind of report."""
        if value == _AFTER_RECORDING:
            return Path(value)
        if os.fsdecode(value) in {*KINDS, *OTHERS}:
            raise UsageError(
                f"--html {value}: a page is named as --html {value}.html; the kind of report goes before --html"
            )
        return super().convert(value, param, ctx)


def page_options(function: F) -> F:
    """``--html`` and ``--force``, which :func:`page_option` and :func:`is_forced` look for."""
    return _html(_force(function))


def report_options(function: F) -> F:
    """``--format`` and ``--json`` as the keyword ``form``; ``--html``, ``-o`` and ``--force``, which :func:`deliver` looks for."""
    return format_option(_html(_output(_force(function))))


def _remembered(key: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    def remember(context: click.Context, _: click.Parameter, value: Any) -> Any:
        context.meta[key] = value
        return value

    return remember


_force = click.option(
    "--force",
    is_flag=True,
    expose_value=False,
    callback=_remembered(_FORCE),
    help="Overwrite a file that is there.",
)
_output = click.option(
    "-o",
    "--output",
    type=FilePath(),
    metavar="FILE",
    expose_value=False,
    callback=_remembered(OUTPUT),
    help="Write tables to a file, in the format of --format or of its name: app.csv, app.parquet, app.sqlite; - is stdout.",
)
_html = click.option(
    "--html",
    type=_PagePath(),
    metavar="[FILE]",
    is_flag=False,
    flag_value=_AFTER_RECORDING,
    expose_value=False,
    callback=_remembered(PAGE),
    help="Write a page with a chart and all tables, for a browser without a network; without FILE it has the recording's name.",
)


def symbols_option(remembered: Callable[[click.Context, click.Parameter, Any], Any] | None = None) -> Callable[[F], F]:
    """``--symbols``, several times; a keyword where nothing remembers it."""
    return click.option(
        "--symbols",
        multiple=True,
        type=click.Path(),
        metavar="DIR",
        expose_value=remembered is None,
        callback=remembered,
        help="Look for PDBs in this folder and below it, first; for --by line. May be given several times.",
    )


def lines_options(function: F) -> F:
    """``--by line`` and ``--symbols`` of kinds whose answers name methods, which :func:`opened` looks for."""
    by = click.option(
        "--by",
        type=click.Choice(["method", LINE]),
        default="method",
        show_default=True,
        expose_value=False,
        callback=_remembered(_BY),
        help="What to name; line: of source behind the method, by portable PDBs beside the modules or in them.",
    )
    return by(symbols_option(_remembered(_SYMBOLS))(function))


def wanted_lines() -> PdbFiles | None:
    """The PDBs of the lines that the options ask for. Raises WrongCombination, and InputError for a folder that is none."""
    meta = click.get_current_context().meta
    by, symbols = meta.get(_BY), meta.get(_SYMBOLS) or ()
    if by != LINE:
        if symbols:
            raise WrongCombination("folders of symbols are for lines of source", lacking="lines")
        return None
    from dotnetdiag.recipes.pdb_files import PdbFiles

    return PdbFiles(symbols)


def opened(file: Path) -> Trace:
    """The recording, by lines of source where the options ask for them."""
    from dotnetdiag.recipes.trace_files import open_trace

    lines, name = wanted_lines(), named(file) if several() is not None else None
    if lines is None:
        return open_trace(file, name=name)
    from dotnetdiag.recipes.lines import name_by_lines

    return name_by_lines(open_trace(file, name=name), lines)


def say_about_lines(trace: Trace) -> None:
    """What is to be said of lines of source, where they were asked for."""
    if click.get_current_context().meta.get(_BY) == LINE:
        for note in getattr(trace.raw.symbols, "notes", ()):
            echo(f"note: {note}", err=True)


def page_option() -> Path | None:
    """What ``--html`` names."""
    found: Path | None = click.get_current_context().meta.get(PAGE)
    if found is None or str(found) != _AFTER_RECORDING:
        return found
    (first, *others) = sources() or [Path("report")]
    if others:
        raise UsageError("--html: name the page, of several recordings none is meant")
    if first == STDIN:
        raise UsageError("--html: name the page: what comes from stdin has no name to call it by")
    return Path(f"{Path(named(first)).stem}.html")


def output_option(form: str) -> Path | None:
    """What ``-o`` names; None where that is stdout and no format is named, for there it is printed as people read it."""
    found: Path | None = click.get_current_context().meta.get(OUTPUT)
    if found is None or form != TABLE or found.suffix:
        return found
    from dotnetdiag.recipes.outputs import is_stdout

    return None if is_stdout(found) else found


def _is_printed_beside_a_page(form: str) -> bool:
    """Whether it is asked for by a form for programs, or by ``-o -``."""
    is_asked = form != TABLE or click.get_current_context().meta.get(OUTPUT) is not None
    return is_asked and output_option(form) is None


def is_forced() -> bool:
    """Whether ``--force`` is given."""
    return bool(click.get_current_context().meta.get(_FORCE))


def sources() -> list[Path]:
    """The recordings that the command line names."""
    context = click.get_current_context()
    values = [
        context.params.get(one.name or "") for one in context.command.params if isinstance(one.type, RecordingPath)
    ]
    return [value for value in values if isinstance(value, Path)]


def check_files(form: str) -> None:
    """Before a recording is read: whether the files may be written that the options name. Raises what keeps them from that."""
    page, output = page_option(), output_option(form)
    if page is not None or output is not None:
        from dotnetdiag.recipes.outputs import is_stdout
        from dotnetdiag.recipes.report_files import check_files

        if page is not None and is_stdout(page) and _is_printed_beside_a_page(form):
            raise UsageError(f"{form} goes to stdout, as does the page: name a file for one of them")
        check_files(page, output, None if form == TABLE else form, force=is_forced(), sources=sources())


def deliver(
    kind: str,
    made: Any,
    form: str,
    *,
    name: str,
    rows: Callable[[], Table],
    recorded: Callable[[], tuple[datetime | None, float]] | None = None,
    **shown: Any,
) -> None:
    """Write a report of a kind where the options say: as a page, or its tables to a file. ``recorded`` tells since when, and for how many
    seconds. It is
    printed (``shown``: as for ``show``) where they say nothing, and in a form for programs beside a page.
    """
    page, output, all_files = page_option(), output_option(form), several()
    if all_files is not None:
        all_files.take(form, rows, **shown)
        return
    if page is None and output is None:
        show(form, rows, **shown)
        return
    from dotnetdiag.recipes.report_files import is_json, write_page, write_tables, write_text

    if page is not None:
        is_printed = _is_printed_beside_a_page(form)
        start, seconds = (None, None) if recorded is None else recorded()
        written = write_page({kind: made}, page, name=name, start=start, seconds=seconds, force=is_forced())
        say_written(page, written, aside=is_printed)
        if is_printed:
            show(form, rows, **shown)
    if output is not None:
        chosen, document = None if form == TABLE else form, shown.get("document")
        if document is not None and is_json(output, chosen):
            written = write_text(json_pieces(document()), output, force=is_forced())
        else:
            written = write_tables(made, rows(), output, chosen, force=is_forced())
        say_written(output, written)


def say_written(path: Path, size_bytes: int, *, aside: bool = False) -> None:
    """What was written, on stderr where it, or something else, goes to stdout."""
    from dotnetdiag.recipes.outputs import is_stdout

    echo(f"{shown_path(path)}: {size_bytes:,} bytes", err=aside or is_stdout(path))


def answer(
    kind: str,
    file: Path,
    form: str,
    ask: Callable[[Any], A],
    *,
    people: Callable[[A], None],
) -> None:
    """Print what ``ask`` finds in a file in a form: its rows for formats of tables, the whole as JSON, and ``people``'s lines; or write it where
    the options say.
    """
    check_files(form)
    trace = opened(file)
    made = ask(trace)
    deliver(
        kind,
        made,
        form,
        name=trace.name,
        rows=lambda: made.rows,
        recorded=lambda: (trace.start, trace.duration.total_seconds()),
        people=lambda: people(made),
        document=made.document,
        digits=3,
    )
    say_about_lines(trace)
    say_losses_of(trace)
