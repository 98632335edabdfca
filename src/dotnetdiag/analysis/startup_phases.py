"""The phases of a start, what counts for each, and what took longest of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.answers import number, whole
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.table import Table

Array: TypeAlias = "np.ndarray[Any, Any]"

PHASES = (
    "before the runtime",
    "the runtime starts",
    "until the program is loaded",
    "until its first method",
    "the program",
)
LONGEST = 100
"""Of what took longest, so many are listed."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counted:
    """What is counted of a process, a row for each."""

    assemblies: Table
    binds: Table
    methods: Table
    collections: Table
    thrown: Table

    def of_process(self, pid: int) -> Counted:
        """The same of one process, of tables of several."""
        tables = (self.assemblies, self.binds, self.methods, self.collections, self.thrown)
        assemblies, binds, methods, collections, thrown = (_of_process(table, pid) for table in tables)
        return Counted(assemblies=assemblies, binds=binds, methods=methods, collections=collections, thrown=thrown)

    def longest(self, until_ms: float) -> dict[str, Column]:
        """Of a table of what took longest, that first, of what began before a time."""
        rows: list[tuple[str, str, float, float]] = []
        for kind, table, name, duration in (
            ("assembly", self.binds, "assembly", "duration_ms"),
            ("method", self.methods, "method", "compile_ms"),
            ("collection", self.collections, "reason", "pause_ms"),
        ):
            ms, took = _at(table, duration)
            own = np.flatnonzero((ms < until_ms) & ~np.isnan(took))
            for row in own[np.argsort(-took[own], kind="stable")[:LONGEST]].tolist():
                rows.append((kind, str(table[name].item(row) or ""), float(ms[row]), float(took[row])))
        rows.sort(key=lambda row: -row[3])
        kinds, names, starts, took_ms = zip(*rows[:LONGEST], strict=True) if rows else ((), (), (), ())
        return {
            "kind": Text.from_pylist(list(kinds)),
            "name": Text.from_pylist(list(names)),
            "start_ms": number(np.array(starts, np.float64)),
            "duration_ms": number(np.array(took_ms, np.float64)),
        }


class Phases:
    """Those that begin at ``begins_ms`` and last until ``end_ms`` at most; but for those of no length, and all of them unless ``are_told``."""

    def __init__(self, begins_ms: Sequence[float], end_ms: float, *, are_told: bool) -> None:
        self._edges, self._end_ms = np.append(np.array(begins_ms), np.inf), end_ms
        rows = np.arange(len(PHASES) if are_told else 0)
        low, high = np.minimum(self._edges[:-1], end_ms), np.minimum(self._edges[1:], end_ms)
        self._there = rows[(high > low)[rows]]
        self._low, self._high = low[self._there], high[self._there]

    def __len__(self) -> int:
        return len(self._there)

    def columns(self, counted: Counted, cpu_ms: Array, lacking: Collection[str]) -> dict[str, Column]:
        """Of a row for each; of those that are ``lacking`` (``bind``, ``compile``, ``pause``, ``exceptions``) nothing is told."""
        times = {
            "assemblies": _at(counted.assemblies, None),
            "bind": _at(counted.binds, "duration_ms"),
            "compile": _at(counted.methods, "compile_ms"),
            "pause": _at(counted.collections, "pause_ms"),
            "exceptions": _at(counted.thrown, None),
        }

        def within(name: str, values: bool) -> Array:
            ms, of = times[name]
            at = np.clip(np.searchsorted(self._edges, ms, "right") - 1, 0, len(PHASES) - 1)
            own = ms < self._end_ms
            counts = np.bincount(at[own], minlength=len(PHASES))
            if not values:
                return np.asarray(counts[self._there], np.float64)
            own &= ~np.isnan(of)
            known = np.bincount(at[own], minlength=len(PHASES))
            sums = np.bincount(at[own], of[own], minlength=len(PHASES)).astype(np.float64)  # without rows of int
            sums[(known == 0) & (counts > 0)] = np.nan  # of what has no end nothing tells it
            return np.asarray(sums[self._there], np.float64)

        def told(name: str) -> Array:
            return np.full(len(self), name not in lacking)

        return {
            "phase": Text.from_pylist([PHASES[one] for one in self._there.tolist()]),
            "start_ms": number(self._low),
            "duration_ms": number(self._high - self._low),
            "assemblies": whole(within("assemblies", False)),
            "bind_ms": number(np.where(told("bind"), within("bind", True), np.nan)),
            "methods": whole(within("compile", False), told("compile")),
            "compile_ms": number(np.where(told("compile"), within("compile", True), np.nan)),
            "collections": whole(within("pause", False), told("pause")),
            "pause_ms": number(np.where(told("pause"), within("pause", True), np.nan)),
            "exceptions": whole(within("exceptions", False), told("exceptions")),
            "cpu_ms": number(cpu_ms),
        }

    def sampled(self, profile: StackProfile | None) -> Array:
        """The time of each that was sampled; NaN without samples."""
        if profile is None:
            return np.full(len(self), np.nan)
        begin, end = profile.start_ns / 1e6, (profile.start_ns + profile.length_ns) / 1e6
        return np.array(
            [
                float(np.maximum(np.minimum(end, high) - np.maximum(begin, low), 0.0).sum())
                for low, high in zip(self._low, self._high, strict=True)
            ]
        )


def _of_process(rows: Table, pid: int) -> Table:
    """Those of one process, of a table that has a row for something of each."""
    own = _pids(rows) == pid
    if own.all():
        return rows
    some = np.flatnonzero(own)
    return Table({name: rows[name].take(some) for name in rows.columns}, title=rows.title, units=rows.units)


def _pids(rows: Table) -> Array:
    return np.zeros(0, np.int64) if not len(rows) else np.asarray(rows.numpy("pid"), np.int64)


def _at(rows: Table, name: str | None) -> tuple[Array, Array]:
    """When each began, and a number of it, NaN for None."""
    if not len(rows):
        return np.zeros(0), np.zeros(0)
    starts, column = rows["start_ms"], None if name is None else rows[name]
    assert isinstance(starts, Scalar)
    if column is None:
        return starts.values, np.ones(len(rows))
    assert isinstance(column, Scalar)
    return starts.values, column.values if column.valid is None else np.where(column.valid, column.values, np.nan)
