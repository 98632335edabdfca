"""What stands out of collections: pauses, those that somebody asks for, and a heap of which ever more stays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.advice_report import MOST_PROCESSES
from dotnetdiag.analysis.allocations import AllocationReport
from dotnetdiag.analysis.finding import LEAST, SOME, Finding, share_of
from dotnetdiag.analysis.gc_collections import UNTOLD_ALLOCATED, GcReport
from dotnetdiag.analysis.method_words import is_named, short
from dotnetdiag.analysis.quantiles import quantiles
from dotnetdiag.events import Column
from dotnetdiag.table.parts import parts
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.recorded import Recorded

Array: TypeAlias = "np.ndarray[Any, Any]"

LAST = 3
"""Collections whose median is what the heap has at the end, where that is none of the oldest generation."""
OLDEST = 2
"""The generation of a collection of the whole heap."""
PAUSED_PERCENT, LONG_PAUSE_MS = 10.0, 200.0
INDUCED, INDUCED_SHARE = 3, 0.2
LARGE = 10
"""So many of the oldest generation because of large objects are told of, however short they are, where they are half of all."""
FULL, FULL_SECONDS = 6, 10.0
"""So many of the oldest generation tell whether what they leave grows, in so many seconds: a program that starts has more and more, too."""
GROWN, GROWN_BYTES = 1.5, 20e6
"""The last third of them leaves so many times as much as the first, and so much more."""
STILL_GROWING = 0.125
"""And so much of what came in all came in the last quarter of the time, up to the last collection of any generation: what fills a cache comes to an
end, and so does what a program loads.
"""
MOST_RISE = 0.8
"""How well what they leave goes up with their order, as the correlation of ranks: those in the background leave young garbage too, now more now less.
"""
FINALIZERS_MS, FINALIZERS_PERCENT = 500.0, 20.0
"""So long they are told of: they take microseconds where nothing is wrong."""
MOST_OF_PAUSES = 0.5
INDUCED_AGGRESSIVE = 17
"""A reason that has no name, as in TraceEvent."""
LEAST_SHOWN = 0.05
"""Per cent that are not shown as 0.0."""


def of_gc(made: GcReport, allocated: AllocationReport, recorded: Recorded) -> Iterator[Finding]:
    """That the program stood still for long, or because somebody asks for collections; of several processes those of which that costs most."""
    processes = _collections_by_process(made)
    if len(processes) == 1:
        (one,) = (_of_one_gc(of, recorded.of(pid).seconds, "the program") for pid, of in processes.items())
        if one is not None:
            yield one if "induced" in one.text else replace(one, text=one.text + _allocated(made, allocated))
        return
    several = [_of_one_gc(of, recorded.of(pid).seconds, f"process {pid}") for pid, of in sorted(processes.items())]
    found = [one for one in several if one is not None]
    yield from sorted(found, key=lambda one: -one.severity)[:MOST_PROCESSES]


def of_finalizers(made: GcReport, seconds: float) -> Iterator[Finding]:
    """That finalizers took long, or hang."""
    took_ms = made.totals.finalizers_ms or 0.0
    share = share_of(took_ms, seconds)
    if took_ms >= FINALIZERS_MS and share >= FINALIZERS_PERCENT:
        yield Finding(
            severity=SOME,
            question="gc",
            text=f"finalizers ran for {took_ms:,.0f} ms, {share:.0f} % of the time: one thread runs all of them, and objects whose turn has not "
            "come keep their memory, and what they refer to; what waits or locks in one holds up the others",
        )


def of_heaps(made: GcReport) -> Iterator[Finding]:
    """That of the heap of a process ever more stays, the largest first."""
    found = list[tuple[float, str]]()
    by_process = _left_by_process(made)
    for pid, (start_s, left, end_s, end_left) in by_process.items():
        if len(left) < FULL or start_s[-1] - start_s[0] < FULL_SECONDS or _rises(left) < MOST_RISE:
            continue
        first, last = _median(left[: len(left) // 3]), _median(left[-(len(left) // 3) :])
        if min(last, end_left) < max(GROWN * first, first + GROWN_BYTES):
            continue
        late = start_s[0] + 0.75 * (end_s - start_s[0])
        by_then = float(np.interp(late, np.append(start_s, end_s), np.append(left, end_left)))
        if end_left - by_then < STILL_GROWING * (end_left - first):
            continue
        seconds = start_s[-1] - start_s[0]
        of = "the heap" if len(by_process) == 1 else f"the heap of process {pid}"
        text = (
            f"ever more of {of} stays: {len(left):,} collections of gen2 left {left[0] / 1e6:,.0f} MB at first and {left[-1] / 1e6:,.0f} MB at last, "
            f"{(left[-1] - left[0]) / seconds / 1e6:,.1f} MB a second more: what two dumps of the heap differ in tells what is kept"
        )
        found.append((float(end_left - left[0]), text))
    for _, text in sorted(found, reverse=True)[:MOST_PROCESSES]:
        yield Finding(severity=SOME, question="gc", text=text)


def _median(values: Array) -> float:
    (made,) = quantiles(values, [0.5])
    return float(made)


def _rises(values: Array) -> float:
    """The correlation of the ranks of values with their order."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])


