"""``DOTNETDIAG_ENABLE=1``: what the line of ``dotnetdiag-enable.pth`` (:mod:`dotnetdiag.server.pth_file`) does at the start of a program.

Rule 1: whatever goes wrong here is one line on stderr, and the program goes on.
Rule 2: this package's own command does not look at itself, and ``multiprocessing``'s resource tracker is no program.
Rule 3: a forked child serves too, as the workers of a fork server do. A fork is no start: it waits for nobody. It may be about to run another
program in its place, which may be one of .NET with the same socket: so a child serves when it has gone on for ``SETTLE_S``.

It is imported while :mod:`site` is, in every program where the variable is set: so nothing is imported here that a word of "no" does not
need.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress

VARIABLE = "DOTNETDIAG_ENABLE"
YES, NO = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")
"""In any case."""
SETTLE_S = 0.25
_has_started = False
"""A virtual environment's files are read twice."""
_TRACKER = "from multiprocessing.resource_tracker import"


def start() -> None:
    """Have this process serve, where the variable says yes. A port that suspends holds it here. Raises nothing; twice does nothing more."""
    global _has_started  # it is of the process
    if _has_started:
        return
    _has_started = True
    try:
        if is_wanted(os.environ.get(VARIABLE, "")) and not is_helper(sys.argv, sys.orig_argv):
            _serve()
    except KeyboardInterrupt:  # while it waited to be resumed: there is no program yet that could take it
        import signal

        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.raise_signal(signal.SIGINT)
    except Exception as exc:
        _say(f"this process is not under diagnostics: {type(exc).__name__}: {exc}")


def is_wanted(text: str) -> bool:
    """What the variable says. What is neither yes nor no is told, and is no."""
    word = text.strip().lower()
    if word not in YES and word not in NO:
        _say(f"{VARIABLE}={text!r} is neither yes (1, true, yes, on) nor no (0, false, no, off): it counts as no")
    return word in YES


def is_helper(argv: list[str], orig_argv: list[str]) -> bool:
    """Whether the process is none that somebody wants to look at. ``argv`` is as it is before the program runs: ``-m`` and ``-c`` stand for
    what they run.
    """
    if not argv:
        return False
    behind = len(orig_argv) - len(argv)
    said = orig_argv[behind] if 0 < behind < len(orig_argv) else ""
    if argv[0] == "-m":
        return said.split(".")[0] == "dotnetdiag"
    if argv[0] == "-c":
        return said.startswith(_TRACKER)
    return os.path.basename(argv[0]) in ("dotnetdiag", "dotnetdiag.exe")


def _serve() -> None:
    from dotnetdiag.server.installing import install

    install()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_serve_in_child)


def _serve_in_child() -> None:
    import threading

    from dotnetdiag.server.periodic import OWN_THREADS

    with suppress(RuntimeError):  # there is no thread for it, as at the end of the interpreter
        threading.Thread(target=_settle, name=f"{OWN_THREADS}start", daemon=True).start()


def _settle() -> None:
    time.sleep(SETTLE_S)
    try:
        from dotnetdiag.server.installing import install

        server = install(wait=False)
        util = sys.modules.get("multiprocessing.util")
        if server is not None and util is not None:  # its children end without atexit
            util.Finalize(None, server.close, exitpriority=0)
    except Exception as exc:
        _say(f"a forked child is not under diagnostics: {type(exc).__name__}: {exc}")


def _say(line: str) -> None:
    """Where somebody reads it."""
    try:
        print(f"dotnetdiag: {' '.join(line.split())}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):  # there is no stderr
        pass
