"""Samples of threads, a row for each: for who asks in SQL, or in a data frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.profile import DIGITS, Profile, State
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded, ListOf, Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.table import Table
from dotnetdiag.trace.trace import Trace

Array: TypeAlias = "np.ndarray[Any, Any]"

_NS = 1e6


def cpu_samples(trace: Trace) -> Table:
    """The samples of all threads, as ``cpu`` takes them: by thread, and then by time.

    Columns: ``start_ms``, ``duration_ms``, ``pid``, ``tid``, ``thread`` (its name), ``state`` (``cpu``, ``unmanaged``, ``blocked``; None: not told),
    ``weight`` (in ms), ``leaf``, ``frames`` (leaf first). The weight is what reports add up, ``duration_ms`` how long a sample is in a timeline: of
    the kernel's samples, each of which stands for a period of their clock, these are not the same.
    """
    return samples_of(cpu(trace))


def samples_of(profile: Profile) -> Table:
    """The samples of a profile; ``weight`` in its unit."""
    names = Text.from_pylist(profile.frame_names())
    process = [thread.process_id for thread in profile.threads]
    own, tid = np.array([thread.key for thread in profile.threads], np.int64).reshape(-1, 2)[profile.thread].T
    said = np.array([one is not None for one in process], np.bool_)[profile.thread]
    leaf = profile.tree.frame[profile.node]
    states = Text.from_pylist([state.name.lower() for state in State])
    threads = Text.from_pylist([thread.name for thread in profile.threads])
    columns: dict[str, Column | Sequence[Any]] = {
        "start_ms": _ms(profile.start_ns),
        "duration_ms": _ms(profile.length_ns),
        "pid": Scalar(own, said, Kind.I8),
        "tid": Scalar(tid, None, Kind.I8),
        "thread": Coded(threads, profile.thread),
        "state": Coded(states, profile.state.astype(np.int64), profile.state != State.NONE),
        "weight": Scalar(np.round(profile.weight, DIGITS), None, Kind.F8),
        "leaf": Coded(names, np.maximum(leaf, 0).astype(np.int64), leaf >= 0) if len(names) else _nothing(len(leaf)),
        "frames": Paths(profile, names, profile.node),
    }
    units = {"start_ms": "ms", "duration_ms": "ms", "weight": profile.unit}
    return Table(columns, title=profile.name, units=units, notes=profile.notes, losses=profile.origin.losses)


def _ms(ns: Array) -> Scalar:
    return Scalar(ns / _NS, None, Kind.F8)


def _nothing(rows: int) -> Text:
    return Text.from_pylist([None] * rows)


class Paths(ListOf):
    """The frames of nodes of a tree by name, leaf first: written out when they are asked for, of the rows that are left then."""

    __slots__ = ("_names", "_nodes", "_profile", "_written")

    def __init__(self, profile: Profile, names: Text, nodes: Array) -> None:
        self._profile, self._names, self._nodes = profile, names, nodes
        self._written: ListOf | None = None
        self.valid = None if (nodes > 0).all() else nodes > 0

    def _list(self) -> ListOf:
        if self._written is None:
            offsets, frames = self._profile.tree.paths(self._nodes)
            self._written = ListOf(offsets, Coded(self._names, np.asarray(frames, np.int64)))
        return self._written

    @property
    def offsets(self) -> Array:  # type: ignore[override]
        """Row → first frame, i64, one more than rows."""
        return self._list().offsets

    @property
    def child(self) -> Column:  # type: ignore[override]
        """The frames of all rows."""
        return self._list().child

    @property
    def nbytes(self) -> int:
        """Bytes of the numbers of nodes."""
        return int(self._nodes.nbytes)

    def __len__(self) -> int:
        return len(self._nodes)

    def take(self, rows: Array | Sequence[int]) -> Paths:
        """The column of some rows."""
        picked = np.asarray(rows)
        picked = np.flatnonzero(picked) if picked.dtype == np.bool_ else picked.astype(np.int64, copy=False)
        return Paths(self._profile, self._names, self._nodes[picked])

    def item(self, row: int) -> list[Any] | None:
        """The frames of one row."""
        return self.take([range(len(self))[row]]).to_pylist()[0]
