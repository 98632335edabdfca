"""Perfetto's own format, for https://ui.perfetto.dev: packets of protobuf, ``perfetto.protos.Trace``
(https://github.com/google/perfetto/blob/main/protos/perfetto/trace/perfetto_trace.proto, whose numbers of fields stand here).

Each process and each thread is a track, with tracks of their own below it: collections, pauses, compilations, waits, requests; what overlaps
is side by side. Samples are those of a profiler (``PerfSample``) with interned stacks, and counters are tracks of counters. From a request
an arrow leads to what it caused where that is on another track, and to a server from its client; another goes from it through all that was logged
within it, on whatever threads. Texts are written once and have numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from typing import IO

import numpy as np

from dotnetdiag.analysis.distinct import places_of
from dotnetdiag.analysis.filters import with_states
from dotnetdiag.analysis.lanes import lanes, tops
from dotnetdiag.analysis.profile import Array
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.tracks import REQUESTS, Slices, Tracks, samples_only
from dotnetdiag.export.moments import epoch_ns
from dotnetdiag.export.protobuf_rows import Rows, data, number, varints
from dotnetdiag.export.texts import clean, frame_texts, profile_only, thread_names
from dotnetdiag.trace.method_names import Style

_PACKET = 1
_TIMESTAMP, _SEQUENCE, _FLAGS = 8, 10, 13
_CLOCKS, _EVENT, _INTERNED, _DESCRIPTOR, _SAMPLE = 6, 11, 12, 60, 66
_CLEARED, _NEEDS_STATE = 1, 2
_BEGIN, _END, _INSTANT, _COUNTER = 1, 2, 3, 4
_DEEPEST = 64
"""So many that begin at one time on one track are told apart."""
_MAPPING_PATHS, _FUNCTIONS, _FRAMES, _STACKS, _MAPPINGS, _NAMES, _DETAIL_NAMES, _DETAILS = 17, 5, 6, 7, 19, 2, 3, 29
_REALTIME, _BOOTTIME = 1, 6
_USER = 2
_ALL = 1
"""The sequence of all packets."""
_CHUNK = 1 << 16
_WITHIN = 1 << 40
"""From here on arrows are numbered that lead to other tracks; below, those between requests."""
_UNKNOWN_PID = 1
"""Of what does not say whose it is: 0 is the idle process of the kernel."""


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write tracks, or the samples of a profile."""
    tracks = result if isinstance(result, Tracks) else samples_only(profile_only(result, "perfetto"))
    made = _Trace(tracks, file)
    made.head()
    made.samples(with_states(profile_only(tracks.samples, "perfetto")), style)
    for one in tracks.slices:
        made.slices(one)
    made.counters()


