"""A flame graph as one HTML file, drawn by d3-flame-graph in any browser; nothing is loaded from anywhere.

See :mod:`dotnetdiag.export.pages` for what keeps it safe. ``up[i]`` is from how many levels up node ``i`` hangs, counted from the node before it::

    {"kind": "profile"|"difference", "title": …, "root": …, "facts": [...], "unit": "ms", "scale": 0.001,
     "names": [...], "labels": [...], "code": [...],           methods; how boxes are labelled; index of their kind
     "codes": [...],                                           kinds of code, see :class:`Code`
     "frame": [...], "up": [...],                              nodes in the order of a walk, without the root
     "threads": [...], "states": [...], "hints": [...],        hints say what the states are
     "rows": {"node": [...], "key": [...], "value": [...]},    node: from that of the row before; key: thread and state
     "times": null|{"runs": [...], "gap": [...], "length": [...], "node": [...], "state": [...]}}

``times`` has the stacks of each thread in order of time: ``runs`` counts those of each thread, ``gap`` and ``length`` are
microseconds, and the first gap of a thread is from the start of the trace. It is null where samples have no length, or
where there are more than :data:`MOST_RUNS`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import IO, Any

import numpy as np

from dotnetdiag.analysis.diff import ProfileDiff
from dotnetdiag.analysis.filters import NATIVE, is_framework, is_of_framework
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.profile import MILLISECONDS, Array, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export.pages import Page
from dotnetdiag.export.sums import sums_of
from dotnetdiag.export.texts import frame_texts, plain, profile_only
from dotnetdiag.export.walk import Walk, runs, walk
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style

STATES = {
    State.NONE: ("no state", ""),
    State.CPU: ("running", "managed code ran, or the thread was on a processor"),
    State.UNMANAGED: ("waiting", "the thread was in native code, where the sampler cannot tell waiting from running"),
    State.BLOCKED: ("waiting", "the thread was off the processor"),
}
"""How the page calls a state, and what that means."""
MOST_RUNS = 1 << 16
"""Runs of equal stacks of all threads that are written in order of time: less than a megabyte."""
PAGE = Page(
    title="Flame graph",
    body="page/page.html",
    styles=["d3-flame-graph/d3-flamegraph.css", "page/page.css"],
    scripts=["d3/d3-selection.min.js", "d3-flame-graph/d3-flamegraph.min.js", "page/page.js"],
    notice="""<!-- d3-selection 3.0.0, (c) Mike Bostock, ISC licence: https://github.com/d3/d3-selection
     d3-flame-graph 4.1.3, (c) Martin Spier, Apache License 2.0: https://github.com/spiermar/d3-flame-graph -->
""",
)
_LONGEST_NAME = 80
_SCALE = 0.001
"""Milliseconds are written as whole microseconds; so are the thousandths of other weights that are no whole numbers."""


class Code(StrEnum):
    """What a frame's code belongs to: boxes are coloured by it."""

    PROGRAM = "program"
    FRAMEWORK = "framework"
    RUNTIME = "runtime"
    NATIVE = "native"
    UNKNOWN = "unknown"
    GROUP = "group"


_RUNTIME = re.compile(
    r"(lib)?(coreclr|clrjit|clrgc|clrgcexp|clrinterpreter|mscordaccore|mscordbi|hostfxr|hostpolicy)(\.so|\.dylib)?"
    r"|dotnet|memfd:doublemapper",
    re.IGNORECASE,
)
"""Modules of the runtime. What is mapped as the doublemapper and is no method is a stub of its JIT."""
_NATIVE = re.compile(r".*\.(so(\..*)?|dylib)|vmlinux|\[vdso\]", re.IGNORECASE)


