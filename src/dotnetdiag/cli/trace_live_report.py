"""``trace watch --report KIND``: a question to a process that runs; its answer at the end, as ``trace report`` gives it of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dotnetdiag.cli import shown, shown_advice
from dotnetdiag.cli.options import say_held
from dotnetdiag.cli.output import TABLE, refuse_terminal
from dotnetdiag.cli.output import show as print_answer
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

    with start_report(source.client, kind, options, over=source.over, suspended=say_held) as asked:
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


def check_form(form: str) -> None:
    """Before anything is asked: raises MissingDependency, and UsageError for a format that is not for the terminal that stdout is."""
    if form not in (TABLE, "json"):
        from dotnetdiag.export import find_format

        found = find_format(form, table=True)
        found.check()
        refuse_terminal(form, is_text=found.is_text)
