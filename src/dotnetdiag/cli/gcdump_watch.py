"""``gcdump watch``: heaps over time, and what only grows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.exits import TRACING_ERROR
from dotnetdiag.cli.gcdump_live import seconds_or_duration, timeout_option
from dotnetdiag.cli.heap_types import say_problems, show_way
from dotnetdiag.cli.heap_walks import PAUSE, Pauses, Progress, pause_text
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.options import say_waiting, target_options
from dotnetdiag.cli.output import TABLE, format_option, show
from dotnetdiag.cli.render import counted, echo, table

if TYPE_CHECKING:
    from dotnetdiag.recipes.heap_collect import CollectedHeap
    from dotnetdiag.recipes.heap_watch import HeapSample, Suspect, WatchedHeaps
    from dotnetdiag.recipes.target import Target


@click.command("watch", cls=Command)
@target_options
@click.option(
    "--every",
    default="10m",
    show_default=True,
    callback=seconds_or_duration,
    help="From one heap to the next: seconds, or 30s, 10m, 1h.",
)
@click.option("--count", type=click.IntRange(min=1), help="How many heaps.  [default: until Ctrl-C]")
@timeout_option
@format_option
def watch(target: Target, every: float | str, count: int | None, timeout: float | str | None, form: str) -> None:
    """Collect heaps of a process over time, and say which types only grow: these are likely to leak.

    The process stands still for each heap. Ctrl-C ends it, and says what was seen. A line for each heap, then the types that only grow: of
    which there are never fewer, never with fewer bytes, and with more bytes at last. Those that keep most more alive than before come first,
    each with the way on which what grew of it is held, and with those that it holds below it. Of types that hold each other, such as an event and
    the list of its handlers, the one that is nearest to the roots stands above the others.

    The first heap of a process leaves some 0.2 MB in it, which are in the second: what holds the descriptions of the runtime's events is said to be
    of the diagnostics. Take three heaps or more, of which types have to grow after the second too.

    --json: one object, {heaps: [{at_s, nodes, objects, bytes, grown_bytes, complete, pause_ms}], compared, suspects: [{type, module,
    steps, count_before, count_after, count_grown, bytes_before, …, path, held_by}], problem}. compared is how many of the heaps are complete:
    the others are not compared. held_by is the type below which one is shown, null of one that stands by itself; following it never leads round
    in a circle.

    \b
    dotnetdiag gcdump watch -p 1234 --every 10m
    dotnetdiag gcdump watch -n MyApp --every 30s --count 5 --json
    """
    be_lean()
    from dotnetdiag.cli.recording import ends_nicely
    from dotnetdiag.heap.difference import no_growing_types
    from dotnetdiag.recipes.collect import Observer, Stop
    from dotnetdiag.recipes.heap_collect import HeapObserver
    from dotnetdiag.recipes.heap_watch import HeapWatchObserver, check_every, watch_heaps

    progress, pauses = Progress(), Pauses()
    said: list[int | None] = []
    samples: list[HeapSample] = []

    def started(pid: int | None) -> None:
        if not said:
            echo(f"The process stands still for each heap, {PAUSE}; Ctrl-C ends.", err=True)
        said.append(pid)

    def sample(one: HeapSample, done: CollectedHeap) -> None:
        progress.clear()
        pauses.forget()
        pause = f", {pause_text(done)}" if pause_text(done) else ""
        echo(f"{_sample_text(one, is_first=not samples)}{pause}", err=form != TABLE)
        samples.append(one)
        say_problems(done.heap)
        for note in done.notes:
            echo(note, err=True)

    observer = HeapWatchObserver(
        sample=sample,
        collecting=HeapObserver(
            waiting=say_waiting(target),
            started=started,
            progress=progress.show,
            paused=pauses.add,
            again=progress.again,
        ),
    )
    check_every(every)
    stop = Stop()
    with ends_nicely(stop, Observer(), enter=False, several=True):
        try:
            seen = watch_heaps(target, every=every, count=count, timeout=timeout, observer=observer, stop=stop)
        finally:
            progress.clear()
            pauses.say()
    show(
        form,
        lambda: seen.growing if seen.growing is not None else no_growing_types(),
        people=lambda: _show(seen),
        document=seen.to_json,
    )
    if seen.problem is not None:
        echo(f"It ended before its time: {seen.problem}", err=True)
        raise click.exceptions.Exit(TRACING_ERROR)


def _sample_text(one: HeapSample, *, is_first: bool) -> str:
    grown = "" if is_first else f" ({one.grown_bytes:+,} since the first)"
    return f"{one.at_s:>9,.1f} s  {one.bytes:>15,} bytes{grown}  {one.objects:>11,} objects"


def _show(seen: WatchedHeaps) -> None:
    if left_out := len(seen.samples) - seen.compared:
        echo()
        echo(
            f"Of {counted(len(seen.samples), 'heap')} {left_out:,} {'is' if left_out == 1 else 'are'} not complete, and not compared."
        )
    if seen.growing is None:
        heaps = "No heap" if not seen.compared else "One heap"
        echo(f"{heaps}{' to compare' if left_out else ''}: what grows is seen in two or more.")
        return
    echo()
    if not seen.suspects:
        echo("No type only grows.")
        return
    if seen.compared == 2:
        echo(
            "What the first heap of a process leaves in it is in the second, and no leak: three heaps tell them apart."
        )
    echo(f"Types that only grow, of {seen.compared:,} heaps:")
    cells = [
        (
            f"{one.row['bytes_grown']:+,}", f"{one.row['count_grown']:+,}", f"{one.row['retained_bytes_grown']:+,}",
            f"{one.row['steps']:,}", f"{'' if one.held_by is None else '  '}{one.row['type'] or '-'}{_mark(one)}",
        )
        for one in seen.suspects
    ]  # fmt: skip
    heads = ("bytes", "count", "retained", "steps")
    table((*heads, "type"), cells, right=heads)
    for one in [one for one in seen.suspects if one.held_by is None and not _mark(one)][:3]:
        show_way(one.row["type"], one.path)
    left = len(seen.growing) - len(seen.suspects)
    if left > 0:
        echo()
        echo(f"{counted(left, 'more type')} grew")


def _mark(one: Suspect) -> str:
    from dotnetdiag.heap.holders import DIAGNOSTICS

    return "  (of the diagnostics, no leak)" if DIAGNOSTICS in one.path else ""