class _Trace:
    """The file while it is written. ``iid`` of a text is its place, from 1 on, in what was interned of its kind."""

    def __init__(self, tracks: Tracks, file: IO[bytes]) -> None:
        self.tracks, self.file = tracks, file
        self._uuids = count(1)
        self._known: dict[tuple[int, ...], int] = {}
        self._iids: dict[int, dict[str, int]] = {}
        origin = tracks.samples.origin
        self._pid = origin.process_id or _UNKNOWN_PID
        self._names = thread_names(tracks)
        self._in_requests = _in_requests(tracks)

    def head(self) -> None:
        """That nothing came before, and when it was."""
        start = self.tracks.samples.origin.start
        self._packet(number(_SEQUENCE, _ALL) + number(_FLAGS, _CLEARED))
        if start is not None and start.timestamp() > 0:
            clocks = ((_BOOTTIME, 0), (_REALTIME, epoch_ns(start)))
            both = b"".join(data(1, number(1, clock) + number(2, time)) for clock, time in clocks)
            self._packet(data(_CLOCKS, both))
        for (pid, tid), _ in self.tracks.threads.items():
            self._thread(pid, tid)

    def samples(self, profile: StackProfile, style: Style | None) -> None:
        """The samples, and the stacks that they have."""
        if not len(profile):
            return
        iid = self._stacks(profile, style)
        threads = [self._whose(*one.key) for one in profile.threads]
        for pid, tid in threads:
            self._thread(pid, tid)
        owner = np.array(threads, np.int64)[profile.thread]
        for low in range(0, len(profile), _CHUNK):
            some = slice(low, low + _CHUNK)
            rows = Rows(len(profile.node[some]))
            sample = Rows(rows.count).number(2, owner[some, 0] & 0x7FFFFFFF).number(3, owner[some, 1] & 0x7FFFFFFF)
            sample.number(4, iid[profile.node[some]]).number(5, _USER)
            rows.number(_TIMESTAMP, np.maximum(profile.start_ns[some], 0)).number(_SEQUENCE, _ALL)
            self.file.write(rows.number(_FLAGS, _NEEDS_STATE).message(_SAMPLE, sample).packets(_PACKET))

    def _stacks(self, profile: StackProfile, style: Style | None) -> Array:
        """Write frames and stacks; gives the number of the stack of each node."""
        ids = profile.used_frames()
        texts = frame_texts(profile, ids.tolist(), style)
        frames = [profile.frames[one] for one in ids.tolist()]
        mappings = self._interned(_MAPPING_PATHS, [clean(one.module_path or one.module or "?") for one in frames])
        self._intern(_MAPPINGS, (number(1, one) + number(7, one) for one in range(1, int(mappings.max()) + 1)))
        functions = self._interned(_FUNCTIONS, texts)
        columns = zip(functions.tolist(), mappings.tolist(), strict=True)
        # the second number of a frame: frames of one mapping and place would be one to the reader
        places = enumerate(columns, 1)
        self._intern(
            _FRAMES,
            (number(1, at) + number(2, name) + number(3, file) + number(4, at) for at, (name, file) in places),
        )
        frame_iid = np.zeros(len(profile.frames) + 1, np.int64)
        frame_iid[ids] = np.arange(1, len(ids) + 1)
        nodes = np.unique(profile.node)
        for low in range(0, len(nodes), _CHUNK >> 6):
            self._intern(_STACKS, self._some_stacks(profile, nodes[low : low + (_CHUNK >> 6)], frame_iid, low))
        made = np.zeros(len(profile.tree), np.int64)
        made[nodes] = np.arange(1, len(nodes) + 1)
        return made

    def _some_stacks(self, profile: StackProfile, nodes: Array, frame_iid: Array, before: int) -> Iterable[bytes]:
        offsets, path = profile.tree.paths(nodes)
        numbers = varints(frame_iid[path])
        fields = np.insert(numbers, 0, 2 << 3, axis=1)[::-1]  # outermost first
        edges, whole = (len(path) - offsets).tolist(), fields.tobytes()
        width = fields.shape[1]
        for at in range(len(nodes)):
            yield number(1, before + at + 1) + whole[edges[at + 1] * width : edges[at] * width]

    def slices(self, slices: Slices) -> None:
        """What took time, and what has none (as instants), in lanes."""
        names = self._texts(_NAMES, slices.label.texts or [slices.kind], slices.label.number, slices.kind)
        details = self._texts(_DETAILS, slices.detail.texts, slices.detail.number, "") if slices.detail.texts else None
        self._interned(_DETAIL_NAMES, ["detail"])
        end = np.maximum(slices.end_ns, slices.start_ns)
        top = tops(slices.parent, slices.start_ns, end)
        track = self._tracks_of(slices, top, end)
        flows = _flows(slices, top) + self._leading(slices)
        is_long = end > slices.start_ns
        # who reads it puts events in the order of their times, those of one time in that of the file: what ends makes way for what begins then
        order = np.flatnonzero(is_long)
        order = order[np.argsort(end[order], kind="stable")]
        for low in range(0, len(order), _CHUNK):
            self._events(_END, end, track, order[low : low + _CHUNK])
        for begun in _outer_first(track, slices.start_ns, end):
            for low in range(0, len(begun), _CHUNK):
                rows = begun[low : low + _CHUNK]
                for kind, some in ((_BEGIN, rows[is_long[rows]]), (_INSTANT, rows[~is_long[rows]])):
                    self._events(kind, slices.start_ns, track, some, names, details, flows)

    def _leading(self, slices: Slices) -> list[tuple[Array, Array]]:
        """Arrows from requests to what was within them on tracks of threads: one from each, that goes on from one to the next."""
        if slices.kind == REQUESTS:
            rows = self._in_requests
            return [(rows, rows + _WITHIN)] if len(rows) else []
        if slices.request is None:
            return []
        rows = np.flatnonzero(np.isin(slices.request, self._in_requests))
        return [(rows, slices.request[rows] + _WITHIN)] if len(rows) else []

    def _events(
        self,
        kind: int,
        times: Array,
        track: Array,
        rows: Array,
        names: Array | None = None,
        details: Array | None = None,
        flows: Sequence[tuple[Array, Array]] = (),
    ) -> None:
        """Events of one type, those with as many arrows together."""
        arrows = np.zeros(len(times), np.int64)
        for row, _ in flows:
            np.add.at(arrows, row, 1)
        for many in np.unique(arrows[rows]).tolist():
            some = rows[arrows[rows] == many]
            has_detail = np.zeros(len(some), np.bool_) if details is None else details[some] > 0
            for own in (some[has_detail], some[~has_detail]):
                if not len(own):
                    continue
                event = Rows(len(own))
                if details is not None and details[own[0]] > 0:
                    event.message(4, Rows(len(own)).number(1, 1).number(17, details[own]))
                event.number(9, kind)
                if names is not None:
                    event.number(10, names[own])
                event.number(11, track[own])
                for column in _columns(flows, own, many):
                    event.fixed(47, column.astype(np.uint64))
                packet = Rows(len(own)).number(_TIMESTAMP, np.maximum(times[own], 0)).number(_SEQUENCE, _ALL)
                packet.number(_FLAGS, _NEEDS_STATE)
                self.file.write(packet.message(_EVENT, event).packets(_PACKET))

    def _tracks_of(self, slices: Slices, top: Array, end: Array) -> Array:
        """The track of each, by its thread or process and by its lane there; tracks are made in the order of lanes."""
        made = np.zeros(len(slices), np.int64)
        keys = np.stack([slices.pid, slices.tid if slices.of_threads else np.zeros_like(slices.pid)], axis=1)
        owners, which = np.unique(keys, axis=0, return_inverse=True)
        outer = np.flatnonzero(top == np.arange(len(slices)))
        for owner, own in places_of(which.reshape(-1)[outer]):
            rows, (pid, tid) = outer[own], owners[owner].tolist()
            lane = lanes(slices.start_ns[rows], end[rows])
            above = self._thread(pid, tid) if slices.of_threads else self._process(pid)
            uuids = [self._track(above, slices.kind, lane) for lane in range(int(lane.max(initial=0)) + 1)]
            made[rows] = np.array(uuids)[lane]
        return made[top]

    def counters(self) -> None:
        """Each on a track of its own."""
        for one in self.tracks.counters:
            uuid = next(self._uuids)
            about = number(1, uuid) + data(2, clean(one.name).encode()) + number(5, self._process(one.pid or 0))
            self._packet(data(_DESCRIPTOR, about + data(8, data(6, clean(one.unit).encode()))))
            rows = Rows(len(one.ns))
            event = Rows(rows.count).number(9, _COUNTER).number(11, uuid).fixed(44, one.values.astype(np.float64))
            rows.number(_TIMESTAMP, np.maximum(one.ns, 0)).number(_SEQUENCE, _ALL)
            self.file.write(rows.message(_EVENT, event).packets(_PACKET))

    # tracks -----------------------------------------------------------------------------------------------------------

    def _whose(self, pid: int, tid: int) -> tuple[int, int]:
        return pid or self._pid, tid or (pid or self._pid)

    def _process(self, pid: int) -> int:
        """The track of a process."""
        pid = pid or self._pid
        if (pid,) not in self._known:
            uuid = self._known[(pid,)] = next(self._uuids)
            name = self.tracks.samples.origin.command_line_of(0 if pid == self._pid else pid)
            about = data(6, clean(name or f"Process {pid}").encode())
            self._packet(data(_DESCRIPTOR, number(1, uuid) + data(3, number(1, pid & 0x7FFFFFFF) + about)))
        return self._known[(pid,)]

    def _thread(self, pid: int, tid: int) -> int:
        """The track of a thread."""
        own = self._whose(pid, tid)
        if own not in self._known:
            above = self._process(own[0])
            uuid = self._known[own] = next(self._uuids)
            about = number(1, own[0] & 0x7FFFFFFF) + number(2, own[1] & 0x7FFFFFFF)
            name = self._names.get((pid, tid), "")
            if name:
                about += data(5, clean(name).encode())
            self._packet(data(_DESCRIPTOR, number(1, uuid) + number(5, above) + data(4, about)))
        return self._known[own]

    def _track(self, above: int, kind: str, lane: int) -> int:
        uuid = next(self._uuids)
        name = kind if not lane else f"{kind} {lane + 1}"
        self._packet(data(_DESCRIPTOR, number(1, uuid) + data(2, name.encode()) + number(5, above)))
        return uuid

    # texts ------------------------------------------------------------------------------------------------------------

    def _texts(self, kind: int, texts: Sequence[str], which: Array, without: str) -> Array:
        """The number of each one's text; that of ``without`` where it has none (0: nothing)."""
        iids = self._interned(kind, [*(clean(text) or "?" for text in texts), *([without] if without else [])])
        iids = iids if without else np.append(iids, 0)
        return iids[np.where(which >= 0, which, len(texts))]

    def _interned(self, kind: int, texts: Sequence[str]) -> Array:
        """The numbers of texts, the new ones of which are written."""
        known = self._iids.setdefault(kind, {})
        before = len(known)
        made = np.array([known.setdefault(text, len(known) + 1) for text in texts], np.int64)
        self._intern(kind, (number(1, known[text]) + data(2, text.encode()) for text in list(known)[before:]))
        return made

    def _intern(self, kind: int, entries: Iterable[bytes]) -> None:
        parts = [data(kind, one) for one in entries]
        for low in range(0, len(parts), _CHUNK >> 6):
            interned = data(_INTERNED, b"".join(parts[low : low + (_CHUNK >> 6)]))
            self._packet(number(_SEQUENCE, _ALL) + number(_FLAGS, _NEEDS_STATE) + interned)

    def _packet(self, content: bytes) -> None:
        self.file.write(data(_PACKET, content))


