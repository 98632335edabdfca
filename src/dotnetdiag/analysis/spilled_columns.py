"""Rows of many columns, of which there may be millions: beyond some megabytes they lie in a file that has no name.

Who looks at one column reads that alone, as of rows that lie side by side (:mod:`dotnetdiag.analysis.spilled`) nobody can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.scratch import Scratch, Stored

Array: TypeAlias = "np.ndarray[Any, Any]"

HELD_BYTES = 12 << 20
"""What is kept in memory, of 25,000 collections; when there is more, all that is held goes to the file."""


class SpilledColumns:
    """Rows in the order in which they were appended, some at a time, each time with the same columns."""

    def __init__(self) -> None:
        self._parts: list[Mapping[str, Stored]] = []
        self._ends: list[int] = []
        self._scratch: Scratch | None = None
        self._held = 0

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __reduce__(self) -> tuple[Any, ...]:
        """The rows go along in parts, and lie in a file of their own where they arrive."""
        return type(self), (), None, self._read()

    @property
    def is_held(self) -> bool:
        """Whether all of them are in memory."""
        return self._scratch is None

    def append(self, columns: Mapping[str, Array]) -> None:
        """Rows behind all others; they belong to this from now on."""
        self._ends.append(len(self) + len(next(iter(columns.values()))))
        self._parts.append({name: Stored(values) for name, values in columns.items()})
        self._held += sum(values.nbytes for values in columns.values())
        if self._held > HELD_BYTES:
            self._write()

    def column(self, name: str, first: int = 0, last: int | None = None) -> Array:
        """One column of the rows from one to before another."""
        last = len(self) if last is None else last
        found, begin = list[Array](), 0
        for part, end in zip(self._parts, self._ends, strict=True):
            if begin < last and first < end:
                found.append(part[name].rows(max(first - begin, 0), min(last, end) - begin))
            begin = end
        return found[0] if len(found) == 1 else np.concatenate(found) if found else np.zeros(0)

    def _read(self) -> Iterator[Mapping[str, Array]]:
        for part in self._parts:
            yield {name: values.read() for name, values in part.items()}

    def _write(self) -> None:
        self._scratch = scratch = Scratch() if self._scratch is None else self._scratch
        self._parts = [
            {name: one if one.is_written else scratch.put(one.read()) for name, one in part.items()}
            for part in self._parts
        ]
        self._held = 0
