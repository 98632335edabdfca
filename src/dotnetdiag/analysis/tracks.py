"""What a recording tells over time, for viewers that draw tracks: samples, collections, compilations, waits, requests, exceptions, counters.

All of it comes from the folds of the questions, in one pass. Times are nanoseconds since the start of the recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.counters import Counters, CountersFold
from dotnetdiag.analysis.cpu import CpuFold
from dotnetdiag.analysis.distinct import combined, distinct_texts
from dotnetdiag.analysis.exceptions import ExceptionsFold
from dotnetdiag.analysis.fold import LossesToTell, fold
from dotnetdiag.analysis.gc_collections import GcFold
from dotnetdiag.analysis.gc_events import RESTARTED, SUSPENDING
from dotnetdiag.analysis.gc_pauses import paused
from dotnetdiag.analysis.gc_stops import GcStops
from dotnetdiag.analysis.jit import JitFold
from dotnetdiag.analysis.kept_events import KeptEvents, Places, having
from dotnetdiag.analysis.logs import LogsFold
from dotnetdiag.analysis.requests import RequestsFold
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.waits import ContentionFold, WaitsFold
from dotnetdiag.events import Column, EventSchema, Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.table import Table
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.table import EventTable
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

LONGEST_TEXT = 4000
"""Characters of a name or a message that are kept: viewers show a line of it."""
REQUESTS = "Requests"
"""The kind whose rows ``Slices.request`` names."""
"""Reasons of suspensions that are the collector's."""
_MS = 1e6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Labels:
    """A text for each of many things: ``texts[number]``, none where the number is -1."""

    texts: Sequence[str]
    number: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Slices:
    """What took some time, of one kind: columns with a row for each, in no order. ``of_threads``: they are what one thread did (``tid``), otherwise
    the whole process. ``end_ns`` is that of the recording where no end was recorded, and equal to ``start_ns`` where the kind has no length.
    ``parent`` is the row of what each lies within; -1 for none. ``request``: of what is of another kind, the row of the request within which it was.
    """

    kind: str
    of_threads: bool
    pid: Array
    tid: Array
    start_ns: Array
    end_ns: Array
    label: Labels
    detail: Labels
    parent: Array
    request: Array | None = None

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CounterTrack:
    """A number over time. ``pid`` is None where it is not told."""

    name: str
    unit: str
    pid: int | None
    ns: Array
    values: Array


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tracks:
    """``samples`` are stacks of threads; ``slices`` by kind, those that are empty left out; ``counters`` by name. ``threads`` are names by process
    and thread.
    """

    samples: StackProfile
    slices: tuple[Slices, ...] = ()
    counters: tuple[CounterTrack, ...] = ()
    threads: Mapping[tuple[int, int], str]
    end_ns: int

    @property
    def notes(self) -> tuple[str, ...]:
        """What is odd."""
        return self.samples.notes


def tracks(trace: Trace, samples: StackProfile | None = None) -> Tracks:
    """What a recording tells over time. ``samples``: in the place of all that it has."""
    folds = (
        GcFold(),
        PausesFold(),
        JitFold(),
        ContentionFold(),
        WaitsFold(),
        RequestsFold(costs=False),
        ExceptionsFold(),
        LogsFold(),
        CountersFold(),
    )
    if samples is None:
        *answers, samples = fold(trace, *folds, CpuFold())
    else:
        answers = list(fold(trace, *folds))
    gc, pauses, jit, contention, waits, requests, exceptions, logs, counters = answers
    assert samples is not None
    end_ns = max(round(trace.duration.total_seconds() * 1e9), samples.to_ns, 1)
    made = (
        _slices("GC", gc.collections, end_ns, labels=("generation", "type"), detail="reason", of_threads=False),
        _slices("GC pause", pauses, end_ns, labels=("what",), of_threads=False),
        _slices("JIT", jit.methods, end_ns, length="compile_ms", labels=("method",), detail="tier"),
        _slices(
            "Contention",
            contention.waits,
            end_ns,
            labels=("method",),
            detail="lock",
            given_up=contention.given_up.values(),
        ),
        _slices("Wait", waits.waits, end_ns, labels=("source",), detail="method"),
        _slices(REQUESTS, requests.requests, end_ns, labels=("kind", "name"), detail="failure", of_threads=False),
        _slices("Exceptions", exceptions.thrown, end_ns, length="", labels=("type",), detail="message"),
        _slices("Logs", logs.messages, end_ns, start="ms", length="", labels=("level", "logger"), detail="message"),
    )
    return Tracks(
        samples=samples,
        slices=tuple(one for one in made if len(one)),
        counters=(*_heap(gc.collections), *_counters(counters)),
        threads={(one.pid or 0, one.tid): one.name or "" for one in trace.threads},
        end_ns=end_ns,
    )


