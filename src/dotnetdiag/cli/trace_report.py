"""Commands that say where the time of a trace went: ``trace report``, ``trace diff``."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from dotnetdiag.cli import verdict
from dotnetdiag.cli.command import Command
from dotnetdiag.cli.each_file import EachFile, files_argument
from dotnetdiag.cli.exits import COMPATIBLE_NO_KIND, OK, SESSION_ERROR, compatible_code, is_compatible
from dotnetdiag.cli.files import RecordingPath
from dotnetdiag.cli.lazy import Kinds, LazyGroup, is_option, leading
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.losses import say_losses, say_losses_of
from dotnetdiag.cli.output import TABLE, format_option, show
from dotnetdiag.cli.questions import check_files, deliver, report_options, symbols_option
from dotnetdiag.cli.render import counted, echo, is_terminal, say_more, table
from dotnetdiag.cli.times import seconds_between, time_options
from dotnetdiag.errors import DiagnosticsError, UsageError
from dotnetdiag.tui.widths import cells, cut, shortened_method

if TYPE_CHECKING:
    from dotnetdiag.recipes.diffing import Compared, DiffRow
    from dotnetdiag.recipes.report import Report, ViewOptions
    from dotnetdiag.recipes.spans import Spans

_FILE = RecordingPath()
F = TypeVar("F", bound=Callable[..., Any])

ABOVE = "  <- above the limit"
_PLACE = re.compile(r"(?<=\)) [^()]+:~?\d+$")
"""The line behind a method and its parameters."""
WORSE = 1
"""The exit code of ``trace diff --fail-above`` when something grew by more, as that of diff(1) when files differ."""


def view_options(function: F) -> F:
    """Options that choose the part of the time to look at; as keywords, for :func:`view_of`."""
    for option in reversed(
        (
            click.option("--thread", "threads", multiple=True, help="Only threads with this id or name."),
            time_options,
            click.option("--focus", multiple=True, metavar="P", help="Only stacks with a frame that matches."),
            click.option("--ignore", multiple=True, metavar="P", help="No stacks with a frame that matches."),
            click.option(
                "--by",
                type=click.Choice(["method", "line", "module", "namespace", "thread"]),
                default="method",
                show_default=True,
                help="What to take together; line: of source, by portable PDBs beside the modules or in them.",
            ),
            symbols_option(),
            click.option(
                "--weight",
                type=click.Choice(["time", "samples"]),
                default="time",
                show_default=True,
                help="Time between samples, or how many there are.",
            ),
            click.option("--hide-framework", is_flag=True, help="Give the time of .NET's own frames to their callers."),
            click.option("--fold-recursion", is_flag=True, help="A method that calls itself is one frame."),
            click.option("--short", is_flag=True, help="Names as in C#, without module and parameters."),
            click.option("--source", is_flag=True, help="As --short, and lambdas and async methods as in the source."),
        )
    ):
        function = option(function)
    return function


def state_option(default: str) -> Callable[[F], F]:
    """``--state``."""
    return click.option(
        "--state",
        type=click.Choice(["all", "cpu", "waiting"]),
        default=default,
        show_default=True,
        help="Time running managed code, or in native code and waiting.",
    )


event_marks_option = click.option(
    "--event-marks/--no-event-marks",
    default=None,
    help="Allocations and events of EventSources count as samples too, as in `dotnet-trace report`: a thread's last sample then "
    "lasts until its next event, however long.  [default: off; of report with --compat: on]",
)


def view_of(
    *,
    start: str | None,
    end: str | None,
    time: str | None,
    short: bool,
    source: bool,
    event_marks: bool | None = None,
    **more: Any,
) -> ViewOptions:
    """The options that the keywords of :func:`view_options`, ``--state`` and ``--event-marks`` mean."""
    from dotnetdiag.analysis.cpu import Marks
    from dotnetdiag.recipes.report import ViewOptions
    from dotnetdiag.trace.method_names import Style

    start_s, end_s = seconds_between(start, end, time)
    whole = Style.TRACEEVENT if is_compatible() else Style.FULL
    style = Style.SOURCE if source else Style.SHORT if short else whole
    unsaid = Marks.ALLOCATIONS if is_compatible() else Marks.NONE
    marks = unsaid if event_marks is None else Marks.EVENTS if event_marks else Marks.NONE
    return ViewOptions(start_s=start_s, end_s=end_s, style=style, marks=marks, **more)


KINDS = {
    "topN": ("trace_report", "top", "The methods that took the most time."),
    "advice": ("trace_advice", "advice", "What stands out, most important first, and where there is more of it."),
    "gc": ("trace_gc", "gc", "Collections of the garbage collector: why, how long, what they found and left."),
    "allocations": (
        "trace_allocations",
        "allocations",
        "What was allocated: by type, by method, by thread, large objects apart.",
    ),
    "exceptions": ("trace_exceptions", "exceptions", "What was thrown: by type and message, who threw, who caught."),
    "requests": (
        "trace_requests",
        "requests",
        "Requests: how long, what failed, what was within them, what they spent.",
    ),
    "contention": (
        "trace_waits",
        "contention",
        "Threads that wanted a lock which another had: where, which, for whom.",
    ),
    "waits": ("trace_waits", "waits", "Threads that waited in the runtime: where, for what, how long."),
    "threadpool": (
        "trace_thread_pool",
        "threadpool",
        "The thread pool: how long work waited in its queue, threads that came and went.",
    ),
    "tasks": (
        "trace_tasks",
        "tasks",
        "What awaited what: asynchronous calls by their logical stacks, the longest chains.",
    ),
    "jit": ("trace_jit", "jit", "Methods that were compiled: how long it took, in which tier, who waited."),
    "loader": ("trace_loader", "loader", "What was loaded: assemblies, binds and those that failed, types."),
    "threads": ("trace_threads", "threads", "The threads: when each came, how long it ran and waited, what it did."),
    "logs": ("trace_logs", "logs", "What was logged with ILogger, and within which request."),
    "startup": ("trace_startup", "startup", "What the start of the program went into, by phase."),
    "all": ("trace_all", "everything", "All of these as one page, a tab for each, with the flame graph; or as JSON."),
    "spans": ("trace_report", "spans", "What begins with one event and ends with another, and how long it took."),
}


class Reports(Kinds):
    """Without a kind it is advice; with options for the methods that took the most time, and for those who replace dotnet-trace, these."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Help without a kind is of all kinds, and so it is without a file."""
        if not args and not is_compatible() and not ctx.resilient_parsing:
            args = ["--help"]
        if args and {"--help", "-h", "-?"}.issuperset(args):
            return LazyGroup.parse_args(self, ctx, args)
        return super().parse_args(ctx, args)

    def behind_options(self, ctx: click.Context, args: Sequence[str]) -> int:
        """dotnet-trace has its kind behind the file, and nowhere else."""
        return 0 if is_compatible() else super().behind_options(ctx, args)

    def kind_of(self, args: Sequence[str]) -> str:
        """The kind that is meant by arguments that name none. Raises UsageError for what none has."""
        before = args[: args.index("--")] if "--" in args else args
        options = {re.split("[=:]", word, maxsplit=1)[0] for word in before if is_option(word)}
        if is_compatible() or "topN" in leading(args)[1:] or not options <= _OF_ADVICE:
            return "topN"
        if "--html" in options and options & _OF_TABLES:
            raise UsageError("--html without a kind is a page of all reports, and tables are of one kind each: name it")
        return "all" if "--html" in options else "advice"


