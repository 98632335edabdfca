"""Verbs that other verbs run when something has happened (``counters watch --then``): in processes of their own, one for a target at a time."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from types import TracebackType

import click

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.cli.render import echo
from dotnetdiag.errors import UsageError

_TARGET_OPTIONS = ("-p", "--process-id", "-n", "--name", "--diagnostic-port", "--dport", "--wait-for", "--all")
PID = "{pid}"
ENDS_S = 30.0
"""How long a verb that was told to end may go on."""
LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """The words of a verb, of which so many are its name. ``takes_process``: it has ``-p``; ``takes_port``: it has ``--diagnostic-port``."""

    words: tuple[str, ...]
    name: int
    takes_process: bool = True
    takes_port: bool = True

    def words_for(self, target: int | str, pid: int | None) -> list[str]:
        """With ``{pid}`` replaced, and the process in front of what was given, where that names none."""
        words = [word.replace(PID, str(target if pid is None else pid)) for word in self.words]
        given = words[self.name :]
        own = given[: given.index("--")] if "--" in given else given
        if any(map(_names_target, own)) or (own and own[0].isdecimal()):
            return words
        if not (self.takes_process if isinstance(target, int) else self.takes_port):
            return words
        named = ["-p", str(target)] if isinstance(target, int) else ["--diagnostic-port", target]
        return [*words[: self.name], *named, *given]


def parse_action(ctx: click.Context, text: str) -> Action:
    """A verb with its options. Raises UsageError for one that is not there, and what it raises itself for options that it does not take."""
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
    options = {option for one in group.params for option in one.opts}
    action = Action(
        words=tuple(words),
        name=read,
        takes_process="-p" in options,
        takes_port="--diagnostic-port" in options,
    )
    _check(group, action)
    return action


def _check(command: click.Command, action: Action) -> None:
    """Have the options read, of a process that stands for any: mistakes are told now, not when it is to run."""
    name, words = action.words[: action.name], action.words_for(os.getpid(), os.getpid())[action.name :]
    try:
        with command.make_context(" ".join(name), list(words)):
            pass
    except click.exceptions.Exit:  # --help has been printed
        raise UsageError(f"{shlex.join(action.words)!r} does nothing for a process") from None
    except click.ClickException as error:
        raise UsageError(f"{shlex.join(action.words)!r}: {error.format_message()}") from error


def _names_target(word: str) -> bool:
    """``-p5``, ``-p``, ``--name=x``, ``--name:x``."""
    if word.startswith("--"):
        return word.split("=")[0].split(":")[0] in _TARGET_OPTIONS
    return word[:2] in _TARGET_OPTIONS


class Actions:
    """Runs a verb (None: none is wanted) for targets. Use with ``with``: at its end those that run are told to end, and waited for."""

    def __init__(self, action: Action | None) -> None:
        self._action = action
        self._running: dict[int | str, subprocess.Popen[bytes]] = {}
        self._is_ending = False

    def __enter__(self) -> Actions:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if not self._is_ending:
            self.signal(signal.SIGINT)
            self.wait()
        for process in self._running.values():
            process.kill()
            process.wait()

    def run(self, target: int | str | None, pid: int | None = None) -> None:
        """Begin the verb for a process id or a port (with the process id of who is there); not where it still runs for the same one."""
        if self._action is None or target is None or self._is_ending:
            return
        if target in self._running:
            echo(f"{shlex.join(self._action.words)}: still runs for {target}; it is not begun again", err=True)
            return
        words = self._action.words_for(target, pid)
        echo(f"dotnetdiag {shlex.join(words)}", err=True)
        self._running[target] = subprocess.Popen(
            [sys.executable, "-P", "-m", "dotnetdiag", *words],  # nothing of the folder where somebody happens to stand
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
                if code and self._action is not None:
                    echo(f"{shlex.join(self._action.words)}: exit code {code} for {target}", err=True)

    def signal(self, number: int) -> None:
        """Pass a signal on; nothing is begun after it, and what runs has :data:`ENDS_S`."""
        self._is_ending = True
        for process in list(self._running.values()):
            with suppress(OSError, ValueError):
                process.send_signal(number)

    def wait(self) -> None:
        """Until all have ended; when they were told to, not for longer than they have for it."""
        ends = None
        while self._running:
            if self._is_ending:
                ends = ends or time.monotonic() + ENDS_S
                if time.monotonic() > ends:
                    return
            time.sleep(LOOK_S)
            self.look()
