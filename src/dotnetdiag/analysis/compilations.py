"""Compilations as they are recorded: begins and ends of a thread and a method, in rows that are spilled, and methods that are the same."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np

from dotnetdiag.analysis.changing_rows import Change, ChangingRows
from dotnetdiag.analysis.distinct import combined
from dotnetdiag.analysis.followed import Followed
from dotnetdiag.analysis.kept_events import OTHERS, POOLED_IN_FILE, Kept, KeptEvents, PooledTexts, having, whole_numbers
from dotnetdiag.analysis.thread_ids import ThreadIds
from dotnetdiag.events import EventSchema
from dotnetdiag.events.columns import Coded, Text, concat
from dotnetdiag.trace.distinct import is_among
from dotnetdiag.trace.lost_between import LostBetween
from dotnetdiag.trace.spilled import SpilledRows
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.text_ids import TextIds

Array: TypeAlias = "np.ndarray[Any, Any]"

JITTING, LOADED = 145, 143
"""Method/JittingStarted and Method/LoadVerbose, the begin and the end of a compilation."""
MODULE, _DYNAMIC = 152, 4
"""Loader/ModuleLoad, and which of its flags says that the module is made as the program runs, as by Reflection.Emit."""
_NAME = ("MethodNamespace", "MethodName", "MethodSignature")
_OF_END = ("MethodSize", "MethodFlags", "ReJITID")
_MODULE_ID = "ModuleID"
MOST_MODULES = 1 << 16
"""Of a process, of those that it makes, that are known: who makes one for each type has many."""
_ROW = np.dtype([
    ("ms", "f8"), ("compile_ms", "f8"), ("pid", "i8"), ("tid", "i8"), ("MethodID", "i8"), ("MethodILSize", "i8"),
    *((name, "i8") for name in _OF_END), *((name, "i4") for name in _NAME), ("dynamic", "i4"),
])  # fmt: skip
"""``compile_ms`` is NaN where no end was recorded; ``dynamic`` is 1 of a method whose module is known to be made as the program ran."""
_METHOD = np.dtype([("pid", "i8"), ("MethodID", "i8"), *((name, "i4") for name in _NAME)])
MOST_METHODS = 1 << 19
"""So many are told apart, with 45 bytes each: who makes methods as it runs, and is recorded for days, has any number. The others are one."""
NO_METHOD = -2
"""In place of the numbers of their names."""
_NAMED_ROWS = 1 << 14
"""Methods whose names are Python's texts at once."""