_OF_TABLES = {"--format", "-o", "--output"}
_OF_ADVICE = {"--json", "--force", "--html", "-h", "-?", "--help"} | _OF_TABLES


@click.group(cls=Reports, entries=KINDS)
def report() -> None:
    """Answers to questions about a trace FILE; without a kind what stands out, most important first. With options of topN (-n, --inclusive …)
    and no kind it is topN.

    \b
    dotnetdiag trace report app.nettrace
    dotnetdiag trace report app.nettrace topN
    dotnetdiag trace report app.nettrace gc
    dotnetdiag trace report app.nettrace gc --html gc.html
    dotnetdiag trace report gc *.nettrace                           one after the other; --json: a list
    dotnetdiag trace report app.nettrace --html app.html            all of them, with the flame graph
    dotnetdiag trace report spans app.nettrace GC/Start GC/Stop
    """


@click.command("spans", cls=Command)
@click.argument("file", type=_FILE)
@click.argument("start")
@click.argument("stop")
@click.option(
    "--by", multiple=True, help="Columns that say what belongs together.  [default: activity, a number, or thread]"
)
@click.option("--where", help="Only what a START begins that passes this filter, as in: Reason == SuspendForGC")
@click.option(
    "-n", "--number", type=click.IntRange(min=0), default=10, show_default=True, help="How many of the longest."
)
@report_options
def spans(file: Path, start: str, stop: str, by: tuple[str, ...], where: str | None, number: int, form: str) -> None:
    """Show what begins with an event START and ends with an event STOP of a trace FILE, and how long it took.

    The longest first; the formats for programs have all of them, in the order of their starts.

    \b
    dotnetdiag trace report spans app.nettrace GC/Start GC/Stop
    dotnetdiag trace report spans app.nettrace GC/SuspendEEStart GC/RestartEEStop --where 'Reason == SuspendForGC'
    dotnetdiag trace report spans web.nettrace System.Net.Http/RequestStart System.Net.Http/RequestStop --format csv
    """
    be_lean()
    from dotnetdiag.recipes.spans import spans_of
    from dotnetdiag.recipes.trace_files import open_trace

    check_files(form)
    trace = open_trace(file)
    made = spans_of(trace, start, stop, by=by, where=where)
    deliver("spans", made, form, name=trace.name, rows=made.table, people=lambda: _show_spans(made, number), digits=3)
    say_losses_of(trace)