def samples_only(samples: StackProfile) -> Tracks:
    """The tracks of a profile alone."""
    return Tracks(
        samples=samples,
        threads={one.key: one.name for one in samples.threads},
        end_ns=max(samples.to_ns, 1),
    )


class PausesFold:
    """When the collector had the program stopped: a table with a row for each time, from the begin of the suspension to the end of the restart."""

    needs_activities = False

    def __init__(self) -> None:
        self._places = Places()
        self._suspending = KeptEvents(having(SUSPENDING), ("Reason",), places=self._places)
        self._restarted = KeptEvents(having(RESTARTED), places=self._places)
        self._stops = GcStops(self._suspending, self._restarted)
        self._losses = LossesToTell()

    def wants(self, schema: EventSchema) -> bool:
        """Suspensions and restarts."""
        return self._suspending.wants(schema) or self._restarted.wants(schema)

    def feed(self, window: EventTable) -> None:
        """Take the next window."""
        self._losses.of(window)
        with self._places.window(window):
            self._stops.feed(window)

    def result(self) -> Table:
        """The answer: ``start_ms duration_ms pid tid what``."""
        began, ended = self._suspending.all(), self._restarted.all()
        own, end_ms = paused(began, ended, self._losses.between())
        began = began.of(own)
        return Table(
            {
                "start_ms": Scalar(began.ms),
                "duration_ms": Scalar(end_ms - began.ms),
                "pid": Scalar(began.pid),
                "tid": Scalar(began.tid),
                "what": Coded(Text.from_pylist(["GC pause"]), np.zeros(len(began), np.int64)),
            }
        )


def _slices(
    kind: str,
    table: Table,
    end_ns: int,
    *,
    start: str = "start_ms",
    length: str = "duration_ms",
    labels: Sequence[str],
    detail: str = "",
    of_threads: bool = True,
    given_up: Iterable[int] = (),
) -> Slices:
    """The rows of a table, ``length`` the column of how long they took; what has no begin is left out. What has no end lasts until its thread begins
    the next, or the recording ends; of rows that were ``given_up`` nobody knows for how long they were there.
    """
    begin = _ns(table.get(start), len(table))
    last = begin.copy()
    if length:
        took = _ns(table.get(length), len(table), missing=-1)
        ends = np.full(len(table), end_ns)
        if of_threads and (took < 0).any():
            ends = np.minimum(ends, _next_begins(table, begin))
        last = np.where(took >= 0, begin + took, np.maximum(ends, begin))
        rows = np.array([*given_up], np.int64)
        last[rows] = begin[rows]
    parents, requests = table.get("parent"), table.get("request_row")
    return Slices(
        kind=kind,
        of_threads=of_threads,
        pid=_whole(table.get("pid"), len(table)),
        tid=_whole(table.get("tid"), len(table)),
        start_ns=begin,
        end_ns=last,
        label=_joined([_labels(name, table.get(name), len(table)) for name in labels]),
        detail=_labels(detail, table.get(detail) if detail else None, len(table)),
        parent=np.full(len(table), -1, np.int64) if parents is None else _whole(parents, len(table), missing=-1),
        request=None if requests is None else _whole(requests, len(table), missing=-1),
    )


