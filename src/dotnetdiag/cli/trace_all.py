"""``trace report FILE all``: all kinds of reports, as one page or as one JSON object."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag.cli.each_file import EachFile, files_argument, several
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.losses import say_losses_of
from dotnetdiag.cli.output import TABLE
from dotnetdiag.cli.questions import (
    check_files,
    is_forced,
    lines_options,
    opened,
    page_option,
    page_options,
    say_about_lines,
    say_written,
)
from dotnetdiag.cli.render import json_object
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace


@click.command("all", cls=EachFile)
@files_argument()
@lines_options
@page_options
@click.option("--json", "form", flag_value="json", default=TABLE, help="Print one object, with a key for each kind.")
def everything(file: Path, form: str) -> None:
    """Write all reports on a trace FILE as one page: a tab for each with its chart and tables, what stands out first, the flame graph last.

    For the page the file is read once. It loads nothing, and can be sent to others: it holds names, messages and paths of the recording.

    With --json it is one object: of each kind what `trace report FILE KIND --json` prints. One is asked after the other, so that no more is in
    memory than the largest needs.

    \b
    dotnetdiag trace report app.nettrace --html app.html
    dotnetdiag trace report app.nettrace all --html app.html --force
    dotnetdiag trace report app.nettrace all --json | jq '.gc.totals, .advice.findings[0].text'
    """
    be_lean()
    if several() is not None:
        raise UsageError("all reports together are of one recording: name one FILE, or one kind of report")
    page = page_option()
    if page is None and form == TABLE:
        raise UsageError(
            "all reports together are a page or JSON: give --html FILE or --json; tables are of one kind each"
        )
    check_files(form)
    trace = opened(file)
    if page is not None:
        from dotnetdiag.recipes.report_files import everything_as_page

        say_written(page, everything_as_page(trace, page, force=is_forced()), aside=form != TABLE)
    if form != TABLE:
        json_object(_documents(trace))
    say_about_lines(trace)
    say_losses_of(trace)


def _documents(trace: Trace) -> Iterator[tuple[str, Any]]:
    """By kind, in the order of the page. None is held while the next is made."""
    from dotnetdiag.cli.shown import KINDS
    from dotnetdiag.cli.trace_report import KINDS as ORDERED
    from dotnetdiag.recipes import questions
    from dotnetdiag.recipes.lines import symbols_of
    from dotnetdiag.recipes.report import LINE, ReportOptions, ViewOptions, report_of

    for kind in ORDERED:
        if kind == "advice" or kind in KINDS:
            yield kind, getattr(questions, kind)(trace).document()
    symbols = symbols_of(trace)
    view = ViewOptions() if symbols is None else ViewOptions(by=LINE, symbols=symbols)
    yield "topN", report_of(trace, ReportOptions(view=view)).to_json()
