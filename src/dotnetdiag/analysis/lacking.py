"""What some of several processes do not tell: a note on it says of which."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.trace.distinct import ranked

Array: TypeAlias = "np.ndarray[Any, Any]"

MOST_TOLD = 3
"""Processes that a note names."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """The ``pids`` of those that do not tell something, and whether ``are_all`` that might have."""

    pids: tuple[int, ...] = ()
    are_all: bool = False

    @classmethod
    def of(cls, pid: Array, tells: Array) -> Lacking:
        """Those of whose rows none tells it. ``pid``: of each row its process; ``tells``: whether it does."""
        pids, which = ranked(pid)
        return cls.counted(pids, *(np.bincount(some, minlength=len(pids)) for some in (which, which[tells])))

    @classmethod
    def among(cls, asked: AbstractSet[int], pids: AbstractSet[int]) -> Lacking:
        """These of those that might tell it."""
        return cls(tuple(sorted(pids)), bool(pids) and pids == asked)

    @classmethod
    def counted(cls, pids: Array, rows: Array, telling: Array) -> Lacking:
        """The same, of processes that have so many rows, of which so many tell it."""
        lacks = (rows > 0) & (telling == 0)
        return cls(tuple(pids[lacks].tolist()), bool(lacks.any()) and not telling.any())

    def notes(self, note: str) -> tuple[str, ...]:
        """The note, of all or of these; none where all tell it."""
        if not self.pids:
            return ()
        return (note if self.are_all else f"of {processes_text(self.pids)}: {note}",)


def processes_text(pids: Sequence[int]) -> str:
    """``process 1``, ``processes 1, 2 and 3``, ``processes 1, 2, 3 and 4 others``."""
    told, more = [str(pid) for pid in pids[:MOST_TOLD]], len(pids) - MOST_TOLD
    if more > 0:
        told.append("another" if more == 1 else f"{more:,} others")
    *first, last = told
    return f"processes {', '.join(first)} and {last}" if first else f"process {last}"
