"""``trace watch --report KIND``: a question to a process that runs; its answer at the end, as ``trace report`` gives it of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.cli import shown, shown_advice
from dotnetdiag.cli.options import say_held, say_late
from dotnetdiag.cli.output import TABLE, refuse_terminal
from dotnetdiag.cli.output import show as print_answer
from dotnetdiag.cli.questions import say_written
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.cli.launching import Source
    from dotnetdiag.recipes.live_report import LiveReport
    from dotnetdiag.recipes.watching import WatchOptions

ROWS = 10
ADVICE = "advice"
"""The report without a question, which names others."""
KINDS = (ADVICE, *shown.KINDS)


def refuse_others(options: WatchOptions, *, top: int | None) -> None:
    """Raises UsageError for options of events and methods, which a report does not show."""
    given = {
        "--top": top is not None,
        "--event": options.names,
        "--where": options.where is not None,
        "--fields": options.fields,
        "--limit": options.limit is not None,
    }
    for name, value in given.items():
        if value:
            raise UsageError(f"{name} is of events, and --report shows what they come to")


@contextmanager
def started(source: Source, kind: str, options: WatchOptions) -> Iterator[LiveReport]:
    """The session that runs, and its question."""
    from dotnetdiag.recipes.live_report import start_report

    with start_report(source.client, kind, options, over=source.over, suspended=say_held, late=say_late) as asked:
        yield asked


def show(kind: str, made: Any, form: str) -> None:
    """Print an answer, in a form that :func:`check_form` takes."""
    print_answer(
        form,
        lambda: made.rows,
        people=lambda: shown_advice.show(made, None) if kind == ADVICE else shown.show(kind, made, ROWS),
        document=made.document,
        digits=3,
    )


@dataclass(frozen=True, kw_only=True)
class Page:
    """Where a report goes as a page; None: nowhere."""

    path: Path | None
    force: bool

    def check(self, form: str) -> None:
        """Before anything is asked: raises what keeps it from being written."""
        if self.path is None:
            return
        from dotnetdiag.recipes.outputs import is_stdout
        from dotnetdiag.recipes.report_files import check_files

        if is_stdout(self.path) and form != TABLE:
            raise UsageError(f"{form} goes to stdout, as does the page: name a file for it")
        check_files(self.path, None, None, force=self.force)

    def deliver(self, kind: str, made: Any, form: str) -> None:
        """Write the page, if there is to be one; and print the answer, where there is none, or a form for programs is asked for beside it."""
        if self.path is not None:
            from dotnetdiag.recipes.report_files import write_page

            written = write_page({kind: made}, self.path, name="", force=self.force)
            say_written(self.path, written, aside=form != TABLE)
        if self.path is None or form != TABLE:
            show(kind, made, form)


def check_form(form: str) -> None:
    """Before anything is asked: raises MissingDependency, and UsageError for a format that is not for the terminal that stdout is."""
    if form not in (TABLE, "json"):
        from dotnetdiag.export import find_format

        found = find_format(form, table=True)
        found.check()
        refuse_terminal(form, is_text=found.is_text)
