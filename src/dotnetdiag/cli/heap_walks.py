"""What is said of a heap that is collected, and what ends it: for all verbs of ``gcdump`` that have a process. Without click, which takes a tenth
of the time in which a heap of a million objects is collected.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from dotnetdiag.cli.heap_types import say_problems
from dotnetdiag.cli.render import echo, json_text, size_text, write_raw
from dotnetdiag.cli.standard_streams import takes_at_once

if TYPE_CHECKING:
    from pathlib import Path

    from dotnetdiag.recipes.heap_collect import CollectedHeap, HeapOptions
    from dotnetdiag.recipes.stop import Stop
    from dotnetdiag.recipes.target import Target

PAUSE = "some 0.1 to 0.3 s for a million objects, longer on a busy machine"

AT_END = ", and for a collection when the session ended, which .NET before 10 makes and does not tell of"


def collect_into(
    options: HeapOptions, output: Path | None, *, force: bool = False, verbose: bool = False, as_json: bool = False
) -> bool:
    """Collect a heap into a file, and say how it went: whether it is complete."""
    from dotnetdiag.recipes.heap_convert import new_path, write_collected
    from dotnetdiag.recipes.outputs import is_stdout

    with write_collected(options, output, force=force) as writing:
        done = collect(writing.options)
        say_pause(done)  # also where the file cannot be written
        path, size = writing.finish(done, new_path(done.pid))
    say_problems(done.heap)
    to_stdout = is_stdout(path)  # which has the heap alone
    if verbose:
        echo(
            f"{done.size_bytes:,} bytes came in {done.duration_s:.2f} s, in {done.attempts} session{'s' if done.attempts > 1 else ''}.",
            err=True,
        )
    if as_json:
        from dotnetdiag.recipes.heap_reports import summary

        walks = {
            "attempts": done.attempts, "walks": done.walks,
            "all_pauses_ms": done.all_pauses_ms, "are_pauses_known": done.are_pauses_known,
        }  # fmt: skip
        told = {"path": str(path), "size_bytes": size, "duration_s": done.duration_s, **walks}
        json_text({**told, **summary(done.heap)}, err=to_stdout)
    else:
        echo(f"Writing gcdump to '{path}'...", err=to_stdout)
        write_raw(f"\tFinished writing {size} bytes.\n", err=to_stdout)
    return done.heap.completeness.complete


def say_pause(done: CollectedHeap) -> None:
    """How long the program stood still, how else it went, and whether all is there; what is not, is told of every heap."""
    pause = pause_text(done)
    if pause:
        echo(f"The process {pause}{AT_END if done.collects_at_end else ''}.", err=True)
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
    if done.walks < 2:
        return f"stood still for {at_least}{done.all_pauses_ms:,.1f} ms"
    last = "" if done.pause_ms is None else f"{done.pause_ms:,.1f} ms in the last walk, and "
    return f"stood still for {last}{at_least}{done.all_pauses_ms:,.1f} ms in all, in {done.walks} walks"


def collect(options: HeapOptions, stop: Stop | None = None) -> CollectedHeap:
    """Collect a heap, with lines about it on stderr. Ctrl-C ends it at once."""
    from dotnetdiag.cli.recording import ends_nicely
    from dotnetdiag.recipes.heap_collect import HeapObserver, collect_heap
    from dotnetdiag.recipes.stop import Stop

    stop = stop or Stop()
    progress, pauses = Progress(), Pauses()
    observer = HeapObserver(
        waiting=_waiting(options.target),
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


def _waiting(target: Target) -> Callable[[str], None]:
    def say(awaited: str) -> None:
        from dotnetdiag.cli.options import say_waiting

        say_waiting(target)(awaited)

    return say


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
        """All of them, where that was any time."""
        if any(ms for ms, _ in self._told):
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
