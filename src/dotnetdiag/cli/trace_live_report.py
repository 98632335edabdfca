"""``trace watch --report KIND``: a question to a process that runs; its answer at the end, as ``trace report`` gives it of a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dotnetdiag.cli.options import say_held
from dotnetdiag.cli.output import TABLE, refuse_terminal
from dotnetdiag.cli.output import show as print_answer
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from dotnetdiag.cli.launching import Source
    from dotnetdiag.recipes.live_report import LiveReport
    from dotnetdiag.recipes.watching import WatchOptions

ROWS = 10
KINDS: Mapping[str, tuple[str, tuple[Any, ...]]] = {
    "allocations": ("trace_allocations", (ROWS,)),
    "contention": ("trace_waits", ("contention", ROWS)),
    "exceptions": ("trace_exceptions", (ROWS,)),
    "gc": ("trace_gc", (ROWS,)),
    "jit": ("trace_jit", (ROWS,)),
    "loader": ("trace_loader", (ROWS,)),
    "logs": ("trace_logs", (ROWS,)),
    "requests": ("trace_requests", (ROWS,)),
    "tasks": ("trace_tasks", (ROWS,)),
    "threadpool": ("trace_thread_pool", (ROWS,)),
    "threads": ("trace_threads", (ROWS,)),
    "waits": ("trace_waits", ("wait", ROWS)),
}
"""Of each report the file that shows it to people, and with what."""


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
    module, arguments = KINDS[kind]
    print_answer(
        form,
        lambda: made.rows,
        people=lambda: import_module(f"dotnetdiag.cli.{module}").show(made, *arguments),
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
