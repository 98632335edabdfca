"""Stacks under one numbering, where windows of events come with tables of stacks of their own, as those of a session do."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import StackTable

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Context

Array: TypeAlias = "np.ndarray[Any, Any]"


class StackIds:
    """Ids in the table of the windows, as long as all have the same; then in one that has the stacks of all."""

    def __init__(self) -> None:
        self._context: Context | None = None
        self._own: StackTable | None = None

    @property
    def context(self) -> Context | None:
        """That of the latest window."""
        return self._context

    @property
    def table(self) -> StackTable:
        """What the ids mean."""
        return StackTable() if self._context is None else self._context.stacks if self._own is None else self._own

    def look_at(self, context: Context) -> None:
        """A window of this context follows. Raises UsageError where it is one of another recording: its stacks mean something else."""
        if self._context is not None and context.recording is not self._context.recording:
            raise UsageError("windows of two recordings: ask each by itself, or merge them into one")
        if self._own is None and self._context is not None and self._context is not context:
            self._own = copy(self._context.stacks)
        self._context = context

    def of(self, ids: Array) -> Array:
        """The ids of stacks of the window that was looked at last."""
        if self._own is None or self._context is None:
            return ids
        theirs = self._context.stacks
        if len(self._own) == 1:  # no stack yet, which may have pointers of another size
            self._own = StackTable(theirs.pointer_size)
        return _interned(self._own, theirs, ids)

    def lengths(self, ids: Array) -> Array:
        """How many frames these stacks of the window that was looked at last have."""
        return np.zeros(len(ids), np.int64) if self._context is None else self._context.stacks_read.lengths(ids)

    def keep(self, ids: Array) -> Array:
        """Forget all other stacks; the new ids of these."""
        table = self.table
        self._own = StackTable(table.pointer_size)
        return _interned(self._own, table, ids)


def _interned(own: StackTable, theirs: StackTable, ids: Array) -> Array:
    distinct, which = np.unique(ids, return_inverse=True)
    return np.array([own.intern(theirs.raw(one)) if one else 0 for one in distinct.tolist()], np.uint32)[which]
