"""The threads of the program, told from those of this package by their names.

Rule: no code of the program runs for it. A subclass of ``Thread`` may have a ``name``, ``ident`` or ``native_id`` of its own, which is no text, no
number, or waits for a lock; what ``Thread`` itself knows is asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from dotnetdiag.server.periodic import OWN_THREADS
from dotnetdiag.server.signal_errors import is_of_signal

_NAME: Any = threading.Thread.name
_IDENT: Any = threading.Thread.ident
_NATIVE_ID: Any = threading.Thread.native_id


def thread_name(thread: threading.Thread) -> str:
    """As it was given to ``Thread``. Empty where it never was."""
    name = _ask(_NAME, thread)
    return name if isinstance(name, str) else ""


def is_own(thread: threading.Thread) -> bool:
    """Whether it is one of this package, and no part of the program."""
    return thread_name(thread).startswith(OWN_THREADS)


def is_called_by_own() -> bool:
    """Whether the calling thread is one of this package. One that :mod:`threading` does not know is none, and stays unknown to it."""
    thread = getattr(threading, "_active", {}).get(threading.get_ident())
    return thread is not None and is_own(thread)


def running_threads() -> Iterator[tuple[int, int, bool]]:
    """Those that :mod:`threading` knows: what Python calls each, its OS thread id, and whether it is one of this package."""
    for thread in threading.enumerate():
        ident, os_thread = _ask(_IDENT, thread), _ask(_NATIVE_ID, thread)
        if ident and os_thread:
            yield ident, os_thread, is_own(thread)


def program_threads() -> Iterator[tuple[int, int]]:
    """Those that are no part of this package: what Python calls each, and its OS thread id."""
    return ((ident, os_thread) for ident, os_thread, own in running_threads() if not own)


def names_by_os_thread() -> dict[int, str]:
    """Of all that :mod:`threading` knows."""
    return {
        os_thread: thread_name(thread) for thread in threading.enumerate() if (os_thread := _ask(_NATIVE_ID, thread))
    }


def _ask(what: Any, thread: threading.Thread) -> Any:
    try:
        return what.__get__(thread)
    except Exception as error:  # one whose class did not call Thread's own __init__
        if is_of_signal(error):
            raise
        return None
