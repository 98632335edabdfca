"""Of a table of requests the slowest, and what was within one: by columns, for a row of a table is a dozen objects, and of some rows at a time, for
there may be millions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.analysis.distinct import rows_with
from dotnetdiag.analysis.request_spans import DEEPEST
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Coded
from dotnetdiag.table import Table
from dotnetdiag.table.parts import parts, rows_at
from dotnetdiag.trace.distinct import ranked
from dotnetdiag.trace.scratch import MappedArrays

Array: TypeAlias = "np.ndarray[Any, Any]"

_STEPS = ("dns", "connect", "tls")
"""Kinds of what a request does before it is sent."""
_AROUND = ("connection", "kestrel")
"""Kinds that say the same as the request."""
_SOME = 1 << 15
"""Requests that are looked at before those that are not of the longest are left out."""


def is_part(kind: str, there: set[str]) -> bool:
    """Whether rows of a kind say the same as those of another, or are of a connection. ``there``: all kinds that there are."""
    return kind == "connection" or kind.startswith("client ") or (kind == "kestrel" and "server" in there)


def is_request(kind: str, there: set[str]) -> bool:
    """Whether rows of a kind are requests, that came in or went out, calls of gRPC and commands of databases among them, and no parts of such."""
    return kind not in _STEPS and not is_part(kind, there)


class SlowRequests:
    """Looks at the rows of a report's ``requests``. Places are those of rows there."""

    def __init__(self, requests: Table, there: set[str]) -> None:
        self._rows, self._there = requests, there

    def places(self, number: int) -> tuple[Array, int]:
        """Those of the longest requests that have ended, so many, the longest first; and how many there are."""
        best, most, count = np.zeros(0, np.int64), np.zeros(0), 0
        for first, part in self._parts("kind", "duration_ms"):
            ms, has_ended = _durations(part)
            own = np.flatnonzero(has_ended & _of_kinds(part, lambda kind: is_request(kind, self._there)))
            count += len(own)
            best, most = np.append(best, first + own), np.append(most, ms[own])
            if len(best) > max(2 * number, _SOME):
                order = _longest(most, number)
                best, most = best[order], most[order]
        return best[_longest(most, number)], count

    def within(self, places: Sequence[int]) -> list[Counter[str]]:
        """Of each what was within it, in ms by kind."""
        sums: list[Counter[str]] = [Counter() for _ in places]
        above = list[int]()
        for _, part, of, inside in self._below(places, "kind", "duration_ms"):
            ms, has_ended = _durations(part)
            kinds, which = _kinds(part)
            own = np.flatnonzero((inside >= 0) & has_ended & _of_kinds(part, lambda kind: kind not in _AROUND))
            keys, key = ranked(inside[own].astype(np.int64) * len(kinds) + which[own])
            for at, spent in zip(keys.tolist(), np.bincount(key, ms[own], len(keys)).tolist(), strict=True):
                if spent:
                    sums[at // len(kinds)][kinds[at % len(kinds)]] += spent
            above = of
        for at in sorted(
            range(len(places)), key=places.__getitem__, reverse=True
        ):  # what is within a place that is within another
            if at < len(above) and above[at] >= 0:
                sums[above[at]].update(sums[at])
        return sums

    def inside(self, place: int) -> list[tuple[int, int]]:
        """(place, how deep) of a request and of what was within it, and within the one that answered it, in the order of their begins."""
        answering = self._answering(place)
        seeds = [place] if answering is None else [place, answering]
        bases = [self._rows.row(seed)["depth"] - at for at, seed in enumerate(seeds)]
        found = list[tuple[int, int]]()
        for first, part, _, inside in self._below(seeds, "depth"):
            of = inside
            for at, seed in enumerate(seeds):
                if first <= seed < first + len(of):
                    of[seed - first] = at
            rows = np.flatnonzero(of >= 0)
            depth = part["depth"].numpy()
            found += [(first + row, int(depth[row]) - bases[of[row]]) for row in rows.tolist()]
        return found

    def _parts(self, *names: str, since: int = 0) -> Iterator[tuple[int, Mapping[str, Column]]]:
        """Some columns of rows that follow each other, and where each part begins."""
        for part in parts(self._rows, names, since):
            yield since, part
            since += len(part[names[0]])

    def _below(
        self, places: Sequence[int], *names: str
    ) -> Iterator[tuple[int, Mapping[str, Column], list[int], Array]]:
        """From the first of some places on rows in parts: where each begins, its columns, of each place that was seen the one that it is within, and
        of each row (the numbers of places; -1: none): a row stands behind what it is within.
        """
        since = min(places, default=0)
        held = MappedArrays(len(self._rows) - since + 1, each=4)
        behind = held.zeros("i4")  # the number behind that of each row, 0 for none; the last stands for what is before
        above = [-1] * len(places)
        for first, part in self._parts("parent", *names, since=since):
            parent = _parents(part) - since
            parent[parent < 0] = -1
            here = slice(first - since, first - since + len(parent))
            own = [(at, place - first) for at, place in enumerate(places) if 0 <= place - first < len(parent)]
            for _ in range(DEEPEST):
                inside = behind[parent] - 1
                for at, row in own:
                    above[at] = int(inside[row])
                made = inside.copy()
                for at, row in own:
                    made[row] = at
                if np.array_equal(behind[here], made + 1):
                    break
                behind[here] = made + 1
            held.release()
            yield first, part, above, inside

    def _answering(self, place: int) -> int | None:
        return answers(self._rows, [place]).get(place)


def answers(requests: Table, places: Sequence[int]) -> dict[int, int]:
    """Of rows of requests that went out the one that came in while each was under way, to its path in its process: of some, the longest first, in one
    go. One for which there are several has none, and one that would be of several is that of the first.
    """
    names = ("kind", "duration_ms", "start_ms", "pid", "name")
    if not all(name in requests.columns for name in names):
        return {}
    asked = [
        (at, one["pid"], _path(one["name"].partition("://")[2].partition("/")[2]), one["start_ms"], one["duration_ms"])
        for at, one in zip(places, Table(rows_at(requests, np.array(places, np.int64))).to_pylist(), strict=True)
        if one["kind"] == "client" and one["duration_ms"] is not None
    ]
    paths = {path: number for number, path in enumerate({path: None for _, _, path, _, _ in asked})}
    answering: dict[int, list[int]] = {at: [] for at, *_ in asked}
    first = 0
    for part in parts(requests, names) if asked else ():
        start, pid, (length, has_ended) = part["start_ms"].numpy(), part["pid"].numpy(), _durations(part)
        rows = np.flatnonzero(rows_with(part["kind"], lambda kind: kind == "server") & has_ended)
        rows = rows[np.argsort(start[rows], kind="stable")]
        named = map(str, part["name"].take(rows.tolist()).to_pylist())
        path = np.array([paths.get(_path(name.partition(" /")[2]), -1) for name in named], np.int64)
        begins, ends = start[rows], (start + length)[rows]
        for at, own_pid, own_path, begin, lasted in asked:
            during = slice(*np.searchsorted(begins, [begin, np.nextafter(begin + lasted, np.inf)]).tolist())
            own = (ends[during] <= begin + lasted) & (path[during] == paths[own_path]) & (pid[rows[during]] == own_pid)
            answering[at] += (first + rows[during][own][:2]).tolist()
            del answering[at][2:]
        first += len(start)
    made: dict[int, int] = {}
    for at, found in answering.items():
        if len(found) == 1 and found[0] not in made.values():
            made[at] = found[0]
    return made


def _longest(ms: Array, number: int) -> Array:
    """The places of the largest, the largest first, of equal ones that which comes first."""
    return np.argsort(-ms, kind="stable")[:number]


def _kinds(part: Mapping[str, Column]) -> tuple[list[str], Array]:
    """The kinds that there are, and of each row which it is."""
    kind = part["kind"]
    assert isinstance(kind, Coded)
    return [name or "" for name in kind.texts.to_pylist()], kind.which


def _of_kinds(part: Mapping[str, Column], wanted: Callable[[str], bool]) -> Array:
    kinds, which = _kinds(part)
    made: Array = np.array([wanted(kind) for kind in kinds], np.bool_)[which]
    return made


def _durations(part: Mapping[str, Column]) -> tuple[Array, Array]:
    """How long each lasted, and whether that is known."""
    duration = part["duration_ms"]
    if not isinstance(duration, Scalar):
        return np.zeros(len(duration)), np.zeros(len(duration), np.bool_)
    return duration.values, np.ones(len(duration), np.bool_) if duration.valid is None else duration.valid


def _parents(part: Mapping[str, Column]) -> Array:
    """The row that each is within; -1 for none."""
    parent = part["parent"]
    if not isinstance(parent, Scalar):
        return np.full(len(parent), -1, np.int64)
    above = parent.values.astype(np.int64)
    return above if parent.valid is None else np.where(parent.valid, above, -1)


def _path(text: str) -> str:
    return text.partition("?")[0]
