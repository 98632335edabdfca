"""A batch of events: their header columns, the buffer that their payloads are in, and the tables that their ids belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.labels import LabelList
from dotnetdiag.nettrace.metadata import Metadata
from dotnetdiag.nettrace.stacks import StackTable


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class EventBatch:
    """The events of one block or several that follow each other, complete in itself.

    ``buffer`` (uint8) holds their content, ``offset`` is the absolute position of ``buffer[0]``. ``segment``
    is the number of sequence points before it. ``metadata`` is valid for its events; it may grow while later blocks
    are read. Ids in ``headers`` refer to the tables given here, which a streaming reader replaces now and then.
    """

    buffer: npt.NDArray[np.uint8]
    offset: int
    headers: HeaderColumns
    segment: int
    metadata: Mapping[int, Metadata]
    stacks: StackTable
    guids: GuidTable
    labels: Sequence[LabelList]

    def __len__(self) -> int:
        return len(self.headers)

    def payload(self, row: int) -> bytes:
        """The payload of one event, copied."""
        start = int(self.headers.payload_offset[row])
        return self.buffer[start : start + int(self.headers.payload_length[row])].tobytes()