def code_of(frame: Frame) -> Code:
    """What a frame's code belongs to, as far as its name and module tell; that of a group, as far as its name does."""
    if frame.kind is FrameKind.METHOD or frame.type_name:
        return Code.FRAMEWORK if is_framework(frame) else Code.PROGRAM
    is_group = frame.kind is FrameKind.PSEUDO
    module = frame.text.removesuffix(f" {NATIVE}") if is_group else frame.module
    if _RUNTIME.fullmatch(module):
        return Code.RUNTIME
    if _NATIVE.fullmatch(module):
        return Code.NATIVE
    is_managed = is_group or frame.module_path.lower().endswith((".dll", ".exe"))
    if is_managed and is_of_framework(module) and not module.startswith("["):
        return Code.FRAMEWORK
    if is_group:
        return Code.GROUP
    return Code.NATIVE if frame.kind is FrameKind.SYMBOL else Code.UNKNOWN


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write a profile or a difference."""
    if isinstance(result, ProfileDiff):
        data = _of_diff(result, style)
    else:
        data = _of_profile(profile_only(result, "flamegraph"), style)
    PAGE.write(data, file)


def _of_profile(profile: StackProfile, style: Style | None) -> dict[str, Any]:
    paths = walk(profile.tree, profile.used_nodes())
    place = _places(paths, len(profile.tree))
    sums = sums_of(profile)
    hints = dict(STATES[State(state)] for state in distinct(profile.state).tolist())
    names = list(hints)
    number = np.array([names.index(name) if name in names else 0 for name, _ in STATES.values()])
    key = sums.thread * max(len(names), 1) + number[sums.state]
    origin = profile.origin
    facts = [origin.command_line, f"{profile.name}, {profile.sampled:,} samples of {len(profile.threads):,} threads"]
    facts += _shortcomings(origin, profile.unresolved, len(profile.used_frames()))
    facts += profile.notes
    times = _times(profile, place, number)
    if times is not None and len(times["node"]) > MOST_RUNS:
        changes = f"{len(times['node']):,} changes of stack, of {MOST_RUNS:,} at most"
        facts.append(f"order of time is left out: {changes} (fewer threads or less time have it)")
        times = None
    return {
        "kind": "profile",
        "title": plain(": ".join(part for part in (_file_name(origin), profile.name) if part)),
        "root": "all",
        "facts": [plain(fact) for fact in facts if fact],
        "threads": [plain(thread.label) for thread in profile.threads],
        "states": names,
        "hints": list(hints.values()),
        **_tree(profile, paths, style),
        **_rows(place[sums.node], key, sums.weight, profile.unit),
        "times": times,
    }


def _times(profile: StackProfile, place: Array, number: Array) -> dict[str, Any] | None:
    """The stacks of each thread in order of time, in whole microseconds; None where no sample has a length."""
    states = len(number)
    value = place[profile.node] * states + number[profile.state]
    found = [
        runs(*(column[thread.rows.start : thread.rows.stop] for column in (profile.start_ns, profile.length_ns, value)))
        for thread in profile.threads
    ]
    counts = [len(begin) for begin, *_ in found]
    if not any(counts):
        return None
    gap, length = [], []
    for begin, end, _, goes_on in found:
        begin, end = np.rint(begin / 1e3).astype(np.int64), np.rint(end / 1e3).astype(np.int64)
        end[:-1] = np.where(goes_on[:-1], begin[1:], np.minimum(end[:-1], begin[1:]))
        gap.append(begin - np.append(0, end[:-1])[: len(begin)])
        length.append(end - begin)
    node, state = np.divmod(np.concatenate([values for _, _, values, _ in found]), states)
    columns = {"gap": np.concatenate(gap), "length": np.concatenate(length), "node": node, "state": state}
    return {"runs": counts, **{name: column.tolist() for name, column in columns.items()}}


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
        facts += [f"{label}: {origin.command_line}"] if origin.command_line else []
        facts += [f"{label}: {text}" for text in _shortcomings(origin)]
    return {
        "kind": "difference",
        "title": plain(f"{_file_name(other) or 'after'} against {_file_name(one) or 'before'}"),
        "root": "all",
        "facts": [plain(fact) for fact in facts],
        "threads": [],
        "states": [],
        "hints": [],
        **_tree(diff, paths, style),
        **_rows(_places(paths, len(diff.tree))[np.concatenate(nodes)], key, weights, diff.unit),
        "times": None,
    }


def _file_name(origin: Origin) -> str:
    """The file's name, short enough for a tab of a browser."""
    name = origin.name
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME // 2]}…{name[-_LONGEST_NAME // 2 :]}"


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
    codes = list(Code)
    return {
        "names": frame_texts(result, numbers, style),
        "labels": [label(frame) for frame in frames],
        "code": [codes.index(code_of(frame)) for frame in frames],
        "codes": codes,
        "frame": np.searchsorted(ids, paths.frame[1:]).tolist(),
        "up": (paths.depth[:-1] + 1 - paths.depth[1:]).tolist(),
    }


def label(frame: Frame) -> str:
    """The name as in C#, without the namespace."""
    name, namespace = frame.name(Style.SHORT), frame.namespace
    return plain(name.removeprefix(f"{namespace}.") if namespace else name)


def _places(paths: Walk, nodes: int) -> Array:
    """Where in a walk the nodes of a tree are; 0 for those that it leaves out."""
    place = np.zeros(nodes, np.int64)
    place[paths.node] = np.arange(len(paths))
    return place


def _rows(where: Array, key: Array, weight: Array, unit: str) -> dict[str, Any]:
    """The weights by place in the walk, in its order."""
    order = np.lexsort((key, where))
    whole = unit != MILLISECONDS and bool((weight == np.rint(weight)).all())
    value = np.rint(weight if whole else weight / _SCALE)
    columns = {"node": np.diff(where[order], prepend=0), "key": key[order], "value": value[order].astype(np.int64)}
    return {
        "unit": plain(unit),
        "scale": 1 if whole else _SCALE,
        "rows": {name: column.tolist() for name, column in columns.items()},
    }
