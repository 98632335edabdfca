"""Which series values are of, by the bytes that say it: those are the same in each interval.

To make texts of what tells a series (session, meter, instrument, tags) and to look it up took 10 µs of each value, of which fifty processes have two
thousand a second; to look up its bytes takes one.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.events import kernels
from dotnetdiag.events.columns import Spans

Array: TypeAlias = "np.ndarray[Any, Any]"

UNMET = -1
"""In the place of a code: these bytes were not met."""
ROWS_AT_ONCE = 4096
"""The bytes of so many rows are taken apart at a time."""
KNOWN_BYTES = 32 << 20
"""Of all that is remembered; then it is forgotten, and met again."""
_ENTRY_BYTES = 200
_NUMBERS = 40
"""Bits of a code that are the number of a series."""
_BELOW_NONE = 8
"""Numbers of series from -8 on mean something."""


class KnownSeries:
    """Numbers of series (or what stands in their place) and of sessions, by process id, number of the instrument, and bytes."""

    def __init__(self) -> None:
        self._codes: dict[Hashable, dict[tuple[int, int, bytes], int]] = {}
        """By form."""
        self._bytes = 0
        self._slots: dict[tuple[int, str], int] = {}
        self._free: list[int] = []
        self._seconds: list[float] = []

    def slot(self, pid: int, session: str) -> int:
        """The number of a session of a process."""
        slot = self._slots.get((pid, session))
        if slot is None:
            if not self._free:
                self._free.append(len(self._seconds))
                self._seconds.append(0.0)
            slot = self._slots[pid, session] = self._free.pop()
        return slot

    @property
    def seconds(self) -> list[float]:
        """By session: how long its last interval was, 0 where that is not known. The owner writes it."""
        return self._seconds

    def find(self, form: Hashable, pids: Array, instruments: Array, texts: Sequence[Spans]) -> Array:
        """The code of each row, :data:`UNMET` for those that were not met. ``texts`` follow each other in the payloads; what they are
        is the ``form``.
        """
        known = self._codes.get(form, {})
        made = np.full(len(pids), UNMET, np.int64)
        for first in range(0, len(pids) if known else 0, ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            keys = _keys(pids[some], instruments[some], texts, some)
            made[some] = [UNMET if code is None else code for code in map(known.get, keys)]
        return made

    def learn(self, form: Hashable, pids: Array, instruments: Array, texts: Sequence[Spans], codes: Array) -> None:
        """Remember the codes of rows that were not met; ``texts`` are of these rows."""
        if self._bytes > KNOWN_BYTES:
            self._codes, self._bytes = {}, 0
        known = self._codes.setdefault(form, {})
        for first in range(0, len(pids), ROWS_AT_ONCE):
            some = slice(first, first + ROWS_AT_ONCE)
            for key, code in zip(_keys(pids[some], instruments[some], texts, some), codes[some].tolist(), strict=True):
                if code != UNMET and key not in known:
                    known[key] = code
                    self._bytes += len(key[2]) + _ENTRY_BYTES

    def forget(self, pid: int) -> None:
        """What is of a process that has ended."""
        for known in self._codes.values():
            for key in [key for key in known if key[0] == pid]:
                del known[key]
                self._bytes -= len(key[2]) + _ENTRY_BYTES
        for session in [session for session in self._slots if session[0] == pid]:
            slot = self._slots.pop(session)
            self._seconds[slot] = 0.0
            self._free.append(slot)


def code_of(slot: int, number: int) -> int:
    """A session and a series as one number that is no :data:`UNMET`."""
    return slot << _NUMBERS | number + _BELOW_NONE


def slots_of(codes: Array) -> Array:
    """The sessions of codes."""
    return codes >> _NUMBERS


def numbers_of(codes: Array) -> Array:
    """The series of codes."""
    return (codes & ((1 << _NUMBERS) - 1)) - _BELOW_NONE


def _keys(pids: Array, instruments: Array, texts: Sequence[Spans], rows: slice) -> Iterable[tuple[int, int, bytes]]:
    starts = texts[0].starts[rows]
    lengths = texts[-1].starts[rows] + texts[-1].lengths[rows] - starts
    offsets, data = kernels.gather(texts[0].buffer, starts, lengths)
    raw = data.tobytes()
    parts = [raw[start:end] for start, end in pairwise(offsets.tolist())]
    return zip(pids.tolist(), instruments.tolist(), parts, strict=True)