def _left_by_process(made: GcReport) -> dict[int, tuple[Array, Array, float, float]]:
    """When collections of the oldest generation began, in s, and how much of the heap each left; when the last of any began, and what the last few
    left.
    """
    rows: dict[int, list[Array]] = {}
    ends: dict[int, tuple[float, Array]] = {}
    for part in parts(made.collections, ("pid", "generation", "start_ms", "after_bytes")):
        pid, generation, start, after = (
            np.array([np.nan if one is None else one for one in part[name].to_pylist()], np.float64)
            for name in ("pid", "generation", "start_ms", "after_bytes")
        )
        told = ~np.isnan(after)
        for one in distinct(pid[told].astype(np.int64)).tolist():
            own = told & (pid == one)
            before = ends[one][1] if one in ends else after[:0]
            ends[one] = float(start[own][-1]), np.append(before, after[own])[-LAST:]
            own &= generation == OLDEST
            rows.setdefault(one, []).append(np.stack([start[own], after[own]]))
    found = dict[int, tuple[Array, Array, float, float]]()
    for one, some in rows.items():
        start, left = np.concatenate(some, axis=1)
        end_ms, last = ends[one]
        is_last = len(start) > 0 and start[-1] == end_ms
        found[one] = start / 1000.0, left, end_ms / 1000.0, float(left[-1]) if is_last else _median(last)
    return found


class _Collections:
    """Of one process, some after the others."""

    def __init__(self) -> None:
        self.count = self.of_gen2 = 0
        self.is_told = False
        self.paused = self.longest = self.suspended = self.induced_ms = 0.0
        self.reasons, self.callers = Counter[str | None](), Counter[str]()
        self.alike, self.alike_ms = Counter[tuple[str | None, int]](), dict[tuple[str | None, int], float]()
        """Of those of one reason and generation how many there are, and for how long they paused it."""

    def add(self, columns: Mapping[str, Column], rows: Array) -> None:
        """Some more."""
        some: dict[str, list[Any]] = {
            name: column.take(rows).to_pylist() for name, column in columns.items() if name != "pid"
        }
        pauses = np.array([one for one in some["pause_ms"] if one is not None], np.float64)
        self.count += len(rows)
        self.is_told |= len(pauses) > 0
        self.paused += float(pauses.sum())
        self.longest = max(self.longest, float(pauses.max(initial=0.0)))
        self.of_gen2 += some["generation"].count(2)
        self.suspended += sum(one or 0.0 for one in some["suspend_ms"])
        self.induced_ms += sum(
            pause or 0.0 for pause, reason in zip(some["pause_ms"], some["reason"], strict=True) if _is_induced(reason)
        )
        self.reasons.update(some["reason"])
        for pause, *alike in zip(some["pause_ms"], some["reason"], some["generation"], strict=True):
            self.alike[alike[0], alike[1]] += 1
            self.alike_ms[alike[0], alike[1]] = self.alike_ms.get((alike[0], alike[1]), 0.0) + (pause or 0.0)
        self.callers.update(some["induced_by"])

    def add_others(self, pauses: Array) -> None:
        """Pauses that are of no collection."""
        self.is_told = True
        self.paused += float(pauses.sum())
        self.longest = max(self.longest, float(pauses.max()))


