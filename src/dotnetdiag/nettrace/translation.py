"""What the ids of event blocks stand for, in the form that the kernels read."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.ids import Snapshot
from dotnetdiag.nettrace.kernel_types import MEANINGS, UNKNOWN


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Translation:
    """What the ids of a block stand for, at the place where it stands in the file. None: nothing is defined."""

    stacks: Snapshot | None = None
    labels: Snapshot | None = None
    metadata: Snapshot | None = None

    def apply(self, headers: HeaderColumns, block: npt.NDArray[np.void]) -> HeaderColumns:
        """The columns with other ids than the file has, as the kernels give them; what is not defined is added to ``block``."""
        metadata_id = _look_up(headers.metadata_id, self.metadata)
        stack = _look_up(headers.stack, self.stacks)
        label_list = _look_up(headers.label_list, self.labels)
        is_unknown = (
            metadata_id == 0,
            (stack == 0) & (headers.stack != 0),
            (label_list == 0) & (headers.label_list != 0),
        )
        for name, rows in zip(UNKNOWN, is_unknown, strict=True):
            block[name] += np.count_nonzero(rows)
        undefined = headers.metadata_id[is_unknown[0]]
        block["undefined_id"] = undefined[np.flatnonzero(undefined)[:1]].sum()
        return replace(headers, metadata_id=metadata_id, stack=stack, label_list=label_list)


def _look_up(ids: npt.NDArray[np.uint32], snapshot: Snapshot | None) -> npt.NDArray[np.uint32]:
    return np.zeros(len(ids), np.uint32) if snapshot is None else snapshot.look_up(ids)


@dataclass(slots=True, eq=False, repr=False)  # quick to import
class Tables:
    """The translations of many blocks: ``meanings`` says for each (with one row: for all) what of three arrays is its own."""

    meanings: npt.NDArray[np.void]
    stacks: npt.NDArray[np.uint32]
    labels: npt.NDArray[np.uint32]
    metadata: npt.NDArray[np.uint32]

    @classmethod
    def of(cls, parts: Sequence[tuple[int, Translation]]) -> Tables:
        """For parts that follow each other: the number of blocks, and what their ids stand for."""
        stacks, labels, metadata = _Joined(), _Joined(), _Joined()
        rows = [(stacks.add(one.stacks), labels.add(one.labels), metadata.add(one.metadata)) for _, one in parts]
        meanings = np.array(rows, MEANINGS)
        if len(parts) != 1:
            meanings = np.repeat(meanings, [count for count, _ in parts])
        return cls(meanings, stacks.array(), labels.array(), metadata.array())


class _Joined:
    """The tables of snapshots one after another, each once."""

    def __init__(self) -> None:
        self._starts: dict[int, int] = {}
        self._tables: list[npt.NDArray[np.uint32]] = []
        self._size = 0

    def add(self, snapshot: Snapshot | None) -> tuple[int, int, int, int, int]:
        """As ``kernel_types.IDS``."""
        if snapshot is None:
            return 0, 0, 0, 0, 0
        table = snapshot.table
        start = self._starts.get(id(table))
        if start is None:
            start = self._starts[id(table)] = self._size
            self._tables.append(table)
            self._size += table.size
        return start, snapshot.base, snapshot.near, snapshot.bits, snapshot.defined

    def array(self) -> npt.NDArray[np.uint32]:
        if len(self._tables) == 1:
            return self._tables[0]
        return np.concatenate(self._tables) if self._tables else np.zeros(0, np.uint32)
