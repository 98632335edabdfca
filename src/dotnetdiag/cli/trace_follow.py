"""``trace collect --follow``: what is said of many recordings at once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.exits import TRACING_ERROR
from dotnetdiag.cli.files import shown_path
from dotnetdiag.cli.options import say_waiting
from dotnetdiag.cli.recording import ends_nicely, notes_on, outcome_notes
from dotnetdiag.cli.render import echo, json_text, size_text
from dotnetdiag.errors import ProcessNotFound
from dotnetdiag.tui.plain import clean

if TYPE_CHECKING:
    from dotnetdiag.recipes.collect import Collected, CollectOptions, Composition
    from dotnetdiag.recipes.follow import Unrecorded


def follow_all(options: CollectOptions, *, as_json: bool) -> None:
    """Record them, a line on stderr for each that begins and ends; then the files on stdout. Raises click's Exit with the command's code."""
    from dotnetdiag.recipes.descriptors import raise_limit
    from dotnetdiag.recipes.follow import Followed, FollowObserver, follow
    from dotnetdiag.recipes.launch import Output
    from dotnetdiag.recipes.stop import Stop

    raise_limit()
    shows = options.launch is not None and options.launch.output is not Output.NOWHERE
    stop = Stop()
    observer = FollowObserver(
        listening=say_waiting(options.target), composed=_say_composed, began=_say_began, ended=_say_ended,
        failed=_say_failed, left=_say_left, stopping=_say_stopping,
    )  # fmt: skip
    with ends_nicely(stop, observer, enter=not shows):
        try:
            done = follow(options, observer, stop)
        except ProcessNotFound as error:
            if as_json:
                nothing = Followed(
                    folder=options.output or Path(),
                    recordings=(),
                    child_exit_code=error.ended_with,
                    notes=(str(error),),
                )
                json_text(nothing.to_json())
            raise
    for note in done.notes:
        echo(note, err=True)
    if as_json:
        json_text(done.to_json())
    else:
        for one in done.recordings:
            echo(f"{shown_path(one.path)}  {size_text(one.size_bytes)} in {one.duration_s:.1f} s")
        for path in done.converted:
            echo(shown_path(path))
    if not (done.recordings or done.unrecorded):
        echo("No .NET process has come: nothing was recorded.", err=True)
    if done.child_exit_code is not None:
        how = f" It was ended by {done.child_signal}." if done.child_signal else ""
        echo(f"Process exited with code '{done.child_exit_code}'.{how}", err=True)
        raise click.exceptions.Exit(done.child_exit_code)
    if done.unrecorded or any(one.target_died or one.was_cut for one in done.recordings):
        raise click.exceptions.Exit(TRACING_ERROR)


def _say_composed(composition: Composition) -> None:
    for note in notes_on(composition):
        echo(note, err=True)
    how = "Press <Enter> or <Ctrl+C> to exit..." if sys.stdin.isatty() else "Press <Ctrl+C> to exit..."
    echo(f"Recording every .NET process. {how}", err=True)


def _say_began(pid: int, path: Path) -> None:
    echo(f"{pid}: recording {shown_path(path)}", err=True)


def _say_ended(pid: int, done: Collected) -> None:
    echo(f"{pid}: {size_text(done.size_bytes)} in {done.duration_s:.1f} s", err=True)
    ended = () if done.target_exited and not done.target_died and not done.lost_events else outcome_notes(done)
    for note in (*done.notes, *ended):
        echo(f"{pid}: {note}", err=True)


def _say_failed(one: Unrecorded) -> None:
    echo(f"{one.pid}: not recorded ({clean(one.problem)})", err=True)


def _say_left(count: int) -> None:
    are = "process it has started runs" if count == 1 else "processes it has started run"
    echo(f"The command has ended, and {count} {are} still: --stop-on-exit would not wait.", err=True)


def _say_stopping() -> None:
    echo("Stopping the traces. This may take several minutes depending on the applications being traced.", err=True)