def _show_spans(made: Spans, number: int) -> None:
    echo(f"{made.count:,} from {made.start} to {made.stop}, {', '.join(made.notes)}")
    if made.ended:
        parts = ", ".join(f"{name} {value:,.3f}" for name, value in made.durations_ms.items())
        echo(f"ms: {parts}")
    for name, groups in made.groups.items():
        parts = ", ".join(f"{value} {total:,.3f} ({count:,})" for value, (count, total) in groups.items())
        echo(f"ms by {name}: {parts}")
    echo()
    rows = [
        (f"{row['duration_ms']:,.3f}", f"{row['start_ms']:,.3f}", str(row["pid"] or "-"), str(row["tid"]), said)
        for row, said in made.longest(number)
    ]
    if rows:
        table(
            ("duration ms", "start ms", "process", "thread", "fields"),
            rows,
            right=("duration ms", "start ms", "process", "thread"),
            shorten=cut,
        )
        say_more(made.ended - len(rows))


def _without_kind(_: click.Context, __: click.Parameter, words: tuple[Path, ...]) -> tuple[Path, ...]:
    """The files, of words whose last may be the kind. dotnet-trace takes none for granted."""
    is_named = len(words) > 1 and str(words[-1]) == "topN"
    if is_compatible() and not is_named:
        echo("error: nothing to report is named: write topN behind the file", err=True)
        raise click.exceptions.Exit(COMPATIBLE_NO_KIND)
    return words[:-1] if is_named else words


@click.command(
    "topN", cls=EachFile, epilog="Other kinds: `dotnetdiag trace report gc --help`, `exceptions`, `jit`, `spans`."
)
@files_argument(_without_kind)
@click.option("-n", "--number", type=click.IntRange(min=0), default=5, show_default=True, help="How many rows.")
@click.option("--inclusive", is_flag=True, help="Sort by the time of a method and all that it called.")
@view_options
@event_marks_option
@state_option("all")
@click.option("-v", "--verbose", is_flag=True, help="Do not cut long names.")
@report_options
def top(file: Path, number: int, inclusive: bool, verbose: bool, form: str, **view: Any) -> None:
    """Show the methods of a trace FILE that took the most time.

    \b
    dotnetdiag trace report app.nettrace topN -n 20 --state cpu
    dotnetdiag trace report app.nettrace --by namespace --inclusive --time 10s-20s
    dotnetdiag trace report app.nettrace --by line --symbols bin/Release/net10.0

    A sample lasts until the next one of its thread, as dotnet-trace counts. Patterns are regular expressions, searched
    in module!Namespace.Type.Method(parameters) without regard to case. A line with ~ is not exact: it is that of code
    beside, or the first of its method where no more is known.
    """
    be_lean()
    from dotnetdiag.recipes.report import ReportOptions
    from dotnetdiag.recipes.report import report as make

    if view["event_marks"] is None and is_compatible():
        view["event_marks"] = True
    check_files(form)
    with compatible_code(DiagnosticsError, SESSION_ERROR):
        made = make(file, ReportOptions(number=number, inclusive=inclusive, view=view_of(**view)))
    say_losses(made.trace, made.lost, made.damage)
    deliver(
        "topN",
        made,
        form,
        name=made.trace,
        rows=made.table,
        people=lambda: _show(made, verbose),
        document=made.to_json,
        digits=2,
    )
    if is_compatible() and not made.complete:
        raise click.exceptions.Exit(SESSION_ERROR)


_TAKEN_TOGETHER = {
    "method": "Functions",
    "line": "Lines",
    "module": "Modules",
    "namespace": "Namespaces",
    "thread": "Threads",
}


def _amount(value: float) -> str:
    return f"{value:,.2f}" if value != int(value) else f"{value:,.0f}"


