"""What is said of a recording while it runs, and what ends it: for all verbs that record."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag.cli.render import echo, seconds_text, timespan_text, write_raw
from dotnetdiag.cli.signals import ending, pressed
from dotnetdiag.cli.standard_streams import takes_at_once
from dotnetdiag.errors import FormatError
from dotnetdiag.tui.plain import clean
from dotnetdiag.tui.widths import LEAST_WIDTH, cells, padded, shortened

if TYPE_CHECKING:
    from dotnetdiag.recipes.collect import Collected, Composition, Observer, Stop
    from dotnetdiag.recipes.follow import FollowObserver
    from dotnetdiag.recipes.kept_files import KeptFile

OPTIONS = {"providers": "--providers", "preset": "--profile", "clr_events": "--clrevents"}
"""Which option each source of providers is here."""
HEAD_BYTES = 1 << 16
"""Of a file that may be no trace: what it is, its first bytes say."""
MOST_IN_BUFFER = 100
"""An event takes so many times as many bytes in the target's buffer as in the file, at most: with a stack of 100 frames and nothing else."""
LEVELS = {0: "LogAlways", 1: "Critical", 2: "Error", 3: "Warning", 4: "Informational", 5: "Verbose"}


def notes_on(composition: Composition) -> Iterator[str]:
    """What dotnet-trace says there, and providers that are probably misspelled."""
    if composition.is_default:
        from dotnetdiag.recipes.presets import DEFAULT_PRESETS

        names = " + ".join(f"'{name}'" for name in DEFAULT_PRESETS)
        yield f"No profile or providers specified, defaulting to trace profiles {names}."
    if composition.clr_events_ignored:
        yield "The CLR provider was already specified through --providers or --profile. Ignoring --clrevents."
    yield from misspelled_providers(composition)


def misspelled_providers(composition: Composition) -> Iterator[str]:
    """A line for each: a runtime takes any name, and records nothing of one that it has not."""
    from dotnetdiag.recipes.collect import misspelled

    for provider in composition.providers:
        if (meant := misspelled(provider.name or "")) is not None:
            yield f"The provider {provider.name} is recorded, if there is one; near: {meant}."


def outcome_notes(done: Collected) -> Iterator[str]:
    """How the recording went, where it did not go as one would like."""
    who = "The process" if done.pid is None else f"Process {done.pid}"
    if done.target_died:
        yield (
            f"{who} was gone before the trace had its end: all that had come is in the file, "
            "but names of methods and the last events may be missing."
        )
    elif done.target_exited and done.child_exit_code is None:
        yield f"{who} has exited, and the trace ended with it."
    elif done.was_cut:
        yield "The connection broke off, and the recording with it: what stands between, or the target, is gone."
    elif not done.was_stopped and done.child_exit_code is None:
        yield f"The session was ended from elsewhere; {who.lower() if done.pid is None else who} still runs."
    if not done.files:
        yield "No dump was asked for: nothing was kept."
    elif not done.size_bytes:
        yield "Nothing has come: the file is empty."
    elif (problem := no_trace(done)) is not None:
        yield f"What has come is no trace: {problem}."
    elif done.complete is False and not done.target_died:
        yield "The trace has no end: names of methods and the last events may be missing."
    if done.lost_events:
        lost, buffer = f"{done.lost_events:,} events were lost", f"the target's buffer of {done.buffer_mb} MB was full"
        remedy = "larger --buffersize helps, and so do fewer events: fewer keywords, a lower level."
        if done.size_bytes > (done.buffer_mb << 20) / MOST_IN_BUFFER:
            yield f"{lost}: {buffer}. A {remedy}"
        else:
            yield f"{lost}: they had more than 64 KB, which runtimes leave out, or {buffer}. Against that a {remedy}"


