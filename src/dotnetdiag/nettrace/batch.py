"""A batch of events: their header columns, the buffer that their payloads are in, and the tables that their ids belong to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.labels import LabelList
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.stacks import StackTable

if TYPE_CHECKING:
    from dotnetdiag.events import BatchTable


NEVER = int(np.iinfo(np.int64).min)
"""The earliest time there is."""


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Passed:
    """What is known of all events of a batch whose headers have some of them (``sieve``).

    ``events``: how many there are; ``earliest`` and ``latest`` of their times, ``until`` that of one that is sorted, NEVER where none is.
    ``start``: where they begin, absolute. ``runs``, ``amounts`` and ``marks`` as of ``Sifted``, in whose orders as many runs and events come
    ``before`` these; its ``sums``, and before how many of its amounts these begin.
    """

    events: int
    earliest: int
    latest: int
    until: int
    start: int
    runs: npt.NDArray[np.int64]
    amounts: npt.NDArray[np.int64]
    sums: tuple[npt.NDArray[np.int64], int]
    marks: npt.NDArray[np.int64]
    before: tuple[int, int]

    @property
    def threads(self) -> npt.NDArray[np.uint64]:
        """The capture threads, in the order of the file; one may follow itself."""
        made: npt.NDArray[np.uint64] = self.runs[0].view(np.uint64)
        return made


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventBatch:
    """The events of one block or several that follow each other, complete in itself.

    ``buffer`` (uint8) holds their content, ``offset`` is the absolute position of ``buffer[0]``. ``segment``
    is the number of sequence points before it. ``metadata`` is valid for its events; it may grow while later blocks
    are read. Ids in ``headers`` refer to the tables given here, which a streaming reader replaces now and then.
    ``schemas`` is what decoding keeps for the batches that share it. ``passed`` speaks of all events where ``headers`` has some of them; then so
    many sequence ``points`` may be among them (or behind them), where all that comes before the last of them is of the time ``ended`` or older,
    and what comes behind it, and behind each of the others, is later than all before.
    """

    buffer: npt.NDArray[np.uint8]
    offset: int
    headers: HeaderColumns
    segment: int
    metadata: Mapping[int, Metadata]
    schemas: dict[int, Any] = field(default_factory=dict, repr=False)
    stacks: StackTable
    guids: GuidTable
    labels: Sequence[LabelList]
    passed: Passed | None = field(default=None, repr=False)
    points: int = 0
    ended: int = NEVER

    @property
    def start(self) -> int:
        """Where its events begin, or the payload of the first, absolute."""
        return self.offset + int(self.headers.payload_offset[0]) if self.passed is None else self.passed.start

    @property
    def events(self) -> int:
        """How many there are, whether ``headers`` has them or not."""
        return len(self.headers) if self.passed is None else self.passed.events

    @property
    def earliest(self) -> int:
        """The earliest time of all of them, of which there is one at least."""
        return int(self.headers.time.min()) if self.passed is None else self.passed.earliest

    @property
    def latest(self) -> int:
        """The latest time of all of them, of which there is one at least."""
        return int(self.headers.time.max()) if self.passed is None else self.passed.latest

    def __len__(self) -> int:
        return len(self.headers)

    def tables(self) -> Iterator[BatchTable]:
        """The payloads in typed columns: a table for each event type, in ascending order of metadata ids.

        Each says which rows of ``headers`` its rows are and where in the file they stand. Events of which the trace
        has no metadata are left out. The batches of a stream are decoded one after the other, by one thread.
        """
        from dotnetdiag.events import batch_tables  # the one way up: whoever holds a batch asks it, not for a room

        return batch_tables(self)

    def payload(self, row: int) -> bytes:
        """The payload of one event, copied."""
        start = int(self.headers.payload_offset[row])
        return self.buffer[start : start + int(self.headers.payload_length[row])].tobytes()
