"""Call stacks of a trace as people read them, leaf first, each frame as ``module!method(signature)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from dotnetdiag.events import ListOf, Text
from dotnetdiag.events.columns import Coded
from dotnetdiag.events.well_known import SAMPLERS
from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.trace.bounds import process_ids

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dotnetdiag.nettrace import Metadata
    from dotnetdiag.trace.context import Recording

Ids: TypeAlias = "npt.NDArray[np.int64]"

_DENSE_LIMIT = 1 << 24


def _are_sampled(trace: Recording, metadata_id: npt.NDArray[np.uint32]) -> npt.NDArray[np.bool_]:
    """A session that runs does not tell its types, and has no lines, for which alone this matters."""
    metadata: Mapping[int, Metadata] | None = getattr(trace, "metadata", None)
    if metadata is None:
        return np.ones(len(metadata_id), np.bool_)
    return np.isin(metadata_id, [number for number, one in metadata.items() if one.provider in SAMPLERS])


class StackNames:
    """Looks up all stacks of some events at once: a stack of each process once, and one whose names depend on the time for each event."""

    def __init__(self, trace: Recording) -> None:
        self._trace = trace

    def frames(self, stack: int, time_ns: int | None, pid: int | None) -> tuple[str, ...]:
        """One stack at a time (UTC since 1970; None: the end of the trace), in a process."""
        addresses = self._trace.stacks.frames(stack)
        if not len(addresses):
            return ()
        meaning = self._trace.meaning
        start = meaning.info.start_ns or 0
        ticks = None if time_ns is None else meaning.ticks_at(float(time_ns - start))
        exact = np.zeros(len(addresses), np.bool_)
        exact[0] = True
        symbols = self._trace.symbols
        found = symbols.resolve(
            addresses,
            None if ticks is None else np.full(len(addresses), ticks, np.int64),
            None if pid is None or not self._has_processes else np.full(len(addresses), pid, np.int64),
            exact=exact,
        )
        return tuple(symbols.frame_name(frame) for frame in found.tolist())

    @property
    def _has_processes(self) -> bool:
        """Whether addresses are those of a process; else there is one, whose symbols say nothing of it."""
        return self._trace.format.startswith("nettrace 6")

    def frames_of(self, headers: HeaderColumns) -> list[tuple[str, ...]]:
        """Those of events, each at its time."""
        named, which = self._named(headers, None)
        stacks = [tuple(frames or ()) for frames in named.to_pylist()]
        return [stacks[number] for number in which.tolist()]

    def column(self, headers: HeaderColumns) -> ListOf:
        """Those of events as a column of lists; none where an event has no stack."""
        named, which = self._named(headers, None)
        made = named.take(which)
        made.valid = headers.stack != 0
        return made

    def leaves(self, headers: HeaderColumns) -> Coded:
        """The methods that events happened in; none where an event has no stack."""
        named, which = self._named(headers, 1)
        assert isinstance(named.child, Coded)
        valid = np.diff(named.offsets)[which] > 0
        places = named.offsets[:-1][which]
        codes = named.child.which
        known = codes[np.minimum(places, len(codes) - 1)] if len(codes) else np.zeros(len(headers), np.int64)
        texts = named.child.texts if len(codes) else Text.from_pylist([""])
        return Coded(texts, np.where(valid, known, 0).astype(np.int32), None if valid.all() else valid)

    def _named(self, headers: HeaderColumns, depth: int | None) -> tuple[ListOf, Ids]:
        """The frames of some stacks, to that depth, and which of these each event has."""
        trace = self._trace
        if not headers.stack.any():
            return ListOf(np.zeros(2, np.int64), Coded(Text.from_pylist([]), np.zeros(0, np.int64))), np.zeros(
                len(headers), np.int64
            )
        threads = trace.source.scan.threads if self._has_processes else {}
        owner = process_ids(threads, headers.thread)
        key: npt.NDArray[Any] = headers.stack
        if owner is not None:
            key = key.astype(np.uint64)
            place = np.unique(owner, return_inverse=True)[1]
            key |= place.astype(np.uint64) << np.uint64(32)
        rows, which = _distinct(key)
        stacks = _Stacks(trace, headers, owner, rows, depth)
        moving = stacks.moving()
        if moving.any():  # one for each event instead
            rows = np.concatenate([rows, events := np.flatnonzero(moving[which])])
            which[events] = np.arange(len(moving), len(rows))
            stacks = _Stacks(trace, headers, owner, rows, depth)
        return stacks.named(), which


def _distinct(keys: npt.NDArray[Any]) -> tuple[Ids, Ids]:
    """An event of each key, in the order of the keys, and which of these each event has the key of."""
    limit = int(keys.max()) + 1
    if limit > _DENSE_LIMIT:
        _, rows, which = np.unique(keys, return_index=True, return_inverse=True)
        return rows, which
    event = np.full(limit, -1, np.int64)  # sorting would take several times the memory of the keys
    event[keys] = np.arange(len(keys))
    there = np.flatnonzero(event >= 0)
    number = np.zeros(limit, np.int64)
    number[there] = np.arange(len(there))
    return event[there], number[keys]


class _Stacks:
    """The addresses of the stacks that some events have, one behind the other."""

    def __init__(
        self, trace: Recording, headers: HeaderColumns, owner: Ids | None, rows: Ids, depth: int | None
    ) -> None:
        parts = [trace.stacks.frames(stack)[:depth] for stack in headers.stack[rows].tolist()]
        counts = np.array([len(part) for part in parts], np.int64)
        self._symbols = trace.symbols
        self._offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(counts, out=self._offsets[1:])
        self._addresses = np.concatenate(parts)
        self._exact = np.zeros(len(self._addresses), np.bool_)  # the others are return addresses
        self._exact[self._offsets[:-1][(counts > 0) & _are_sampled(trace, headers.metadata_id[rows])]] = True
        self._of = np.repeat(np.arange(len(rows)), counts)
        self._ticks = headers.time[rows][self._of]
        self._owner = None if owner is None else owner[rows][self._of]

    def moving(self) -> npt.NDArray[np.bool_]:
        """Which stacks have names that depend on the time."""
        mask, _ = self._symbols.changes(self._addresses, self._owner, exact=self._exact)
        found = np.zeros(len(self._offsets) - 1, np.bool_)
        found[self._of[mask]] = True
        return found

    def named(self) -> ListOf:
        """The names of the frames; each is made once."""
        frames = self._symbols.resolve(self._addresses, self._ticks, self._owner, exact=self._exact)
        distinct, which = np.unique(frames, return_inverse=True)
        names = [self._symbols.frame_name(frame) for frame in distinct.tolist()]
        return ListOf(self._offsets, Coded(Text.from_pylist(names), which.astype(np.int64)))