def no_trace(done: Collected) -> FormatError | None:
    """What everything that opens the recording will raise, by the first bytes of it; None of one that was seen to be whole, is empty, or went to
    a pipe.
    """
    from dotnetdiag.recipes.outputs import is_stream
    from dotnetdiag.trace.trace import Trace

    if done.complete or not done.files or is_stream(done.path):
        return None
    try:
        with open(done.path, "rb") as file:
            head = file.read(HEAD_BYTES)
        if head:
            Trace(head)
    except FormatError as error:
        return error
    except OSError:  # it was moved away meanwhile
        pass
    return None


def provider_lines(composition: Composition, width: int | None = None) -> list[str]:
    """A table; where that is wider than the terminal, names give way in their middle."""
    rows = [("Provider Name", "Keywords", "Level", "Enabled By")]
    for provider, source in zip(composition.providers, composition.sources, strict=True):
        level = f"{LEVELS.get(provider.level, '?')}({provider.level})"
        rows.append((clean(provider.name or ""), f"0x{provider.keywords:016X}", level, OPTIONS[source.value]))
    name, *rest = (max(map(cells, column)) for column in zip(*rows, strict=True))
    if width is not None:
        name = min(name, max(width - sum(rest) - 2 * len(rest), LEAST_WIDTH))
    widths = (name, *rest)
    return [
        "  ".join(
            padded(cell, width) for cell, width in zip((shortened(row[0], name), *row[1:]), widths, strict=True)
        ).rstrip()
        for row in rows
    ]


class Display:
    """What is seen of a recording on stderr: what is recorded, then bytes, rate and time left on one line."""

    def __init__(self, duration: float | str | None, *, quiet: bool, enter_says: str | None = None) -> None:
        """``enter_says`` is what the Enter key does; None: it ends the recording."""
        self._enter_says = enter_says
        self._held = ""
        self._quiet = quiet
        self._is_terminal = os.isatty(2)
        self._live = sys.stderr.isatty() and not quiet
        self._left_s: float | None = None
        self._duration = duration
        self._last = (0.0, 0)
        self._rate = 0.0
        self._shown = False
        self._path: Path | None = None
        self._size_bytes = 0
        self.notes: tuple[str, ...] = ()
        """What was said of the composition at the start."""

    def started(self, composition: Composition, path: Path, pid: int | None) -> None:
        self.notes = tuple(notes_on(composition))
        self._path = path
        for note in self.notes:
            echo(note, err=True)
        if self._quiet:
            return
        if self._duration is not None:
            from dotnetdiag.durations import seconds_of

            self._left_s = seconds_of(self._duration)
        for line in provider_lines(composition, os.get_terminal_size(2).columns or None if self._is_terminal else None):
            echo(line, err=True)
        echo(f"Process        : {'one that is not seen from here' if pid is None else pid}", err=True)
        echo(f"Output File    : {path}", err=True)
        if self._left_s is not None:
            echo(f"Trace Duration : {timespan_text(self._left_s)}", err=True)
        if sys.stdin.isatty() and self._enter_says is not None:
            echo(f"Press <Enter> to {self._enter_says}, <Ctrl+C> to exit...", err=True)
        elif sys.stdin.isatty():
            echo("Press <Enter> or <Ctrl+C> to exit...", err=True)
        elif not self._live:
            echo("Recording trace in progress. Press <Ctrl+C> to exit...", err=True)

    def progress(self, size_bytes: int, elapsed_s: float) -> None:
        self._size_bytes = size_bytes
        if not self._live or not takes_at_once(2):  # a stopped terminal must not stop the recording
            return
        from dotnetdiag.cli.render import size_text

        then, before = self._last
        if elapsed_s - then < 0.1:
            return
        now = (size_bytes - before) / (elapsed_s - then)
        self._rate = now if not self._shown else self._rate * 0.8 + now * 0.2
        self._last = (elapsed_s, size_bytes)
        left = ""
        if self._left_s is not None:
            left = f"   {seconds_text(max(0.0, self._left_s - elapsed_s))} left"
        text = f"[{seconds_text(elapsed_s)}]  Recording trace {size_text(size_bytes)}  {size_text(self._rate)}/s{self._held}{left}"
        write_raw(f"\r\x1b[K{text}", err=True)
        self._shown = True

    def held(self, seconds: float, size_bytes: int) -> None:
        """What a flight recorder has, for the next line."""
        from dotnetdiag.cli.render import size_text

        self._held = f"   holds {seconds_text(seconds)}, {size_text(size_bytes)}"

    def dumped(self, file: KeptFile) -> None:
        """A flight recorder has written a file."""
        if self._live:
            write_raw("\r\x1b[K", err=True)
        from dotnetdiag.cli.keeping import file_line  # brings click

        echo(f"Wrote {file_line(file)}", err=True)

    def stopping(self) -> None:
        if self._shown:
            echo(err=True)
        echo("Stopping the trace. This may take several minutes depending on the application being traced.", err=True)
        self._left_s = None

    @property
    def has_started(self) -> bool:
        """Whether a session was there: what goes wrong from then on is a broken recording."""
        return self._path is not None

    def broken(self) -> None:
        """The recording ended in an error, which is told elsewhere."""
        if self._shown:
            echo(err=True)
        if self._size_bytes and self._path is not None and self._path.is_file():
            echo(f"What had come is in {self._path} ({self._path.stat().st_size} bytes).", err=True)

    def finish(self, done: Collected) -> None:
        if self._shown:
            echo(err=True)
        if not self._quiet:
            echo("Trace ended." if done.target_died or done.complete is False else "Trace completed.", err=True)