def _next_begins(table: Table, begin: Array) -> Array:
    """Of each row when its thread begins the next one; far away where there is none."""
    pid, tid = (_whole(table.get(name), len(table)) for name in ("pid", "tid"))
    order = np.lexsort((begin, tid, pid))
    follows = (np.diff(pid[order]) == 0) & (np.diff(tid[order]) == 0)
    made = np.full(len(table), np.iinfo(np.int64).max)
    made[order[:-1]] = np.where(follows, begin[order[1:]], made[order[:-1]])
    return made


def _ns(column: Column | None, count: int, *, missing: int = 0) -> Array:
    if not isinstance(column, Scalar):
        return np.full(count, missing, np.int64)
    values = np.rint(np.nan_to_num(column.values.astype(np.float64)) * _MS).astype(np.int64)
    return values if column.valid is None else np.where(column.valid, values, missing)


def _whole(column: Column | None, count: int, *, missing: int = 0) -> Array:
    if not isinstance(column, Scalar):
        return np.full(count, missing, np.int64)
    values = column.values.astype(np.int64)
    return values if column.valid is None else np.where(column.valid, values, missing)


def _labels(name: str, column: Column | None, count: int) -> Labels:
    """The texts of a column; numbers with its name before them."""
    if column is None:
        return Labels(texts=[], number=np.full(count, -1, np.int64))
    if isinstance(column, Coded):
        texts, number = [text or "" for text in column.texts.to_pylist()], np.asarray(column.which, np.int64)
    elif isinstance(column, Text):
        texts, number = distinct_texts(column)
    else:
        assert isinstance(column, Scalar)
        values, number = np.unique(column.values, return_inverse=True)
        texts, number = [f"{_SHORT.get(name, name)}{value}" for value in values.tolist()], number.reshape(-1)
    valid = column.valid
    cut = [text[:LONGEST_TEXT] for text in texts]
    return Labels(texts=cut, number=number if valid is None else np.where(valid, number, -1))


_SHORT = {"generation": "gen"}


def _joined(parts: Sequence[Labels]) -> Labels:
    """Texts of several columns in one line."""
    if len(parts) == 1:
        return parts[0]
    first, which = combined([part.number for part in parts], len(parts[0].number))
    texts = []
    for row in first.tolist():
        numbers = [int(part.number[row]) for part in parts]
        texts.append(
            " ".join(part.texts[number] for part, number in zip(parts, numbers, strict=True) if number >= 0).strip()
        )
    return Labels(texts=texts, number=which)


def _heap(collections: Table) -> list[CounterTrack]:
    """The size of the heap behind each collection, process by process, and what is committed."""
    if not len(collections):
        return []
    made = []
    pids = _whole(collections.get("pid"), len(collections))
    ends = _ns(collections["start_ms"], len(collections)) + _ns(collections["duration_ms"], len(collections))
    for name, column in (("GC heap after", "after_bytes"), ("GC committed", "committed_bytes")):
        values = _whole(collections.get(column), len(collections), missing=-1)
        for pid in distinct(pids).tolist():
            rows = np.flatnonzero((pids == pid) & (values >= 0))
            rows = rows[np.argsort(ends[rows], kind="stable")]
            if len(rows):
                numbers = values[rows].astype(np.float64)
                made.append(CounterTrack(name=name, unit="bytes", pid=pid, ns=ends[rows], values=numbers))
    return made


def _counters(counters: Counters) -> list[CounterTrack]:
    made = []
    for line in counters.lines():
        rows = np.flatnonzero(np.isfinite(line.values))
        name = f"{line.series.provider}: {line.series.name}" + (f" ({line.label})" if line.label else "")
        ns = np.rint(line.ms[rows] * _MS).astype(np.int64)
        if len(rows):
            made.append(
                CounterTrack(
                    name=name[:LONGEST_TEXT], unit=line.unit, pid=line.series.pid, ns=ns, values=line.values[rows]
                )
            )
    return made
