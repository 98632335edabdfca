"""What a forked child must not keep: listeners, and connections that were made to them.

They are served by threads, which the child has not. Kept open there, they would outlive the process that serves them: nobody could listen
at the address again, and a runtime that had dialled would wait at its start for as long as the child lives.
"""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class Closable(Protocol):
    """Whose ``close`` ends nothing but this process's own hold on it, in a process that has not made it."""

    def close(self) -> object: ...


def close_in_forked_child(thing: Closable) -> None:
    """Should this process fork, the child closes it."""
    _closed_in_child.add(thing)


def _close_all() -> None:
    for thing in tuple(_closed_in_child):
        try:
            thing.close()
        except OSError:
            pass


_closed_in_child: WeakSet[Closable] = WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_all)