@contextmanager
def ends_nicely(
    stop: Stop,
    observer: Observer | FollowObserver | None,
    *,
    enter: bool,
    on_enter: Callable[[], None] | None = None,
    several: bool = False,
) -> Iterator[None]:
    """Ctrl-C, SIGTERM, SIGHUP, SIGQUIT (and Enter on a terminal) stop the recording; a second one ends it at once, and so does the first one
    where its end has begun already; of ``several``, one after the other, the end of one is not that of all. What is not recorded yet they end as
    they end every verb. ``on_enter`` is what Enter does instead, each time; ``observer`` is told of the signal for a program that was started.
    """
    from dotnetdiag.errors import Cancelled

    terminals = [descriptor for descriptor in (0, 1, 2) if os.isatty(descriptor)]  # one that has gone does not say so

    last: int | None = None

    def on_press(number: int, *, again: bool) -> None:
        nonlocal last
        last = number
        if number == getattr(signal, "SIGHUP", None):
            _lead_nowhere(terminals)
        if not stop.has_begun:  # nothing is recorded yet: a runtime is waited for, a program started
            stop.cancel()
            if again or stop.may_raise:
                raise ending(number)
        elif again or (stop.is_stopping if several else stop.end_has_begun):
            stop.cancel()
        else:
            if observer is not None:
                observer.child_signal = number
            stop.stop()

    ended = threading.Event()
    if enter and sys.stdin.isatty():
        threading.Thread(target=_wait_for_enter, args=(stop, ended, on_enter), daemon=True).start()
    try:
        with pressed(on_press):
            yield
    except Cancelled as error:
        raise ending(last) from error
    finally:
        ended.set()


def _lead_nowhere(descriptors: Sequence[int]) -> None:
    """Of a terminal that has gone: writing to it would fail."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in descriptors:
        os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _wait_for_enter(stop: Stop, ended: threading.Event, on_enter: Callable[[], None] | None) -> None:
    """Looks at the terminal without holding Python's lock on stdin, which would hang the interpreter's end."""
    if sys.platform == "win32":
        import msvcrt

        while not ended.wait(0.1):
            if msvcrt.kbhit() and msvcrt.getwch() == "\r":
                if on_enter is None:
                    stop.stop()
                    return
                on_enter()
        return
    from dotnetdiag.recipes.terminal import typed

    for data in typed(ended.is_set):
        if on_enter is None:
            stop.stop()
            return
        if b"\n" in data:
            on_enter()
