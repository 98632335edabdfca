"""What DuckDB does, done by a thread: a signal comes meanwhile, and what its handler raises is raised."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

_INTERRUPT_S = 5.0
"""What DuckDB may take to leave a query that is over."""
_T = TypeVar("_T")


def beside(database: Any, work: Callable[[], _T]) -> _T:
    """What ``work`` gives, which uses a ``database`` of DuckDB. Beside its own work a handler of signals runs when DuckDB looks for them, which took
    seconds, or never came; and what a handler raises there became an error of DuckDB's. What one raises here ends the query.
    """
    made: list[_T] = []
    failed: list[BaseException] = []
    is_over = threading.Event()

    def do() -> None:
        try:
            made.append(work())
        except BaseException as error:
            failed.append(error)
        finally:
            is_over.set()

    try:
        try:
            threading.Thread(target=do, daemon=True, name="dotnetdiag query").start()
        except RuntimeError:  # the system gives this program no more threads
            do()
        is_over.wait()
    except BaseException:
        database.interrupt()
        is_over.wait(_INTERRUPT_S)
        raise
    if failed:
        raise failed[0]
    return made[0]
