"""Blocks of events that are decoded together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.nettrace.arena import Lent
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.translation import Translation


class Form(Enum):
    """How events are written."""

    COMPRESSED = "compressed, nettrace 4 and 5"
    COMPRESSED_V6 = "compressed, nettrace 6"
    UNCOMPRESSED = "uncompressed, nettrace 4 and 5"
    UNCOMPRESSED_V6 = "uncompressed, nettrace 6"
    NETPERF = "NetPerf"


COMPRESSED_FORMS = (Form.COMPRESSED, Form.COMPRESSED_V6)


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class EventRun:
    """Blocks of events in one form between which nothing else stands: where the events of each begin and end, absolute.

    ``moves``: how many of ``ThreadMoves`` stand before them.
    """

    blocks: Sequence[Block]
    form: Form
    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]
    translation: Translation
    segment: int
    moves: int

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def size_bytes(self) -> int:
        """From the first event to the last."""
        return int(self.ends[-1] - self.starts[0])

    def cut(self, size_bytes: int) -> tuple[EventRun, EventRun | None]:
        """As many blocks as fit into that size, one at least, and those that are left."""
        count = max(1, int(np.searchsorted(self.ends, self.starts[0] + size_bytes, side="right")))
        if count >= len(self):
            return self, None
        return self._part(slice(0, count)), self._part(slice(count, None))

    def _part(self, part: slice) -> EventRun:
        starts, ends = self.starts[part], self.ends[part]
        return EventRun(self.blocks[part], self.form, starts, ends, self.translation, self.segment, self.moves)


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Group:
    """Runs of event blocks to be decoded together."""

    runs: list[EventRun]
    window: Lent | None = None
    """Memory for all their events, where that was counted."""
    edges: list[int] = field(init=False)
    """The number of the block that begins each run, and that of all."""

    def __post_init__(self) -> None:
        self.edges = list(accumulate(map(len, self.runs), initial=0))

    def run_of(self, block: int) -> tuple[EventRun, int]:
        """The run of a block, and its place there."""
        run = bisect_right(self.edges, block) - 1
        return self.runs[run], block - self.edges[run]

    def bounds(self, base: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Where the events of each block begin and end, from ``base``."""
        return _joined([run.starts for run in self.runs]) - base, _joined([run.ends for run in self.runs]) - base


class Gathering:
    """Runs of event blocks on their way to become groups of one form, of about ``group_bytes()`` bytes."""

    MOST_RUNS = 1024
    """Of a group: a run may be of next to no bytes."""

    LEAST_FULL = 0.95
    """Of a group's size: less room than that is not worth a run of its own."""

    def __init__(self, group_bytes: Callable[[], int]) -> None:
        self._group_bytes = group_bytes
        self.runs: list[EventRun] = []
        self._size = 0

    def add(self, run: EventRun) -> Iterator[list[EventRun]]:
        """The runs of each group that is full now."""
        if self.runs and run.form is not self.runs[-1].form:
            yield self.take()
        remainder: EventRun | None = run
        while remainder is not None:
            limit = self._group_bytes()
            part, remainder = remainder.cut(limit - self._size)
            self.runs.append(part)
            self._size += part.size_bytes
            if self._size >= self.LEAST_FULL * limit or len(self.runs) >= self.MOST_RUNS:
                yield self.take()

    def take(self) -> list[EventRun]:
        """Those that are left."""
        runs, self.runs, self._size = self.runs, [], 0
        return runs


def one_form(runs: Iterable[EventRun]) -> Form | None:
    """The form of all blocks when it is one and compressed."""
    forms = {run.form for run in runs}
    form = forms.pop() if len(forms) == 1 else None
    return form if form in COMPRESSED_FORMS else None


def _joined(parts: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, np.int64), *parts])
