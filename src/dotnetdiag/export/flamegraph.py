"""A flame graph as one HTML file, drawn by d3-flame-graph in any browser; nothing is loaded from anywhere.

The data are JSON in ASCII in a script element of another type, with every ``<`` escaped, so that no name can end it; the
page's script sets names as text only; and a Content-Security-Policy lets the page's own scripts run, by their hashes,
and nothing else. ``up[i]`` is from how many levels up node ``i`` hangs, counted from the node before it::

    {"kind": "profile"|"difference", "title": …, "root": …, "facts": [...], "unit": "ms", "scale": 0.001,
     "names": [...], "labels": [...], "module": [...],         methods; how boxes are labelled; index of their modules
     "modules": [...], "framework": [...],                     the first is none; 1 for what comes with .NET
     "frame": [...], "up": [...],                              nodes in the order of a walk, without the root
     "threads": [...], "states": [...],
     "rows": {"node": [...], "key": [...], "value": [...]}}    node: from that of the row before; key: thread and state
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import IO, Any

import numpy as np

from dotnetdiag.analysis.diff import ProfileDiff
from dotnetdiag.analysis.filters import is_framework
from dotnetdiag.analysis.profile import MILLISECONDS, Array, Origin, StackProfile, State
from dotnetdiag.export.sums import sums_of
from dotnetdiag.export.texts import clean, frame_texts, profile_only
from dotnetdiag.export.walk import Walk, walk
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.symbols import Frame

STATES = {
    State.NONE: "no state",
    State.CPU: "running",
    State.UNMANAGED: "native code or waiting",
    State.BLOCKED: "off the processor",
}
_SCRIPTS = {
    "@D3@": "d3/d3-selection.min.js",
    "@FLAMEGRAPH@": "d3-flame-graph/d3-flamegraph.min.js",
    "@PAGE@": "page/page.js",
}
_STYLES = ("d3-flame-graph/d3-flamegraph.css", "page/page.css")
_SCALE = 0.001
"""Milliseconds are written as whole microseconds; so are the thousandths of other weights that are no whole numbers."""


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a profile or a difference."""
    if isinstance(result, ProfileDiff):
        data = _of_diff(result, style)
    else:
        data = _of_profile(profile_only(result, "flamegraph"), style)
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    before, after = page().split("@DATA@")
    file.write(before.encode("utf-8"))
    file.write(text.encode("ascii"))
    file.write(after.encode("utf-8"))


def page() -> str:
    """The page with everything but its data, which go to ``@DATA@``."""
    scripts = {mark: asset(name).strip() for mark, name in _SCRIPTS.items()}
    hashes = " ".join(f"'sha256-{_digest(script)}'" for script in scripts.values())
    parts = {"@SCRIPTS@": hashes, "@STYLE@": "\n".join(asset(name).strip() for name in _STYLES), **scripts}
    text = asset("page/page.html")
    for mark, part in parts.items():
        text = text.replace(mark, part, 1)
    return text


def asset(name: str) -> str:
    """A file of the package's assets."""
    return files("dotnetdiag.export").joinpath("assets", name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")


def _of_profile(profile: StackProfile, style: Style | None) -> dict[str, Any]:
    paths = walk(profile.tree, profile.used_nodes())
    sums = sums_of(profile)
    present = distinct(sums.state)
    key = sums.thread * max(len(present), 1) + np.searchsorted(present, sums.state)
    origin = profile.origin
    facts = [f"{profile.name}, {len(profile):,} samples of {len(profile.threads):,} threads"]
    facts += _shortcomings(origin, profile.unresolved, len(profile.used_frames()))
    facts += profile.notes
    return {
        "kind": "profile",
        "title": _title(origin) or profile.name,
        "root": "all",
        "facts": [clean(fact) for fact in facts],
        "threads": [clean(thread.label) for thread in profile.threads],
        "states": [STATES[State(state)] for state in present.tolist()],
        **_tree(profile, paths, style),
        **_rows(paths, len(profile.tree), sums.node, key, sums.weight, profile.unit),
    }


def _of_diff(diff: ProfileDiff, style: Style | None) -> dict[str, Any]:
    paths = walk(diff.tree, np.ones(len(diff.tree), np.bool_))
    nodes = [np.flatnonzero(weights) for weights in (diff.before, diff.after)]
    key = np.repeat([0, 1], [len(some) for some in nodes])
    weights = np.concatenate([diff.before[nodes[0]], diff.after[nodes[1]]])
    one, other = diff.before_origin, diff.after_origin
    facts = [f"{diff.total.before:,.2f} {diff.unit} before, {diff.total.after:,.2f} {diff.unit} after"]
    if diff.scale != 1.0:
        facts.append(f"after scaled by {diff.scale:.4f}")
    for label, origin in (("before", one), ("after", other)):
        facts += [f"{label}: {text}" for text in _shortcomings(origin)]
    return {
        "kind": "difference",
        "title": f"{_title(other) or 'after'} against {_title(one) or 'before'}",
        "root": "all",
        "facts": [clean(fact) for fact in facts],
        "threads": [],
        "states": [],
        **_tree(diff, paths, style),
        **_rows(paths, len(diff.tree), np.concatenate(nodes), key, weights, diff.unit),
    }


def _title(origin: Origin) -> str:
    return clean(" ".join(part for part in (origin.name, origin.command_line) if part))


def _shortcomings(origin: Origin, unresolved: int | None = None, frames: int = 0) -> list[str]:
    made = ["events lost: not known" if origin.lost is None else f"{origin.lost:,} of {origin.events:,} events lost"]
    if unresolved is not None:
        made.append(f"{unresolved:,} of {frames:,} methods unresolved")
    if not origin.complete:
        made.append(f"the trace is broken: {origin.damage}")
    return made


def _tree(result: StackProfile | ProfileDiff, paths: Walk, style: Style | None) -> dict[str, Sequence[Any]]:
    ids = distinct(paths.frame[1:])
    numbers = ids.tolist()
    frames = [result.frames[number] for number in numbers]
    modules, framework = {"": 0}, {"": False}
    module = [modules.setdefault(clean(frame.module), len(modules)) for frame in frames]
    framework.update((clean(frame.module), is_framework(frame)) for frame in frames if frame.module)
    return {
        "names": frame_texts(result, numbers, style),
        "labels": [label(frame) for frame in frames],
        "module": module,
        "modules": list(modules),
        "framework": [int(framework[name]) for name in modules],
        "frame": np.searchsorted(ids, paths.frame[1:]).tolist(),
        "up": (paths.depth[:-1] + 1 - paths.depth[1:]).tolist(),
    }


def label(frame: Frame) -> str:
    """The name as in C#, without the namespace."""
    name, namespace = frame.name(Style.SHORT), frame.namespace
    return clean(name.removeprefix(f"{namespace}.") if namespace else name)


def _rows(paths: Walk, nodes: int, node: Array, key: Array, weight: Array, unit: str) -> dict[str, Any]:
    """The weights by place in the walk, in its order."""
    place = np.zeros(nodes, np.int64)
    place[paths.node] = np.arange(len(paths))
    where = place[node]
    order = np.lexsort((key, where))
    whole = unit != MILLISECONDS and bool((weight == np.rint(weight)).all())
    value = np.rint(weight if whole else weight / _SCALE)
    columns = {"node": np.diff(where[order], prepend=0), "key": key[order], "value": value[order].astype(np.int64)}
    return {
        "unit": clean(unit),
        "scale": 1 if whole else _SCALE,
        "rows": {name: column.tolist() for name, column in columns.items()},
    }
