"""``trace report FILE --html PAGE``: all kinds of reports as one page."""

from __future__ import annotations

from pathlib import Path

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.files import RecordingPath
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.losses import say_losses_of
from dotnetdiag.cli.output import TABLE
from dotnetdiag.cli.questions import (
    check_files,
    is_forced,
    lines_options,
    opened,
    page_option,
    report_options,
    say_about_lines,
    say_written,
)
from dotnetdiag.errors import UsageError


@click.command("all", cls=Command)
@click.argument("file", type=RecordingPath())
@lines_options
@report_options
def everything(file: Path, form: str) -> None:
    """Write all reports on a trace FILE as one page: a tab for each with its chart and tables, what stands out first, the flame graph last.

    The file is read once. The page loads nothing, and can be sent to others: it holds names, messages and paths of the recording.

    \b
    dotnetdiag trace report app.nettrace --html app.html
    dotnetdiag trace report app.nettrace all --html app.html --force
    """
    be_lean()
    page = page_option()
    if page is None or form != TABLE:
        raise UsageError("all reports together are a page: name it with --html FILE; tables are of one kind each")
    check_files(form)
    from dotnetdiag.recipes.report_files import everything_as_page

    trace = opened(file)
    say_written(page, everything_as_page(trace, page, force=is_forced()))
    say_about_lines(trace)
    say_losses_of(trace)
