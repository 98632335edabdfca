"""What is said of a heap that is collected, and what ends it: for all verbs of ``gcdump`` that have a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.cli.heap_types import say_problems
from dotnetdiag.cli.options import say_waiting, target_of, target_parameters
from dotnetdiag.cli.render import echo, size_text, write_raw
from dotnetdiag.cli.standard_streams import takes_at_once
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from dotnetdiag.heap import Heap
    from dotnetdiag.heap.type_totals import TypeTotals
    from dotnetdiag.recipes.heap_collect import CollectedHeap, HeapOptions
    from dotnetdiag.recipes.stop import Stop
    from dotnetdiag.recipes.target import Target

PAUSE = "some 0.1 to 0.3 s for a million objects, longer on a busy machine"
NO_SOURCE = "Give a FILE, or a process: --process-id, --name, --wait-for, --diagnostic-port, --dsrouter."


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | str | None:
    """A number is one of seconds, as dotnet-gcdump has it."""
    if text is None:
        return None
    return float(text) if text.isdecimal() and text.isascii() and 0 < len(text) < 10 else text


def timeout_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``-t``, as the keyword ``timeout``: for ``seconds_of``."""
    return click.option(
        "-t",
        "--timeout",
        callback=_seconds,
        help="Give up when nothing has come of the heap, or no runtime, for so long: seconds, or 2m.  [default: 30, and a runtime "
        "that is not there yet is waited for however long]",
    )(function)


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A heap of a FILE or of a process; the command gets ``find``, which gives it."""
    import functools

    @functools.wraps(function)
    def with_source(
        *args: Any,
        pid: int | None,
        name: str | None,
        wait_for: str | None,
        port: str | None,
        router: str | None,
        timeout: float | str | None,
        dump: int | None,
        file: Path | None = None,
        **others: Any,
    ) -> Any:
        target = target_of(pid, name, wait_for, port, router)
        if (file is None) == (target is None):
            raise UsageError(NO_SOURCE if file is None else "a FILE is looked into, or a process: one of them")
        if target is not None and dump is not None:
            raise UsageError("--dump is for a FILE that has several")
        return function(*args, find=Find(file, target, timeout, dump), **others)

    dumps = click.option(
        "--dump", type=click.IntRange(min=1), help="Which of the dumps of a recording, from 1.  [default: 1]"
    )
    return target_parameters(timeout_option(dumps(with_source)))


@dataclass(frozen=True, slots=True)
class Find:
    """Gives the heap that is asked for, or what the report of its types needs of it. What is missing of it is said on stderr."""

    file: Path | None
    target: Target | None
    timeout: float | str | None
    dump: int | None

    def __call__(self) -> Heap:
        heap = _find(self.file, self.target, self.timeout, self.dump)
        say_problems(heap)
        return heap

    def totals(self) -> Heap | TypeTotals:
        """The totals by type alone, where a file gives them in less time than its heap."""
        totals = None
        if self.file is not None and self.dump is None:
            from dotnetdiag.recipes.heap_files import read_totals

            totals = read_totals(self.file)
        if totals is None:
            return self()
        say_problems(totals)
        return totals


def _find(file: Path | None, target: Target | None, timeout: float | str | None, dump: int | None) -> Heap:
    if target is not None:
        from dotnetdiag.recipes.heap_collect import HeapOptions

        done = collect(HeapOptions(target=target, timeout=timeout))
        say_pause(done)
        heap = done.heap
    else:
        from dotnetdiag.recipes.heap_files import open_heap

        assert file is not None
        heap = open_heap(file, dump)
        if heap.facts.dumps > 1 and dump is None:
            echo(f"The recording has {heap.facts.dumps} dumps; this is the first, --dump tells which.", err=True)
    return heap


def say_pause(done: CollectedHeap) -> None:
    """How long the program stood still, how else it went, and whether all is there; what is not, is told of every heap."""
    pause = pause_text(done)
    if pause:
        echo(f"The process {pause}.", err=True)
    heap = done.heap
    if heap.completeness.complete:
        echo(
            f"The heap is complete: {heap.objects:,} objects, the {heap.edges:,} references lead to what is there, no event was lost.",
            err=True,
        )
    for note in done.notes:
        echo(note, err=True)


def pause_text(done: CollectedHeap) -> str:
    """How long the program stood still, and what all walks came to, where there were several; empty where nothing was told of it."""
    at_least = "" if done.are_pauses_known else "at least "
    if done.all_pauses_ms is None:
        return ""
    if done.attempts == 1:
        return f"stood still for {at_least}{done.all_pauses_ms:,.1f} ms"
    last = "" if done.pause_ms is None else f"{done.pause_ms:,.1f} ms in the last walk, and "
    return f"stood still for {last}{at_least}{done.all_pauses_ms:,.1f} ms in all, in {done.attempts} walks"


def collect(options: HeapOptions, stop: Stop | None = None) -> CollectedHeap:
    """Collect a heap, with lines about it on stderr. Ctrl-C ends it at once."""
    from dotnetdiag.cli.recording import ends_nicely
    from dotnetdiag.recipes.heap_collect import HeapObserver, collect_heap
    from dotnetdiag.recipes.stop import Stop

    stop = stop or Stop()
    progress, pauses = Progress(), Pauses()
    observer = HeapObserver(
        waiting=say_waiting(options.target),
        started=_started,
        progress=progress.show,
        paused=pauses.add,
        again=progress.again,
    )
    try:
        with ends_nicely(stop, None, enter=False):
            return collect_heap(options, observer, stop)
    except BaseException:
        progress.clear()
        pauses.say()
        raise
    finally:
        progress.clear()


def _started(pid: int | None) -> None:
    who = "The process" if pid is None else f"Process {pid}"
    echo(f"{who} stands still while its heap is walked, {PAUSE}.", err=True)


class Pauses:
    """How long the program stood still for what came to nothing."""

    def __init__(self) -> None:
        self._told: list[tuple[float, bool]] = []

    def add(self, pause_ms: float, is_known: bool) -> None:
        """Of one walk."""
        self._told.append((pause_ms, is_known))

    def forget(self) -> None:
        """They were told."""
        self._told.clear()

    def say(self) -> None:
        """All of them."""
        if self._told:
            at_least = "" if all(known for _, known in self._told) else "at least "
            echo(f"The process stood still for {at_least}{sum(ms for ms, _ in self._told):,.1f} ms.", err=True)


class Progress:
    """One line on a terminal, written over."""

    def __init__(self) -> None:
        self._live = os.isatty(2) and sys.stderr.isatty()
        self._shown = 0

    def show(self, objects: int, references: int, size_bytes: int, seconds: float) -> None:
        if not self._live or not takes_at_once(2):  # a stopped terminal must not stop what is collected
            return
        text = f"{objects:,} objects, {references:,} references, {size_text(size_bytes)}, {seconds:.1f} s"
        write_raw(f"\r{text.ljust(self._shown)}", err=True)
        self._shown = len(text)

    def again(self, missing: str) -> None:
        self.clear()
        echo(f"Not complete: {missing}. Once more.", err=True)

    def clear(self) -> None:
        if self._shown:
            write_raw(f"\r{' ' * self._shown}\r", err=True)
        self._shown = 0
