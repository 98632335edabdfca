"""Verbs that other verbs run when something has happened (``counters watch --then``): in processes of their own, one for a target at a time."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType

import click

from dotnetdiag.cli.render import echo
from dotnetdiag.errors import UsageError

_TARGET_OPTIONS = ("-p", "--process-id", "-n", "--name", "--diagnostic-port", "--dport", "--wait-for", "--all")
PID = "{pid}"
ENDS_S = 30.0
"""How long a verb that was told to end may go on."""
LOOK_S = 0.1


def parse_action(ctx: click.Context, text: str) -> tuple[str, ...]:
    """The words of a verb. Raises UsageError for one that is not there."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text!r} is no verb with its options: {error}") from error
    group: click.Command = ctx.find_root().command
    read = 0
    while isinstance(group, click.Group):
        name = words[read] if read < len(words) else ""
        found = group.get_command(ctx, name)
        if found is None:
            known = ", ".join(group.list_commands(ctx))
            raise UsageError(f"{text!r} is no verb of dotnetdiag: {name!r} is none of {known}")
        group, read = found, read + 1
    return tuple(words)


class Actions:
    """Runs a verb (None: none is wanted) for targets. Use with ``with``: at its end those that run are told to end, and waited for."""

    def __init__(self, words: Sequence[str] | None) -> None:
        self._words = words
        self._running: dict[int | str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Actions:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.signal(signal.SIGINT)
        self.wait(ENDS_S)
        for process in self._running.values():
            process.kill()
            process.wait()

    def run(self, target: int | str | None) -> None:
        """Begin the verb for a process id or a port; not where it still runs for the same one."""
        if self._words is None or target is None:
            return
        if target in self._running:
            echo(f"{shlex.join(self._words)}: still runs for {target}; it is not begun again", err=True)
            return
        words = [word.replace(PID, str(target)) for word in self._words]
        if not any(word.split("=")[0].split(":")[0] in _TARGET_OPTIONS for word in words) and words == [*self._words]:
            words += ["-p", str(target)] if isinstance(target, int) else ["--diagnostic-port", target]
        echo(f"dotnetdiag {shlex.join(words)}", err=True)
        self._running[target] = subprocess.Popen(
            [sys.executable, "-m", "dotnetdiag", *words],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr.fileno(),
            start_new_session=sys.platform != "win32",  # Ctrl-C is ours to pass on, once
        )

    def look(self) -> None:
        """Say which have ended."""
        for target, process in list(self._running.items()):
            code = process.poll()
            if code is not None:
                del self._running[target]
                if code:
                    echo(f"{shlex.join(self._words or ())}: exit code {code} for {target}", err=True)

    def signal(self, number: int) -> None:
        """Pass a signal on."""
        for process in list(self._running.values()):
            with suppress(OSError, ValueError):
                process.send_signal(number)

    def wait(self, timeout_s: float = float("inf")) -> None:
        """Until all have ended, or for so long."""
        ends = time.monotonic() + timeout_s
        while self._running and time.monotonic() < ends:
            time.sleep(LOOK_S)
            self.look()
