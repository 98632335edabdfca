"""What every event has beside its payload, as columns: the keys of ``trace events --format jsonl``, and a few more.

==========================  ==========================================================================
key                         value
==========================  ==========================================================================
provider event id version   names and numbers of the event type
level opcode keywords       (version 6: a label list of the event overrides them)
time                        UTC in ns since 1970; none before 1677 and after 2262, which 64 bits do not hold
utc                         as text, of any year: ISO 8601, seven decimals, ``Z``
ms                          milliseconds since the start of the trace
pid tid                     process and OS thread; also written ``process`` and ``thread``
activity related            ids of activities, None where there is none
bytes                       length of the payload
stack_id                    id of the call stack in ``Trace.stacks``, 0: none; also written ``stack``
leaf frames                 the method that the event happened in; the call stack, leaf first
==========================  ==========================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from uuid import UUID

import numpy as np
import numpy.typing as npt

from dotnetdiag._dataclasses import replace
from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import GuidTable, HeaderColumns, LabelList, ThreadInfo, TraceInfo
from dotnetdiag.nettrace.info import NO_TIME
from dotnetdiag.nettrace.label_table import LabelLists

Array: TypeAlias = "np.ndarray[Any, Any]"

_SECONDS_LIMIT = (1 << 63) - 1
KEYS = (
    "provider", "event", "id", "version", "level", "opcode", "keywords", "ms", "utc", "pid", "tid", "activity",
    "related", "bytes",
)  # fmt: skip
"""The keys of the fixed form, in its order; ``payload`` follows."""
ALIASES = {"process": "pid", "thread": "tid", "stack": "stack_id"}
ALL = (*KEYS, "time", "stack_id", "leaf", "frames")
COLUMNS = ("time", "ms", "pid", "tid", "provider", "event", "version", "activity", "related", "stack_id", "leaf")
"""Those that every table shows."""
PAYLOAD, HEADER = "payload.", "header."
"""In front of a name: the payload's field, the header's key, where there are both."""
OF_TYPE = frozenset({"provider", "event", "id", "version", "level", "opcode", "keywords"})
"""Equal for all events of one type (as long as no label list overrides them)."""


def key_of(name: str) -> str | None:
    """The key that a name stands for, or None."""
    lowered = name.lower()
    lowered = ALIASES.get(lowered, lowered)
    return lowered if lowered in ALL else None


def key_meant(name: str, *, is_field: bool) -> str | None:
    """The key that a name means where events have fields, None: their field, if any. One rule for tables, events and filters: a column
    of the header comes first, then a field, then another key. ``Version`` is no column's name where a field is spelled so; names
    in another case than the field's come in lower case.
    """
    if name.startswith(PAYLOAD) or (is_field and name not in COLUMNS):
        return None
    return key_of(name.removeprefix(HEADER))


def nothing_after(start_ns: int, what: str, end_ns: int) -> UsageError:
    """The error of a time since the start that begins when all is over; ``what`` ends, with a verb."""
    return UsageError(f"nothing is after {start_ns / 1e9:g} s: {what} at {end_ns / 1e9:.3f} s")


class HeaderMeaning:
    """Turns header columns into what they mean, in one trace."""

    def __init__(self, info: TraceInfo | None, threads: Mapping[int, ThreadInfo], *, thread_rows: bool) -> None:
        self.info = info or TraceInfo(start_ns=None, sync_ticks=0, frequency=1_000_000_000)
        self._threads = threads if thread_rows else None

    def elapsed_ns(self, headers: HeaderColumns) -> npt.NDArray[np.int64]:
        """Since the start of the trace."""
        return self.info.elapsed_ns(headers.time)

    def utc_ns(self, headers: HeaderColumns) -> npt.NDArray[np.int64]:
        """Since 1970; ``NO_TIME`` where 64 bits do not hold it."""
        return self.info.utc_ns(headers.time)

    def ms(self, headers: HeaderColumns) -> npt.NDArray[np.float64]:
        """Milliseconds since the start, rounded once: as the reference reader computes them."""
        time, sync = headers.time, (self.info.sync_ticks + (1 << 63)) % (1 << 64) - (1 << 63)
        fits = not len(time) or -(1 << 63) <= int(time.min()) - sync <= int(time.max()) - sync < 1 << 63
        delta = time - np.int64(sync) if fits else time.astype(np.float64) - sync
        made: npt.NDArray[np.float64] = delta * 1000.0 / self.info.frequency
        return made

    def ticks_at(self, elapsed_ns: float) -> int:
        """The clock's value at a time since the start, rounded up."""
        return self.info.sync_ticks - int(-elapsed_ns * self.info.frequency // 1_000_000_000)

    def utc_text(self, headers: HeaderColumns) -> list[str]:
        """ISO 8601 with seven decimals (cut off) and ``Z``."""
        utc = self.utc_ns(headers)
        texts = [text[:27] + "Z" for text in np.datetime_as_string(utc.view("datetime64[ns]"), unit="ns").tolist()]
        for row in np.flatnonzero(utc == NO_TIME).tolist():
            elapsed = (int(headers.time[row]) - self.info.sync_ticks) * 1_000_000_000 // self.info.frequency
            texts[row] = _utc_text((self.info.start_ns or 0) + elapsed)
        return texts

    def start_text(self) -> str:
        """The start of the trace, in the form of ``utc``."""
        return _utc_text(self.info.start_ns or 0)

    def tid(self, headers: HeaderColumns) -> npt.NDArray[np.uint64]:
        """OS thread ids; 0 where version 6 does not say."""
        if self._threads is None:
            return headers.thread
        return self._mapped(headers.thread, lambda row: row.os_thread_id or 0)

    def pid(self, headers: HeaderColumns) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
        """Process ids, and where the file says one."""
        own = self.info.process_id
        if self._threads is None:
            return np.full(len(headers), own or 0, np.uint64), np.full(len(headers), own is not None)

        def said(row: ThreadInfo) -> int | None:
            return own if row.process_id is None else row.process_id

        known = self._mapped(headers.thread, lambda row: said(row) is not None)
        return self._mapped(headers.thread, lambda row: said(row) or 0), known != 0

    def thread(self, number: int) -> ThreadInfo:
        """What is known of the thread that a value of the ``thread`` column means."""
        if self._threads is None:
            return ThreadInfo(index=number, os_thread_id=number, process_id=self.info.process_id)
        row = self._threads.get(number) or ThreadInfo(index=number)
        return row if row.process_id is not None else replace(row, process_id=self.info.process_id)

    @property
    def has_processes(self) -> bool:
        """Whether threads say of which process they are."""
        return self._threads is not None

    @property
    def is_of_several(self) -> bool:
        """Whether there are threads of several processes; 0, which is the kernel's, is none."""
        if self._threads is None:
            return False
        own = self.info.process_id
        said = {own if row.process_id is None else row.process_id for row in self._threads.values()}
        return len(said - {0, None}) > 1

    def _mapped(self, column: npt.NDArray[np.uint64], pick: Callable[[ThreadInfo], int]) -> npt.NDArray[np.uint64]:
        """What the thread rows of version 6 say; a row that is missing says nothing of its thread."""
        assert self._threads is not None
        indices, which = np.unique(column, return_inverse=True)
        values = [pick(self._threads.get(index) or ThreadInfo(index=index)) for index in indices.tolist()]
        return np.array(values, np.uint64)[which]


def _utc_text(ns: int) -> str:
    """A time since 1970 of any year; what no year is known of is the last or first that numpy can say."""
    seconds, rest = divmod(ns, 1_000_000_000)
    seconds = max(-_SECONDS_LIMIT, min(seconds, _SECONDS_LIMIT))
    return f"{np.datetime64(seconds, 's')}.{rest // 100:07}Z"


def overrides(labels: Sequence[LabelList]) -> Mapping[int, LabelList]:
    """Label lists that change level, opcode, keywords or version of their events (version 6)."""
    if isinstance(labels, LabelLists):  # of which none is made that does not
        return labels.overriding()
    return {
        index: one
        for index, one in enumerate(labels)
        if (one.opcode, one.keywords, one.level, one.version) != (None,) * 4
    }


def guid_texts(guids: GuidTable) -> list[str | None]:
    """Text of every id; None for index 0."""
    return [None, *(str(guid) for guid in list(guids)[1:])]


def guid_of(guids: GuidTable, index: int) -> UUID | None:
    """One id; None for index 0."""
    return guids[index] if index else None
