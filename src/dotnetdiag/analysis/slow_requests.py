"""Of a table of requests the slowest, and what was within one: all by columns, for a row of a table is a dozen objects, and of a table of a hundred
thousand rows four hundred megabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.request_spans import DEEPEST
from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.table import Table

Array: TypeAlias = "np.ndarray[Any, Any]"

_STEPS = ("dns", "connect", "tls")
"""Kinds of what a request does before it is sent."""
_AROUND = ("connection", "kestrel")
"""Kinds that say the same as the request."""


def is_part(kind: str, there: set[str]) -> bool:
    """Whether rows of a kind say the same as those of another, or are of a connection. ``there``: all kinds that there are."""
    return kind == "connection" or kind.startswith("client ") or (kind == "kestrel" and "server" in there)


class SlowRequests:
    """Looks at the rows of a report's ``requests``. Places are those of rows there."""

    def __init__(self, requests: Table, there: set[str]) -> None:
        self._rows, self._there = requests, there
        kind, duration = requests["kind"], requests["duration_ms"]
        assert isinstance(kind, Coded)
        self._kinds, self._kind = [name or "" for name in kind.texts.to_pylist()], kind.which
        self._duration = duration.values if isinstance(duration, Scalar) else np.zeros(len(requests))
        self._has_ended = np.ones(len(requests), np.bool_) if duration.valid is None else duration.valid
        parent = requests["parent"]
        above = parent.values.astype(np.int32) if isinstance(parent, Scalar) else np.full(len(requests), -1, np.int32)
        self._parent = above if parent.valid is None else np.where(parent.valid, above, np.int32(-1))

    def places(self, number: int) -> tuple[Array, int]:
        """Those of the longest requests that have ended, so many, the longest first; and how many there are."""
        ended = np.flatnonzero(
            self._has_ended & self._of_kinds(lambda kind: kind not in _STEPS and not is_part(kind, self._there))
        ).astype(np.int32)
        count, ms = len(ended), self._duration[ended]
        if 0 < number < count:
            ended = ended[ms >= np.partition(ms, count - number)[count - number]]
        return ended[np.argsort(-self._duration[ended], kind="stable")][:number], count

    def within(self, places: Sequence[int]) -> list[Counter[str]]:
        """Of each what was within it, in ms by kind."""
        sums = np.zeros((len(places), len(self._kinds)))
        wanted = np.full(len(self._rows) + 1, -1, np.int32)
        wanted[list(places)] = np.arange(len(places))
        rows = np.flatnonzero(self._has_ended & self._of_kinds(lambda kind: kind not in _AROUND)).astype(np.int32)
        above = self._parent[rows]
        for _ in range(DEEPEST):
            rows, above = rows[above >= 0], above[above >= 0]
            if not len(rows):
                break
            hit = wanted[above]
            some = hit >= 0
            np.add.at(sums, (hit[some], self._kind[rows[some]]), self._duration[rows[some]])
            above = self._parent[above]
        return [Counter({kind: ms for kind, ms in zip(self._kinds, row, strict=True) if ms}) for row in sums.tolist()]

    def inside(self, place: int) -> list[tuple[int, int]]:
        """(place, how deep) of a request and of what was within it, and within the one that answered it, in the order of their begins."""
        depth = self._rows.numpy("depth").astype(np.int16)
        base = np.zeros(len(self._rows) + 1, np.int16)
        is_in = np.zeros(len(self._rows) + 1, np.bool_)  # the last stands for no parent
        is_in[place], base[place] = True, depth[place]
        answering = self._answering(place)
        if answering is not None:
            is_in[answering], base[answering] = True, depth[answering] - 1
        for _ in range(DEEPEST):
            new = np.flatnonzero(~is_in[:-1] & is_in[self._parent])
            if not len(new):
                break
            is_in[new], base[new] = True, base[self._parent[new]]
        return [(at, int(depth[at] - base[at])) for at in np.flatnonzero(is_in[:-1]).tolist()]

    def _of_kinds(self, wanted: Callable[[str], bool]) -> Array:
        made: Array = np.array([wanted(kind) for kind in self._kinds], np.bool_)[self._kind]
        return made

    def _answering(self, place: int) -> int | None:
        """The one request that came in while one to its path went out, in the same process; None where there is none, or several."""
        asked = self._rows.row(place)
        if asked["kind"] != "client":
            return None
        start, pid = self._rows.numpy("start_ms"), self._rows.numpy("pid")
        path, end = _path(asked["name"].partition("://")[2].partition("/")[2]), asked["start_ms"] + asked["duration_ms"]
        during = np.flatnonzero(
            self._of_kinds(lambda kind: kind == "server")
            & self._has_ended
            & (pid == asked["pid"])
            & (start >= asked["start_ms"])
            & (start + self._duration <= end)
        )
        found = [at for at in during.tolist() if _path(self._rows.row(at)["name"].partition(" /")[2]) == path]
        return found[0] if len(found) == 1 else None


def _path(text: str) -> str:
    return text.partition("?")[0]
