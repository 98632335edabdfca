"""Call stacks of a trace as people read them, leaf first, each frame as ``module!method(signature)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.trace.symbols import process_ids

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Recording


class StackNames:
    """Names that do not depend on the time are found once."""

    def __init__(self, trace: Recording) -> None:
        self._trace = trace
        self._known: dict[tuple[int, int | None], tuple[str, ...]] = {}

    def frames(self, stack: int, time_ns: int | None, pid: int | None) -> tuple[str, ...]:
        """One stack at a time (UTC since 1970; None: the end of the trace), in a process."""
        addresses = self._trace.stacks.frames(stack)
        if not len(addresses):
            return ()
        meaning = self._trace.meaning
        start = meaning.info.start_ns or 0
        return self._named(addresses, None if time_ns is None else meaning.ticks_at(float(time_ns - start)), pid)

    def frames_of(self, headers: HeaderColumns) -> list[tuple[str, ...]]:
        """Those of events, each at its time."""
        trace = self._trace
        rows = trace.source.scan.threads if trace.format.startswith("nettrace 6") else {}
        pids = process_ids(rows, headers.thread)
        owners: list[int | None] = [None] * len(headers) if pids is None else pids.tolist()
        made: list[tuple[str, ...]] = []
        for stack, ticks, pid in zip(headers.stack.tolist(), headers.time.tolist(), owners, strict=True):
            if not stack:
                made.append(())
                continue
            known = self._known.get((stack, pid))
            if known is None:
                addresses = trace.stacks.frames(stack)
                known = self._named(addresses, ticks, pid) if len(addresses) else ()
                if len(addresses) and self._moves(addresses, pid):
                    made.append(known)
                    continue
                self._known[stack, pid] = known
            made.append(known)
        return made

    def _named(self, addresses: npt.NDArray[np.uint64], ticks: int | None, pid: int | None) -> tuple[str, ...]:
        symbols, count = self._trace.symbols, len(addresses)
        frames = symbols.resolve(
            addresses,
            None if ticks is None else np.full(count, ticks, np.int64),
            None if pid is None else np.full(count, pid, np.int64),
            exact=_leaf_is_exact(count),
        )
        return tuple(symbols.frame_name(frame) for frame in frames.tolist())

    def _moves(self, addresses: npt.NDArray[np.uint64], pid: int | None) -> bool:
        """Whether the names of these addresses depend on the time."""
        owners = None if pid is None else np.full(len(addresses), pid, np.int64)
        return bool(self._trace.symbols.changes(addresses, owners, exact=_leaf_is_exact(len(addresses)))[0].any())


def _leaf_is_exact(count: int) -> npt.NDArray[np.bool_]:
    """The others are return addresses."""
    exact = np.zeros(count, np.bool_)
    exact[0] = True
    return exact
