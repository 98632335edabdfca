"""The Firefox Profiler's processed profile, for https://profiler.firefox.com
(https://github.com/firefox-devtools/profiler/blob/main/docs-developer/processed-profile-format.md): JSON, version 48, which later viewers read.

A thread has tables of its own: samples point into stacks, these into frames, these into functions, whose names are in the list of texts. What took
time or happened is a marker, with a duration or without; what is of a whole process stands on a line before its threads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import IO, Any

import numpy as np

from dotnetdiag import __version__
from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.filters import with_states
from dotnetdiag.analysis.profile import MILLISECONDS, STATE_FRAMES, Array, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.tracks import CounterTrack, Slices, Tracks, samples_only
from dotnetdiag.export.flamegraph import Code, code_of
from dotnetdiag.export.texts import clean, file_stem, frame_texts, profile_only, thread_names
from dotnetdiag.trace.method_names import Style

VERSION = 48
"""Of the processed format."""
GECKO_VERSION = 27
MARKER = "dotnet"
_WEIGHTS = {MILLISECONDS: "tracing-ms", "bytes": "bytes"}
_INSTANT, _INTERVAL = 0, 1
_CATEGORIES = {
    "Other": "grey",
    Code.PROGRAM: "green",
    Code.FRAMEWORK: "blue",
    Code.RUNTIME: "purple",
    Code.NATIVE: "orange",
    "waiting": "transparent",
    "GC": "yellow",
}
"""Categories and their colours; the viewer takes what is transparent for idle."""
_NUMBERS = {name: number for number, name in enumerate(_CATEGORIES)}
_PLACES = 6


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write tracks, or the samples of a profile."""
    tracks = result if isinstance(result, Tracks) else samples_only(profile_only(result, "firefox"))
    profile = with_states(profile_only(tracks.samples, "firefox"))
    frames = _Frames(profile, style)
    head = {"meta": _meta(tracks), "libs": [], "pages": [], "profilerOverhead": []}
    text = json.dumps(head, separators=(",", ":"), allow_nan=False)
    file.write(text.removesuffix("}").encode("ascii"))
    file.write(b',"threads":[')
    mains: dict[int, int] = {}
    for number, line in enumerate(_lines(tracks)):
        if line.is_main:
            mains[line.pid] = number
        thread = _thread(tracks, profile, frames, line)
        file.write(
            (b"," if number else b"") + json.dumps(thread, separators=(",", ":"), allow_nan=False).encode("ascii")
        )
    counters = [_counter(one, mains) for one in tracks.counters if one.unit == "bytes" and one.pid in mains]
    file.write(b'],"counters":' + json.dumps(counters, separators=(",", ":"), allow_nan=False).encode("ascii") + b"}\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Line:
    """What becomes a thread: one of the recording, or (``is_main``) the line of a process. ``place`` is that in the profile."""

    pid: int
    tid: int
    name: str
    is_main: bool
    place: int | None
    markers: Sequence[tuple[Slices, Array]]


def _lines(tracks: Tracks) -> list[_Line]:
    """Process by process, the line of it first, and then its threads with samples or markers."""
    default = tracks.samples.origin.process_id or 0
    places = {(one.process_id or default, one.thread_id): at for at, one in enumerate(tracks.samples.threads)}
    names = {(pid or default, tid): name for (pid, tid), name in thread_names(tracks).items()}
    found: dict[tuple[int, int, bool], list[tuple[Slices, Array]]] = {}
    for pid, tid in places:
        found.setdefault((pid, tid, False), [])
    for slices in tracks.slices:
        pids = np.where(slices.pid > 0, slices.pid, default)
        keys = np.stack([pids, slices.tid if slices.of_threads else np.zeros_like(pids)], axis=1)
        owners, which = np.unique(keys, axis=0, return_inverse=True)
        for place, (pid, tid) in enumerate(owners.tolist()):
            rows = np.flatnonzero(which.reshape(-1) == place)
            key = (pid, tid if slices.of_threads else pid, not slices.of_threads)
            found.setdefault(key, []).append((slices, rows[np.argsort(slices.start_ns[rows], kind="stable")]))
    for pid in {pid for pid, *_ in found} | {one.pid for one in tracks.counters if one.pid is not None}:
        found.setdefault((pid, pid, True), [])
    if not found:  # the profiler refuses what has no thread
        found[default, default, True] = []
    name = file_stem(clean(tracks.samples.origin.name)) or "process"
    return [
        _Line(
            pid=pid,
            tid=tid,
            name=name if is_main else names.get((pid, tid)) or f"Thread {tid}",
            is_main=is_main,
            place=None if is_main else places.get((pid, tid)),
            markers=found[pid, tid, is_main],
        )
        for pid, tid, is_main in sorted(found, key=lambda one: (one[0], not one[2], one[1]))
    ]


class _Frames:
    """Names, modules and categories of frames, by id."""

    def __init__(self, profile: StackProfile, style: Style | None) -> None:
        ids = profile.used_frames().tolist()
        waiting = {STATE_FRAMES[State.UNMANAGED], STATE_FRAMES[State.BLOCKED]}
        self.names = dict(zip(ids, frame_texts(profile, ids, style), strict=True))
        self.modules, self.categories = {}, {}
        for one in ids:
            frame = profile.frames[one]
            self.modules[one] = clean(frame.module)
            own = "waiting" if self.names[one] in waiting else code_of(frame)
            self.categories[one] = _NUMBERS.get(own, 0)


def _thread(tracks: Tracks, profile: StackProfile, frames: _Frames, line: _Line) -> dict[str, Any]:
    strings: dict[str, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    if line.place is None:
        samples, stacks, ids = _no_samples(profile), _no_stacks(), list[int]()
    else:
        samples, stacks, ids = _samples(profile, frames, line.place)
    count, modules = len(ids), [frames.modules[one] for one in ids]
    resources = list(dict.fromkeys(one for one in modules if one))
    nothing, zeros = [None] * count, [0] * count
    made = {
        "processType": "default",
        "processName": clean(tracks.samples.origin.command_line_of(line.pid)) or "process",
        "processStartupTime": 0,
        "processShutdownTime": None,
        "registerTime": 0,
        "unregisterTime": None,
        "pausedRanges": [],
        "name": clean(line.name),
        "isMainThread": line.is_main,
        "pid": str(line.pid),
        "tid": line.tid,
        "showMarkersInTimeline": line.is_main,
        "samples": samples,
        "markers": _markers(line.markers, text),
        "stackTable": {**stacks, "subcategory": [0] * len(stacks["prefix"])},
        "frameTable": {
            "length": count,
            "address": [-1] * count,
            "inlineDepth": zeros,
            "category": [frames.categories[one] for one in ids],
            "subcategory": zeros,
            "func": list(range(count)),
            "nativeSymbol": nothing,
            "innerWindowID": zeros,
            "implementation": nothing,
            "line": nothing,
            "column": nothing,
        },
        "funcTable": {
            "length": count,
            "name": [text(frames.names[one]) for one in ids],
            "isJS": [False] * count,
            "relevantForJS": [False] * count,
            "resource": [resources.index(one) if one else -1 for one in modules],
            "fileName": nothing,
            "lineNumber": nothing,
            "columnNumber": nothing,
        },
        "resourceTable": {
            "length": len(resources),
            "lib": [None] * len(resources),
            "name": [text(one) for one in resources],
            "host": [None] * len(resources),
            "type": [1] * len(resources),
        },
        "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
    }
    return {**made, "stringArray": list(strings)}


def _no_stacks() -> dict[str, Any]:
    return {"length": 0, "prefix": [], "frame": [], "category": []}


def _no_samples(profile: StackProfile) -> dict[str, Any]:
    kind = _WEIGHTS.get(profile.unit, "samples")
    return {"length": 0, "stack": [], "time": [], "weight": [], "weightType": kind}


def _samples(profile: StackProfile, frames: _Frames, place: int) -> tuple[dict[str, Any], dict[str, Any], list[int]]:
    """The samples of a thread, its stacks, and the ids of their frames."""
    span = profile.threads[place].rows
    rows = slice(span.start, span.stop)
    tree, node = profile.tree, profile.node[rows]
    level = np.unique(node[node > 0])
    levels = [level]
    known = np.zeros(0, np.int64)
    while len(level):
        known = np.union1d(known, level)
        level = np.setdiff1d(tree.parent[level], known)
        level = level[level > 0]
        levels.append(level)
    parent, frame = tree.parent[known], tree.frame[known]
    ids, which = np.unique(frame, return_inverse=True)
    prefix = np.searchsorted(known, parent)
    own = ids.tolist()
    categories = np.array([frames.categories[one] for one in own], np.int64)
    stacks = {
        "length": len(known),
        "prefix": [at if above > 0 else None for at, above in zip(prefix.tolist(), parent.tolist(), strict=True)],
        "frame": which.reshape(-1).tolist(),
        "category": categories[which.reshape(-1)].tolist() if own else [],
    }
    at = np.searchsorted(known, node)
    samples = {
        "length": len(node),
        "stack": [one if leaf else None for one, leaf in zip(at.tolist(), node.tolist(), strict=True)],
        "time": np.round(profile.start_ns[rows] / 1e6, _PLACES).tolist(),
        "weight": np.round(profile.weight[rows], _PLACES).tolist(),
        "weightType": _WEIGHTS.get(profile.unit, "samples"),
    }
    return samples, stacks, own


def _markers(markers: Sequence[tuple[Slices, Array]], text: Any) -> dict[str, Any]:
    made: dict[str, list[Any]] = {key: [] for key in ("name", "startTime", "endTime", "phase", "category", "data")}
    for slices, rows in markers:
        start, end = slices.start_ns[rows], slices.end_ns[rows]
        is_long = end > start
        made["name"] += [text(slices.kind)] * len(rows)
        made["startTime"] += (start / 1e6).tolist()
        made["endTime"] += [at if one else None for at, one in zip((end / 1e6).tolist(), is_long.tolist(), strict=True)]
        made["phase"] += np.where(is_long, _INTERVAL, _INSTANT).tolist()
        made["category"] += [_NUMBERS["GC"] if slices.kind.startswith("GC") else 0] * len(rows)
        labels, details = ([*map(clean, one.texts), ""] for one in (slices.label, slices.detail))
        columns = (slices.label.number[rows].tolist(), slices.detail.number[rows].tolist())
        # -1 is the last, which says nothing
        made["data"] += [
            {"type": MARKER, "name": labels[one] or slices.kind, "detail": details[other]}
            for one, other in zip(*columns, strict=True)
        ]
    return {"length": len(made["name"]), **made}


def _counter(one: CounterTrack, mains: dict[int, int]) -> dict[str, Any]:
    """A size over time, as the viewer has it: by how much it changed."""
    return {
        "name": clean(one.name),
        "category": "Memory",
        "description": clean(one.name),
        "pid": str(one.pid),
        "mainThreadIndex": mains[one.pid or 0],
        "samples": {
            "length": len(one.ns),
            "time": (one.ns / 1e6).tolist(),
            "count": np.diff(np.clip(one.values, -1e300, 1e300), prepend=0.0).tolist(),
        },
    }


def _meta(tracks: Tracks) -> dict[str, Any]:
    profile = tracks.samples
    origin = profile.origin
    fields = [{"key": key, "label": key.title(), "format": "string", "searchable": True} for key in ("name", "detail")]
    return {
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "product": file_stem(clean(origin.name)) or profile.name,
        "importedFrom": f"dotnetdiag {__version__}",
        "interval": (profile.period_ns or 1_000_000) / 1e6,
        "startTime": origin.start.timestamp() * 1e3 if origin.start is not None else 0,
        "processType": 0,
        "stackwalk": 1,
        "debug": False,
        "symbolicated": True,
        "usesOnlyOneStackType": True,
        "doesNotUseFrameImplementation": True,
        "sourceCodeIsNotOnSearchfox": True,
        "extensions": {"length": 0, "id": [], "name": [], "baseURL": []},
        "categories": [
            {"name": str(name), "color": color, "subcategories": ["Other"]} for name, color in _CATEGORIES.items()
        ],
        "sampleUnits": {"time": "ms", "eventDelay": "ms", "threadCPUDelta": "ns"},
        "markerSchema": [
            {
                "name": MARKER,
                "display": ["marker-chart", "marker-table", "timeline-overview"],
                "tooltipLabel": "{marker.name}: {marker.data.name}",
                "tableLabel": "{marker.data.name} {marker.data.detail}",
                "chartLabel": "{marker.data.name}",
                "data": fields,
            }
        ],
    }
