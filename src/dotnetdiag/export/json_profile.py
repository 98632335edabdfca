"""A profile as JSON, for programs of one's own: all stacks, with indices in the place of repetition.

::

    {"format": "dotnetdiag profile", "version": 1,
     "name": "Thread time", "unit": "ms", "total": 12.5, "from_ns": 0, "to_ns": 70000000, "period_ns": 1000000,
     "origin": {name, process_id, command_line, start, events, lost, complete, damage},
     "unresolved": 2, "notes": [...],
     "frames": [{name, kind, module, type, method}],               each method once
     "nodes": {"parent": [...], "frame": [...]},                   call paths: indices into nodes (-1: none) and frames
     "threads": [{thread_id, process_id, name, weight, samples}],
     "stacks": {"thread": [...], "state": [...], "node": [...], "weight": [...], "samples": [...]},
     "methods": {"frame": [...], "exclusive": [...], "inclusive": [...]}}     most exclusive weight first

A node of -1 is a sample without a stack. Of a difference there are ``before`` and ``after`` in the place of weights, per
node and per method.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import IO, Any

import numpy as np

from dotnetdiag.analysis.diff import Change, ProfileDiff
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.profile import Array, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export.sums import sums_of
from dotnetdiag.export.texts import clean, frame_texts, profile_only
from dotnetdiag.export.walk import Walk, walk
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.method_names import Style

FORMAT = "dotnetdiag profile"
DIFFERENCE = "dotnetdiag difference"
VERSION = 1


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a profile or a difference."""
    if isinstance(result, ProfileDiff):
        parts = _of_diff(result, style)
    else:
        parts = _of_profile(profile_only(result, "json"), style)
    begin = "{"
    for name, value in parts:
        file.write(f"{begin}{json.dumps(name)}:{json.dumps(_plain(value), separators=(',', ':'))}".encode("ascii"))
        begin = ",\n"
    file.write(b"}\n")


def _of_profile(profile: StackProfile, style: Style | None) -> Iterator[tuple[str, Any]]:
    paths = walk(profile.tree, profile.used_nodes())
    frames = distinct(paths.frame[1:])
    sums, by_method = sums_of(profile), profile.by_method()
    weights = profile.thread_weights()
    place = np.full(len(profile.tree), -1, np.int64)
    place[paths.node] = np.arange(-1, len(paths) - 1)
    yield from (("format", FORMAT), ("version", VERSION), ("name", profile.name), ("unit", profile.unit))
    yield from (("total", profile.total), ("from_ns", profile.from_ns), ("to_ns", profile.to_ns))
    yield from (("period_ns", profile.period_ns), ("origin", origin_of(profile.origin)))
    yield from (("unresolved", profile.unresolved), ("notes", profile.notes))
    yield "frames", _frames(profile, frames.tolist(), style)
    yield "nodes", _nodes(paths, frames)
    threads = zip(profile.threads, weights.tolist(), strict=True)
    yield (
        "threads",
        [
            {
                "thread_id": thread.thread_id,
                "process_id": thread.process_id,
                "name": thread.name,
                "weight": weight,
                "samples": len(thread.rows),
            }
            for thread, weight in threads
        ],
    )
    states = [state.name.lower() for state in State]
    yield (
        "stacks",
        {
            "thread": sums.thread,
            "state": [states[state] for state in sums.state.tolist()],
            "node": place[sums.node],
            "weight": sums.weight,
            "samples": sums.count,
        },
    )
    yield (
        "methods",
        {
            "frame": np.searchsorted(frames, by_method.frame),
            "exclusive": by_method.exclusive,
            "inclusive": by_method.inclusive,
        },
    )


def _of_diff(diff: ProfileDiff, style: Style | None) -> Iterator[tuple[str, Any]]:
    paths = walk(diff.tree, np.ones(len(diff.tree), np.bool_))
    frames = distinct(paths.frame[1:])
    yield from (("format", DIFFERENCE), ("version", VERSION), ("unit", diff.unit), ("total", _change(diff.total)))
    yield "scale", diff.scale
    yield from (("before", origin_of(diff.before_origin)), ("after", origin_of(diff.after_origin)))
    yield "frames", _frames(diff, frames.tolist(), style)
    own = {"before": diff.before[paths.node[1:]], "after": diff.after[paths.node[1:]]}
    yield "nodes", {**_nodes(paths, frames), **own}
    yield (
        "methods",
        [
            {
                "name": method.name,
                "module": method.frame.module,
                "exclusive": _change(method.exclusive),
                "inclusive": _change(method.inclusive),
            }
            for method in diff.methods
        ],
    )


def _nodes(paths: Walk, frames: Array) -> dict[str, Array]:
    return {"parent": paths.parent[1:] - 1, "frame": np.searchsorted(frames, paths.frame[1:])}


def _frames(result: StackProfile | ProfileDiff, ids: list[int], style: Style | None) -> list[dict[str, str]]:
    made = []
    for number, name in zip(ids, frame_texts(result, ids, style), strict=True):
        frame = result.frames[number]
        facts = {"kind": frame.kind.value, "module": frame.module, "type": frame.type_name, "method": frame.method}
        made.append({"name": name, **facts})
    return made


def _change(change: Change) -> dict[str, float | None]:
    return {"before": change.before, "after": change.after, "relative_percent": change.relative}


def origin_of(origin: Origin) -> dict[str, Any]:
    """Where a profile comes from, by the names of its fields."""
    return {name: getattr(origin, name) for name in Origin.__slots__ if name != "others"}


def _plain(value: Any) -> Any:
    """The same of what JSON has, with clean texts."""
    for kind, convert in _PLAIN.items():
        if isinstance(value, kind):
            return convert(value)
    return value


_PLAIN: dict[Any, Callable[[Any], Any]] = {
    str: clean,
    datetime: lambda value: value.isoformat(),
    np.ndarray: lambda value: value.tolist(),
    dict: lambda value: {name: _plain(one) for name, one in value.items()},
    (list, tuple): lambda value: [_plain(one) for one in value],
}