def _rows(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]], verbose: bool) -> None:
    """A table with a name last; on a terminal names are cut unless ``verbose``."""
    if verbose and is_terminal():
        widths = [max(len(row[at]) for row in (columns, *rows)) for at in range(len(columns) - 1)]
        for row in (columns, *rows):
            echo("  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]))
        return
    table(columns, rows, right=columns[:-1], shorten=_shortened)


def _shortened(cell: str, width: int) -> str:
    name = cell.removesuffix(ABOVE)
    if (place := _PLACE.search(name)) is not None:
        name = name[: place.start()]
    return shortened_method(name, width - cells(cell) + cells(name)) + cell[len(name) :]


def _show(made: Report, verbose: bool) -> None:
    order = "Inclusive" if made.inclusive else "Exclusive"
    what = _TAKEN_TOGETHER[made.by]
    echo(f"Top {len(made.rows)} {what} ({order}) of {_amount(made.total)} {made.unit} in {made.trace}")
    if made.states:
        parts = ", ".join(f"{_amount(weight)} {made.unit} {state}" for state, weight in made.states.items())
        echo(f"{counted(made.samples, 'sample')} of {counted(made.threads, 'thread')}: {parts}")
    echo()
    if made.rows:
        cells = [
            (
                f"{row.inclusive_percent:.2f}%",
                f"{row.exclusive_percent:.2f}%",
                _amount(row.inclusive),
                _amount(row.exclusive),
                row.name,
            )
            for row in made.rows
        ]
        unit = made.unit
        _rows(("inclusive", "exclusive", f"inclusive {unit}", f"exclusive {unit}", made.by), cells, verbose)
    else:
        echo("No method calls found.")
    echo()
    echo(f"{made.unresolved:,} of {made.frames:,} frames unresolved")
    for note in made.notes:
        echo(f"note: {note}")


def _limit(_: click.Context, __: click.Parameter, text: str | None) -> Any:
    if text is None:
        return None
    from dotnetdiag.recipes.diffing import parse_limit

    return parse_limit(text)


@click.command(cls=Command)
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option(
    "-n",
    "--number",
    type=click.IntRange(min=0),
    default=10,
    show_default=True,
    help="How many rows below the total: first those above the limit, then those that changed most.",
)
@click.option("--inclusive", is_flag=True, help="Show the time of methods with all that they called.")
@click.option("--shares", is_flag=True, help="Scale AFTER to the total of BEFORE: for recordings of unequal length.")
@click.option(
    "--fail-above",
    "limit",
    metavar="LIMIT",
    callback=_limit,
    help="Exit with 1 when the total or what a method took itself grew by more: 5% (of the total of BEFORE), or 20ms.",
)
@view_options
@event_marks_option
@state_option("cpu")
@click.option("-v", "--verbose", is_flag=True, help="Do not cut long names.")
@format_option
def diff(
    before: Path,
    after: Path,
    number: int,
    inclusive: bool,
    shares: bool,
    limit: Any,
    verbose: bool,
    form: str,
    **view: Any,
) -> None:
    """Compare the time of trace AFTER with that of BEFORE, per method.

    Time on the processor only, unless --state says otherwise: waiting depends on how long was recorded.

    Exit codes: 0 compared; 1 something grew by more than --fail-above; 2 a file could not be read; 3 wrong arguments, or a file
    without samples in the state (.NET 9 does not tell which threads wait: compare its recordings with --state all).

    \b
    dotnetdiag trace diff before.nettrace after.nettrace --fail-above 5%
    """
    be_lean()
    from dotnetdiag.recipes.diffing import DiffOptions, compare

    options = DiffOptions(number=number, inclusive=inclusive, shares=shares, limit=limit, view=view_of(**view))
    made = compare(before, after, options)
    for line in made.shortcomings:
        echo(line, err=True)
    verdict.settle(WORSE if made.above else OK)
    show(form, made.table, people=lambda: _show_diff(made, verbose), document=made.to_json, digits=2)
    if made.above:
        if form == TABLE:
            sys.stdout.flush()
            echo(f"{len(made.above)} above the limit of {_amount(made.limit or 0.0)} {made.unit}", err=True)
        raise click.exceptions.Exit(WORSE)


def _signed(value: float) -> str:
    return f"{value:+,.2f}" if value != int(value) else f"{value:+,.0f}"


def _diff_cells(row: DiffRow, above: frozenset[str]) -> tuple[str, ...]:
    relative = "new" if row.relative is None and row.after else "" if row.relative is None else f"{row.relative:+.1f}%"
    mark = ABOVE if row.name in above else ""
    return _amount(row.before), _amount(row.after), _signed(row.absolute), relative, row.name + mark


def _show_diff(made: Compared, verbose: bool) -> None:
    kind = "inclusive" if made.inclusive else "exclusive"
    echo(f"{made.after} against {made.before}: {kind} {made.unit} by {made.by}")
    if made.scale != 1.0:
        echo(f"the second scaled by {made.scale:.4f} to the total of the first")
    echo()
    above = frozenset(row.name for row in made.above)
    cells = [_diff_cells(row, above) for row in (made.total, *made.rows)]
    _rows((f"before {made.unit}", f"after {made.unit}", "change", "relative", made.by), cells, verbose)
    echo()
    for note in made.notes:
        echo(f"note: {note}")


COMMANDS = (report, diff)
