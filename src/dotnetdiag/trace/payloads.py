"""Where the payloads of some events are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Payloads(NamedTuple):
    """Where payloads are in the trace's buffer, and their bytes."""

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]

    @classmethod
    def concatenate(cls, parts: Sequence[Payloads]) -> Payloads:
        """One after another."""
        return cls(*(np.concatenate(columns) for columns in zip(_NONE, *parts, strict=True)))


FIRST_ROWS = 1 << 16
"""Payloads looked at to infer the layout of an event that nobody describes; so many rows are kept on the way."""
MOST_ROWS = 1 << 20
"""All of them together, 16 MB: many types share them."""


class FirstPayloads:
    """The first payloads of the events of some types, gathered from any number of batches in file order."""

    def __init__(self, metadata_ids: npt.NDArray[np.uint32]) -> None:
        """The ids ascend."""
        self.metadata_ids = self._wanted = metadata_ids
        self._most = max(1, min(FIRST_ROWS, MOST_ROWS // max(1, len(metadata_ids))))
        self._counts = np.zeros(len(metadata_ids), np.int64)
        self._parts: list[tuple[npt.NDArray[np.int64], Payloads]] = []

    @property
    def full(self) -> bool:
        """Whether nothing is missing any more."""
        return not len(self._wanted)

    def add(self, ids: npt.NDArray[np.uint32], payloads: Payloads) -> None:
        """Keep what is missing of some events."""
        rows = np.zeros(0, np.int64) if self.full else np.flatnonzero(np.isin(ids, self._wanted))
        if not len(rows):
            return
        which = np.searchsorted(self.metadata_ids, ids[rows])
        order = np.argsort(which, kind="stable")
        which = which[order]
        begins = np.flatnonzero(np.diff(which, prepend=-1))
        ranks = np.arange(len(which)) - np.repeat(begins, np.diff(begins, append=len(which))) + self._counts[which]
        kept = ranks < self._most
        rows, which = rows[order[kept]], which[kept]
        self._parts.append((which, Payloads(payloads.offsets[rows], payloads.lengths[rows])))
        np.add.at(self._counts, which, 1)
        self._wanted = self.metadata_ids[self._counts < self._most]

    def of(self, metadata_id: int) -> Payloads | None:
        """Those of one type; None when it is not one of those gathered."""
        place = int(np.searchsorted(self.metadata_ids, metadata_id))
        if place == len(self.metadata_ids) or self.metadata_ids[place] != metadata_id:
            return None
        if not self._parts:
            return _NONE
        if len(self._parts) > 1:  # one part is sorted
            which = np.concatenate([numbers for numbers, _ in self._parts])
            payloads, order = Payloads.concatenate([part for _, part in self._parts]), np.argsort(which, kind="stable")
            self._parts = [(which[order], Payloads(payloads.offsets[order], payloads.lengths[order]))]
        ((which, payloads),) = self._parts
        rows = slice(*np.searchsorted(which, [place, place + 1]).tolist())
        return Payloads(payloads.offsets[rows], payloads.lengths[rows])


_NONE = Payloads(np.zeros(0, np.int64), np.zeros(0, np.uint32))
