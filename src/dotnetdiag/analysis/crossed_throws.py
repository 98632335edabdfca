"""Throws that are those of before once more: an exception that leaves managed code for native, and comes back into managed code behind it, is thrown
there anew, and is told of once more (.NET 9 and 10), with no flag that says so. The first calls of a method by reflection are such.

The stack of the second is that of the first without some frames behind those of .NET's own dispatch, down to the native code; it is of the same
thread, type, message and flags, and nobody has caught the first. Which stacks are so is asked in the end: what they are is not known before.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.pairs import latest_rows, picked
from dotnetdiag.trace.distinct import distinct, is_among
from dotnetdiag.trace.stack_ids import StackIds

Array: TypeAlias = "np.ndarray[Any, Any]"

_DISPATCH = 3
"""Frames of dispatch at most: 10 has one, 9 two."""
_LAST = np.dtype(
    [("ms", "f8"), ("caught_ms", "f8"), ("type", "i8"), ("message", "i8"), ("flags", "i8"), ("stack", "i8")]
)
_ALIKE = ("type", "message", "flags")
_MOST_PAIRS = 1 << 14
"""Of different stacks that are compared: what a program does is told by some dozens."""
_BITS = 32


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Throws:
    """Columns of throws in the order in which they came: ``thread`` is one of numbers that lie close together."""

    thread: Array
    ms: Array
    type: Array
    message: Array
    flags: Array
    stack: Array


class ThrowsBefore:
    """Takes throws, some after the others."""

    def __init__(self) -> None:
        self._last = np.zeros(0, _LAST)
        """Of each thread."""

    def of(self, throws: Throws, caught: tuple[Array, Array]) -> Array:
        """Of each the stack of the throw before it which it may be once more; 0 for none. ``caught``: the threads that caught something meanwhile,
        and when.
        """
        self._reach(1 + int(throws.thread.max(initial=-1)))
        order = np.argsort(throws.thread, kind="stable")
        thread = throws.thread[order]
        is_first = np.append(True, thread[1:] != thread[:-1])[: len(thread)]
        before = np.append(-1, order[:-1])[: len(order)]  # of each the throw before it; -1: one that came with others
        before[is_first] = -1
        own, last = throws.stack[order], self._last["stack"][thread]
        previous = np.where(before >= 0, throws.stack[before], last)
        rows = np.flatnonzero((own != previous) & (own > 0) & (previous > 0))
        for name in _ALIKE:
            rows = rows[getattr(throws, name)[order[rows]] == self._of_before(name, throws, before, thread, rows)]
        if len(rows):
            since = self._of_before("ms", throws, before, thread, rows)
            rows = rows[~self._is_caught(caught, thread[rows], since, throws.ms[order[rows]])]
        made = np.zeros(len(order), np.int64)
        made[order[rows]] = previous[rows]
        last = order[np.append(is_first[1:], True)[: len(order)]]
        for name in ("ms", "stack", *_ALIKE):
            self._last[name][throws.thread[last]] = getattr(throws, name)[last]
        return made

    def saw(self, caught: tuple[Array, Array]) -> None:
        """Take what was caught, once it was asked for throws."""
        self._reach(1 + int(caught[0].max(initial=-1)))
        np.maximum.at(self._last["caught_ms"], *caught)

    def _of_before(self, name: str, throws: Throws, before: Array, thread: Array, rows: Array) -> Array:
        """A column of the throws before some."""
        at = before[rows]
        return np.where(at >= 0, getattr(throws, name)[at], self._last[name][thread[rows]])

    def _reach(self, count: int) -> None:
        if count > len(self._last):
            fresh = np.zeros(max(count - len(self._last), len(self._last) // 2), _LAST)
            fresh["ms"] = fresh["caught_ms"] = -np.inf
            self._last = np.append(self._last, fresh)

    def _is_caught(self, caught: tuple[Array, Array], thread: Array, since: Array, until: Array) -> Array:
        """Whether threads caught something in these times."""
        of, ms = caught
        latest = latest_rows([of], ms, [thread], until)
        known = self._last["caught_ms"][thread] >= since
        return np.asarray(known | (picked(ms, latest, -np.inf) >= since))


class Rests:
    """Which stacks are what is left of others. ``pairs``: columns of stacks and of those that may be rests of them, some at a time."""

    def __init__(self, pairs: Iterable[tuple[Array, Array]], stacks: StackIds) -> None:
        known = np.zeros(0, np.int64)
        for whole, rest in pairs:
            own = np.flatnonzero(whole > 0)
            known = distinct(np.append(known, _packed(whole[own], rest[own])))[:_MOST_PAIRS]
        table, size = stacks.table, stacks.table.pointer_size
        found = [one for one in known.tolist() if _is_rest(table.raw(one >> _BITS), table.raw(one & 0xFFFFFFFF), size)]
        self._known = np.array(found, np.int64)

    def are(self, whole: Array, rest: Array) -> Array:
        """Of each pair whether it is so (bool)."""
        return np.asarray((whole > 0) & is_among(_packed(whole, rest), self._known))


def _packed(whole: Array, rest: Array) -> Array:
    made: Array = whole.astype(np.int64) << _BITS | rest.astype(np.int64)
    return made


def _is_rest(whole: bytes, rest: bytes, size: int) -> bool:
    return len(rest) < len(whole) and any(
        at < len(rest) and whole[:at] == rest[:at] and whole.endswith(rest[at:])
        for at in range(size, (_DISPATCH + 1) * size, size)
    )
