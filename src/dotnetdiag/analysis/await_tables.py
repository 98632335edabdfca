"""Awaits as tables: a row for each, and for each method that awaits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.answers import mask, number, texts, told_number, whole
from dotnetdiag.analysis.await_rows import BLOCKING, AwaitRows
from dotnetdiag.analysis.kind_rows import Values, columns_of
from dotnetdiag.analysis.running_groups import RunningGroups
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.events.layout import Kind

Array: TypeAlias = "np.ndarray[Any, Any]"

KINDS = ("Asynchronous", "Synchronous")
COLUMNS = ("start_ms", "duration_ms", "pid", "tid", "task", "name", "awaited_by", "kind", "method", "depth")
"""Of the table with a row for each."""


class AwaitTables:
    """Their columns, of awaits and ``own_ms`` of each."""

    def __init__(self, awaits: AwaitRows, own_ms: Array) -> None:
        self._awaits, self._own_ms = awaits, own_ms
        shown = ["" if one < 0 else awaits.frames.name(one) for one in awaits.method_ids.tolist()]
        self._methods = Text.from_pylist(shown)

    def columns(self, names: Sequence[str], first: int, last: int) -> dict[str, Column]:
        """These of the table of all, of the rows from one to before another."""
        here = slice(first, last)

        def column(name: str, values: Values) -> Column:
            return self._column(name, values, here)

        return columns_of(self._awaits.made.rows, column, names, first, last)

    def _column(self, name: str, values: Values, here: slice[int, int, None]) -> Column:
        """Of the table of all."""
        awaits = self._awaits
        if name == "start_ms":
            return Scalar(values("ms"), None, Kind.F8)
        if name == "duration_ms":
            return number(awaits.taken(awaits.duration, here))
        if name == "pid":
            return whole(awaits.pids[awaits.taken(awaits.process, here)])
        if name == "tid":
            return whole(awaits.made.tid[values("kind")])
        if name == "task":
            return told_number(values("TaskID"))
        if name == "name":
            return texts(awaits.texts, awaits.taken(awaits.name, here))
        if name == "depth":
            return whole(awaits.taken(awaits.depth, here))
        if name == "method":
            return self._named(awaits.taken(awaits.method, here))
        is_blocking = values("Behavior") == BLOCKING
        if name == "kind":
            return Coded.naming(Scalar(is_blocking.astype(np.int64), None, Kind.I8), lambda one: KINDS[one])
        by = awaits.taken(awaits.by, here)
        return whole(by, by > 0)

    def _named(self, which: Array) -> Coded:
        return Coded(self._methods, which, mask(self._awaits.method_ids[which] >= 0))

    def by_method(self) -> dict[str, Column]:
        """Those of the table of methods, which stand in it by what they took of their own."""
        awaits = self._awaits
        found, own_ms, blocking = RunningGroups(), np.zeros(0), np.zeros(0, np.int64)
        for some in awaits.held.slices():
            keys = awaits.process[some].astype(np.int64) << 32 | awaits.method[some]  # of each process its own methods
            which = found.add(keys, np.arange(some.start, some.stop), awaits.duration[some])
            own_ms = np.append(own_ms, np.zeros(len(found) - len(own_ms)))
            np.add.at(own_ms, which, self._own_ms[some])
            blocking = np.append(blocking, np.zeros(len(found) - len(blocking), np.int64))
            np.add.at(blocking, which, awaits.is_blocking[some])
        order = np.lexsort((found.first, -found.count, -found.total, -own_ms))
        first = found.first[order]
        return {
            "pid": whole(awaits.pids[awaits.taken(awaits.process, first)]),
            "method": self._named(awaits.taken(awaits.method, first)),
            "count": whole(found.count[order]),
            "blocking": whole(blocking[order]),
            "total_ms": number(found.total[order]),
            "own_ms": number(own_ms[order]),
            "max_ms": number(found.most[order]),
        }
