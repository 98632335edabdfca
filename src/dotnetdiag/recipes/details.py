"""One question to a runtime, or one change of it: what the small verbs do."""

from __future__ import annotations

import os
import posixpath
import stat
import sys
from collections.abc import Sequence
from uuid import UUID

from dotnetdiag._dataclasses import as_dict
from dotnetdiag.client import Client
from dotnetdiag.errors import BadEncoding, DangerousRequest, NotPossible, RuntimeTooOld, UnsupportedCommand, UsageError
from dotnetdiag.recipes.processes import command_line
from dotnetdiag.transport import processes
from dotnetdiag.transport.inside import resolve_inside


def process_details(client: Client) -> dict[str, str | int]:
    """The fields of ProcessInfo, by name; ``pid`` is the runtime's own, the command line that of ``ps``."""
    told = as_dict(client.process_info())
    told["command_line"] = command_line(client.target_pid()) or told["command_line"]
    return {name: value if isinstance(value, int) else str(value) for name, value in told.items()}


def set_variables(client: Client, assignments: Sequence[str]) -> None:
    """``NAME=VALUE`` sets, ``NAME`` alone removes. All are looked at before anything is changed; what cannot be removed ends it first.

    Raises UsageError for what is not there or no name, and NotPossible for a NativeAOT runtime, which a removal would kill.
    """
    pairs = [assignment.partition("=") for assignment in assignments]
    names = [name for name, _, _ in pairs]
    wrong = [word for word, name in zip(assignments, names, strict=True) if not name or not _is_text(word)]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if wrong or twice:
        raise UsageError(
            f"{(wrong or twice)[0]}: {'write NAME=VALUE, or NAME to remove it' if wrong else 'is there twice'}"
        )
    removed = [name for name, equals, _ in pairs if not equals]
    there = client.environment() if removed else {}
    if missing := [name for name in removed if name not in there]:
        raise UsageError(
            f"{', '.join(missing)}: is no variable of the runtime, so it cannot be removed; NAME=VALUE sets one"
        )
    for name, equals, value in sorted(pairs, key=lambda pair: pair[1]):  # removals first
        try:
            client.set_environment_variable(name, value if equals else None)
        except DangerousRequest as error:
            raise NotPossible(error.command, error.reason) from None


def _is_text(word: str) -> bool:
    try:
        word.encode()
    except UnicodeEncodeError:
        return False  # bytes that are no UTF-8
    return True


def enable_perf_map(client: Client, kind: str) -> None:
    """``kind`` is All, JitDump or PerfMap."""
    client.enable_perf_map({"all": 1, "jitdump": 2, "perfmap": 3}[kind.lower()])


def startup_profiler(client: Client, clsid: UUID, path: str) -> None:
    """Register a profiler. Raises UsageError for a runtime that runs already, which would never load it, and for a file that is not there."""
    if client.is_suspended() is False:
        raise UsageError(
            "the runtime runs already: only one that is suspended at startup loads a profiler that is registered now"
        )
    pid = client.target_pid()
    if pid is not None and not _is_file_of(pid, path):
        raise UsageError(f"{path}: there is no such file where process {pid} looks for it")
    try:
        client.startup_profiler(clsid, path)
    except BadEncoding as error:
        try:
            client.process_info()
        except UnsupportedCommand:  # 3.1 takes an unknown command of this set for a broken one
            raise RuntimeTooOld(error.command, "a profiler at startup", needs=".NET 6") from error
        raise


def _is_file_of(pid: int, path: str) -> bool:
    """Whether a process sees a regular file there. Also where we may not look."""
    if sys.platform != "linux":
        return True
    root = f"{processes.PROC}/{pid}/root"
    try:
        os.stat(f"{root}/.")
        seen = resolve_inside(root, posixpath.join(processes.cwd(pid) or "/", path))
        return seen is not None and stat.S_ISREG(os.stat(seen).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True


def attach_profiler(client: Client, clsid: UUID, path: str, data: str) -> None:
    """``data`` is sent as UTF-8."""
    client.attach_profiler(clsid, path, data.encode())
