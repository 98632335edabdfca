"""Where the payloads of some events are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Payloads:
    """Where payloads are in the trace's buffer, and their bytes: both in this order when unpacked."""

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        yield self.offsets
        yield self.lengths

    @classmethod
    def concatenate(cls, parts: Sequence[Payloads]) -> Payloads:
        """One after another."""
        return cls(*(np.concatenate(columns) for columns in zip(_NONE, *parts, strict=True)))


FIRST_ROWS = 1 << 16
"""Payloads looked at to infer the layout of an event that nobody describes; so many rows are kept on the way."""
MOST_ROWS = 1 << 20
"""All of them together, 16 MB: many types share them."""


class FirstPayloads:
    """The first payloads of the events of some types, gathered in file order."""

    def __init__(self, metadata_ids: Iterable[int]) -> None:
        self._parts: dict[int, list[Payloads]] = {number: [] for number in metadata_ids}
        most = max(1, min(FIRST_ROWS, MOST_ROWS // max(1, len(self._parts))))
        self._missing = dict.fromkeys(self._parts, most)

    @property
    def full(self) -> bool:
        """Whether nothing is missing any more."""
        return not self._missing

    def add(self, metadata_id: int, payloads: Payloads) -> None:
        """Keep what is missing of some events of one type; copied."""
        missing = self._missing.get(metadata_id)
        if missing is None:
            return
        part = Payloads(payloads.offsets[:missing].copy(), payloads.lengths[:missing].copy())
        self._parts[metadata_id].append(part)
        if len(part.offsets) == missing:
            del self._missing[metadata_id]
        else:
            self._missing[metadata_id] = missing - len(part.offsets)

    def of(self, metadata_id: int) -> Payloads | None:
        """Those of one type; None when it is not one of those gathered."""
        parts = self._parts.get(metadata_id)
        if parts is None:
            return None
        parts[:] = [Payloads.concatenate(parts)]
        return parts[0]


_NONE = Payloads(np.zeros(0, np.int64), np.zeros(0, np.uint32))