class Compilations:
    """Takes windows; :meth:`rows` are the compilations that came, in the order of their begins."""

    def __init__(self) -> None:
        self.names = MethodNames()
        self._starts = KeptEvents(
            having(JITTING), ("MethodID", "MethodILSize", _MODULE_ID), names=dict.fromkeys(_NAME, self.names.parts)
        )
        self._modules = KeptEvents(having(MODULE), (_MODULE_ID, "ModuleFlags"))
        self._dynamic = dict[int, set[int]]()
        """Of each process the modules that are made as it runs."""
        ends = KeptEvents(having(LOADED), ("MethodID", *_OF_END))
        self._rows = ChangingRows(_ROW)
        threads = ThreadIds()
        self._followed = Followed(
            self._rows,
            ends,
            key=lambda kept: whole_numbers(kept["MethodID"]),
            owner=lambda kept: threads.of_rows(np.arange(len(kept)), kept),
            change=_lasted,
        )

    def wants(self, schema: EventSchema) -> bool:
        """Begins and ends, and of what modules methods are."""
        return having(JITTING, LOADED, MODULE)(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._learn_modules(window)
        found = self._starts.events_of(window)
        if len(found):
            kept = self._starts.of(found)
            rows = np.zeros(len(kept), _ROW)
            rows["ms"], rows["pid"], rows["tid"], rows["compile_ms"] = kept.ms, kept.pid, kept.tid, np.nan
            for name, values in kept.fields.items():
                if name != _MODULE_ID:
                    rows[name] = whole_numbers(values)
            for pid, modules in self._dynamic.items():
                rows["dynamic"] |= (kept.pid == pid) & is_among(
                    whole_numbers(kept[_MODULE_ID]), np.array(sorted(modules), np.int64)
                )
            self._followed.began(kept, self._rows.append(rows))
        self._followed.feed(window)

    def _learn_modules(self, window: EventTable) -> None:
        events = self._modules.events_of(window)
        if not len(events):
            return
        kept = self._modules.of(events)
        flags = whole_numbers(kept["ModuleFlags"])
        for row in np.flatnonzero((flags > 0) & (flags & _DYNAMIC > 0)).tolist():
            modules = self._dynamic.setdefault(int(kept.pid[row]), set())
            if len(modules) < MOST_MODULES:
                modules.add(int(whole_numbers(kept[_MODULE_ID][row : row + 1])[0]))

    def rows(self, lost: LostBetween | None) -> SpilledRows:
        """What came until now; more may come. Where its thread has ``lost`` events an end may be that of the next compilation of a method."""
        self._followed.conclude()
        if lost:

            def are_doubtful(some: Array) -> Array:
                end = some["ms"] + some["compile_ms"]
                made: Array = ~np.isnan(end) & lost.of(some["pid"], some["tid"], some["ms"], end)
                return made

            self._rows.forget(are_doubtful, {"compile_ms": np.nan, **dict.fromkeys(_OF_END, 0)})
        return self._rows.given()


def _lasted(starts: Array, ends: Kept) -> Change:
    values = {name: whole_numbers(ends[name]) for name in _OF_END}
    return Change(rows=starts["row"].astype(np.int64), values={"compile_ms": ends.ms - starts["ms"], **values})


class MethodNames:
    """Names of methods: ``Namespace.Type.Method(parameters)``, as TraceEvent writes them, made when somebody asks."""

    def __init__(self) -> None:
        self.parts = PooledTexts()

    def of(self, rows: Array) -> Coded:
        """Of rows that say which of the ``parts``: one text for each method."""
        first, which = combined([rows[name] for name in _NAME], len(rows))
        parts = [rows[first[at : at + _NAMED_ROWS]] for at in range(0, max(len(first), 1), _NAMED_ROWS)]
        return Coded(cast("Text", concat([self._named(some) for some in parts])), which)

    def _named(self, rows: Array) -> Text:
        names = []
        for space, name, signature in zip(*(rows[one].tolist() for one in _NAME), strict=True):
            said = self.parts[signature]
            known = f"{self.parts[space]}.{self.parts[name]}{said[max(said.find('('), 0) :]}"
            names.append(OTHERS if name == NO_METHOD else known)
        return Text.from_pylist(names)


class CompiledMethods:
    """What compilations of one method come to. It is one by its process, its id, which is used again when what had it is gone, and its name. Those
    that come when there are :data:`MOST_METHODS`, whatever they are, are one, the last: the others, of no process and without a name.
    """

    def __init__(self) -> None:
        self.has_others = False
        self._ids = TextIds(in_file=POOLED_IN_FILE)  # of 28 bytes: in memory 50, and as groups of five columns 150
        self._count = np.zeros(0, np.int32)
        self._has_end = np.zeros(0, np.bool_)
        self._total = np.zeros(0)
        self._il = self._native = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return len(self._count)

    @property
    def again(self) -> int:
        """Of how many compilations the method had been compiled before; of others that is not known."""
        known = len(self._ids)
        return int(self._count[:known].sum()) - known

    def add(self, rows: Array, known: Array, compile_ms: Array, il: Array, native: Array) -> Array:
        """Take the next rows; ``known`` (a mask) are those that have an end, and tell how long they took and of their code, where others have 0.
        Which of them are the first of their method (a mask), which of others is not known.
        """
        if len(self._ids) >= MOST_METHODS:
            return self._add_others(known, compile_ms, il, native)
        keys = np.empty(len(rows), _METHOD)
        for name in _METHOD.names or ():
            keys[name] = rows[name]
        ends = np.arange(len(rows) + 1, dtype=np.int64) * _METHOD.itemsize
        which = self._ids.of(Text(ends, keys.view(np.uint8), None))
        before, more = len(self), len(self._ids) - len(self)
        is_first = np.zeros(len(rows), np.bool_)
        fresh = np.flatnonzero(which >= before)
        is_first[fresh[np.unique(which[fresh], return_index=True)[1]]] = True
        self._il = np.append(self._il, il[is_first])  # numbered as they came
        self._count = np.append(self._count, np.zeros(more, np.int32))
        self._total = np.append(self._total, np.zeros(more))
        self._native = np.append(self._native, np.zeros(more, np.int64))
        self._has_end = np.append(self._has_end, np.zeros(more, np.bool_))
        self._has_end[which[known]] = True
        np.add.at(self._count, which, 1)
        np.add.at(self._total, which, compile_ms)
        np.add.at(self._native, which, native)
        return is_first

    def _add_others(self, known: Array, compile_ms: Array, il: Array, native: Array) -> Array:
        if not self.has_others:
            self._has_end = np.append(self._has_end, False)
            self._count, self._total = np.append(self._count, np.int32(0)), np.append(self._total, 0.0)
            self._il, self._native = np.append(self._il, 0), np.append(self._native, 0)
        self.has_others = True
        self._count[-1] += len(il)
        self._has_end[-1] |= bool(known.any())
        for sums, values in ((self._total, compile_ms), (self._il, il), (self._native, native)):
            sums[-1] += values.sum()
        return np.zeros(len(il), np.bool_)

    def order(self) -> Array:
        """The one that took longest first; of equal ones that of most compilations, and then the one that came first. Others are last."""
        known = len(self._ids)
        made = np.lexsort((-self._count[:known], -self._total[:known])).astype(np.int32)
        return np.append(made, np.arange(known, len(self), dtype=np.int32))

    def total_ms(self) -> float:
        """How long all took together."""
        return float(self._total.sum())

    def some(self, which: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Of some methods their count, whether any has an end (bool), how long they took, and the bytes of IL and of code."""
        return self._count[which], self._has_end[which], self._total[which], self._il[which], self._native[which]

    def rows(self, which: Array) -> Array:
        """Of some what their rows have (:meth:`MethodNames.of`); of others the numbers of names are :data:`NO_METHOD`."""
        rows = np.zeros(len(which), _METHOD)
        for name in _NAME:
            rows[name] = NO_METHOD
        known = np.flatnonzero(which < len(self._ids))
        for first in range(0, len(known), _NAMED_ROWS):
            some = known[first : first + _NAMED_ROWS]
            rows[some] = self._ids.raw(_METHOD)[which[some]]
            self._ids.let_go()
        return rows