def _collections_by_process(made: GcReport) -> dict[int, _Collections]:
    found: dict[int, _Collections] = {}
    for part in parts(made.collections, ("pid", "reason", "generation", "induced_by", "pause_ms", "suspend_ms")):
        pids = np.array(part["pid"].to_pylist(), np.int64)
        for pid in distinct(pids).tolist():
            found.setdefault(pid, _Collections()).add(part, np.flatnonzero(pids == pid))
    pids, pauses = (made.other_pauses[name].numpy() for name in ("pid", "pause_ms"))
    for pid in distinct(pids).tolist():
        found.setdefault(pid, _Collections()).add_others(pauses[pids == pid])
    return found


def _of_one_gc(of: _Collections, seconds: float, process: str) -> Finding | None:
    """Of the collections of one process."""
    paused, longest, count = of.paused, of.longest, of.count
    share = share_of(paused, seconds)
    induced = sum(often for reason, often in of.reasons.items() if _is_induced(reason))
    is_long = share >= PAUSED_PERCENT or longest >= LONG_PAUSE_MS
    is_induced = induced >= INDUCED and induced >= INDUCED_SHARE * count
    large = of.reasons["AllocLarge"]
    is_large = large >= LARGE and large >= MOST_OF_PAUSES * count
    if not (is_long or is_induced or is_large):
        return None
    of_time = f"{share:.1f} % of the time" if share >= LEAST_SHOWN else f"{paused:,.1f} ms in all"
    text = f"the collector paused {process} for {of_time}, {longest:,.1f} ms at most"
    if not of.is_told:
        text = f"how long the collector paused {process} is not told"
    if is_induced:
        text += f": {induced:,} of {count:,} collections are induced"
        if named := [one for one in of.callers if is_named(one)]:  # few of many
            most = max(named, key=of.callers.__getitem__)
            text += f", {of.callers[most]:,} by {short(most)}"
        if of.induced_ms < MOST_OF_PAUSES * paused:
            text += f", which paused it for {of.induced_ms:,.1f} of {paused:,.1f} ms"
            reason, generation = most_of_all = max(of.alike_ms, key=of.alike_ms.__getitem__)
            if reason is not None and not _is_induced(reason) and generation is not None:
                text += f"; most, {of.alike_ms[most_of_all]:,.1f} ms, are {of.alike[most_of_all]:,} of gen{generation} because of {reason}"
    else:
        text += f"; {count:,} collection{'' if count == 1 else 's'}, {of.of_gen2:,} of gen2"
        if large >= MOST_OF_PAUSES * count:
            text += f", {large:,} because of large objects"
    if paused and of.suspended >= MOST_OF_PAUSES * paused:
        text += f"; {of.suspended:,.1f} of {paused:,.1f} ms passed until all threads stood still"
    return Finding(severity=max(share, SOME if is_long else LEAST), question="gc", text=text)


def _is_induced(reason: str | None) -> bool:
    return reason is not None and (reason.startswith("Induced") or reason == str(INDUCED_AGGRESSIVE))


def _allocated(made: GcReport, allocated: AllocationReport) -> str:
    """How much was allocated, and most of it by whom: what events of allocations tell, else what came to the heaps."""
    is_sampled = allocated.totals.count > 0
    size = allocated.totals.bytes if is_sampled else made.totals.allocated_bytes
    more = "" if is_sampled or UNTOLD_ALLOCATED not in made.notes else "more than "
    text = f", {more}{size / 1e6:,.0f} MB allocated" if size else ""
    if len(allocated.by_type_and_method):
        most = allocated.by_type_and_method[0]
        by = f" by {short(most['method'])}" if is_named(most["method"]) else ""
        text += f"; {most['percent']:.0f} % of it as {most['type']}{by}"
    return text