def _in_requests(tracks: Tracks) -> Array:
    """The rows of requests within which something was on the track of a thread."""
    count = sum(len(one) for one in tracks.slices if one.kind == REQUESTS)
    found = [np.unique(one.request) for one in tracks.slices if one.request is not None]
    rows = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
    return rows[(rows >= 0) & (rows < count)]


def _flows(slices: Slices, top: Array) -> list[tuple[Array, Array]]:
    """Arrows: (rows, numbers of the arrows) of their begins, and of their ends. They lead from what a request lies within to it, where that is
    on another lane.
    """
    rows = np.flatnonzero((slices.parent >= 0) & ((top == np.arange(len(top))) | _leads(slices)))
    if not len(rows):
        return []
    return [(slices.parent[rows], rows + 1), (rows, rows + 1)]


def _leads(slices: Slices) -> Array:
    """What a server does for a client of the same recording."""
    kinds = np.array([text.partition(" ")[0] for text in (*slices.label.texts, "")])[slices.label.number]
    made: Array = np.isin(kinds, ("server", "kestrel")) & (kinds[np.maximum(slices.parent, 0)] == "client")
    return made


def _columns(flows: Sequence[tuple[Array, Array]], rows: Array, many: int) -> list[Array]:
    """The numbers of the arrows of rows that have so many each: as many columns."""
    if not many:
        return []
    of, arrow = (np.concatenate(parts) for parts in zip(*flows, strict=True))
    order = np.argsort(of, kind="stable")
    first = np.searchsorted(of[order], rows)
    return [arrow[order[first + at]] for at in range(many)]


def _outer_first(track: Array, begin: Array, end: Array) -> Iterator[Array]:
    """All rows, each once: those that begin on a track when another does, that ends later, come in a later part."""
    order = np.lexsort((-end, begin, track))
    is_first = np.ones(len(order), np.bool_)
    is_first[1:] = (np.diff(track[order]) != 0) | (np.diff(begin[order]) != 0)
    at = np.flatnonzero(is_first)
    within = np.minimum(np.arange(len(order)) - at[np.cumsum(is_first) - 1], _DEEPEST)
    for depth in np.unique(within).tolist():
        rows = order[within == depth]
        yield rows[np.argsort(begin[rows], kind="stable")]
