"""The chains of awaits: what awaits what, from one that nothing awaits on, and the stacks of methods that they are."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.answers import number, told_number, whole
from dotnetdiag.analysis.await_rows import AwaitRows
from dotnetdiag.analysis.profile import MILLISECONDS
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.events import Column, Scalar
from dotnetdiag.events.columns import Text
from dotnetdiag.events.layout import Kind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import NO_FRAME, StackTree

Array: TypeAlias = "np.ndarray[Any, Any]"

CHAINS = 1000
"""The longest, of which it is told who awaited what."""
NAMED = 64
"""Awaits of a chain that are named: of longer ones the first and the last."""
SEPARATOR = " > "
UNKNOWN = "?"


def chain_begins(awaits: AwaitRows) -> tuple[int, Array]:
    """How many chains there are, and where the longest begin, that first. What begins one: awaits that have ended and that nothing awaits,
    or only what has not ended (as Main has not, of a program that runs); and those without an end that await nothing.
    """
    count, longest = 0, np.zeros(0, np.int64)
    for some in awaits.held.slices():
        caller, is_known = awaits.caller[some], ~np.isnan(awaits.duration[some])
        is_below_end = caller >= 0
        is_below_end[is_below_end] = ~np.isnan(awaits.duration[caller[is_below_end]])
        begins = some.start + np.flatnonzero(np.where(is_known, ~is_below_end, ~awaits.has_below[some]))
        count += len(begins)
        longest = np.append(longest, begins)
        taken = awaits.duration[longest]
        order = np.lexsort((longest, -np.nan_to_num(taken), np.isnan(taken)))
        longest = longest[order[:CHAINS]]
    return count, longest


def chain_columns(awaits: AwaitRows, roots: Array) -> dict[str, Column]:
    """Of the table of chains that begin there: in each, what awaits the begin, and the await that took longest of those below."""
    caller = awaits.caller
    longest = awaits.held.zeros("i4")  # of each the row behind the one that took longest, 0 for none
    for some in awaits.held.slices():
        has = some.start + np.flatnonzero(caller[some] >= 0)
        lasted = awaits.lasted(has)
        order = np.argsort(lasted, kind="stable")
        has, lasted = has[order], lasted[order]
        before = longest[caller[has]]
        is_longer = before == 0
        is_longer[~is_longer] = awaits.lasted(before[~is_longer] - 1) <= lasted[~is_longer]
        longest[caller[has[is_longer]]] = has[is_longer] + 1  # the last one stands: the one that took longest
    chains: list[str | None] = []
    depths = []
    for row in roots.tolist():
        chain = [row]
        while caller[chain[0]] >= 0:
            chain.insert(0, int(caller[chain[0]]))
        ways = set[int]()  # tasks of damaged files may await each other
        while (way := int(awaits.first[chain[-1]])) not in ways and longest[way]:
            ways.add(way)
            chain.append(int(longest[way]) - 1)
        depths.append(len(chain))
        more = len(chain) - NAMED
        named = chain if more <= 0 else chain[: NAMED // 2] + chain[-(NAMED // 2) :]
        ids = awaits.method_ids[awaits.method[named]].tolist()
        names = [awaits.frames.name(one, Style.SOURCE) if one >= 0 else UNKNOWN for one in ids]
        if more > 0:
            names.insert(NAMED // 2, f"{more:,} more")
        chains.append(SEPARATOR.join(names))
    return {
        "start_ms": Scalar(awaits.made.rows.gather("ms", roots), None, Kind.F8),
        "duration_ms": number(awaits.taken(awaits.duration, roots)),
        "pid": whole(awaits.pids[awaits.taken(awaits.process, roots)]),
        "task": told_number(awaits.made.rows.gather("TaskID", roots)),
        "depth": whole(np.array(depths, np.int64)),
        "chain": Text.from_pylist(chains),
    }


def logical_stacks(awaits: AwaitRows, own_ms: Array) -> StackProfile:
    """The stacks of callers in the place of those of threads: a node for each way of methods, level by level."""
    caller, depth, frame = awaits.caller, awaits.depth, awaits.method_ids[awaits.method]
    node = np.zeros(len(caller), np.int64)
    parents, frames = [np.full(1, -1, np.int64)], [np.full(1, NO_FRAME, np.int64)]
    count = 1
    for level in range(1, int(depth.max(initial=0)) + 1):
        rows = np.flatnonzero(depth == level)
        above = np.where(caller[rows] >= 0, node[caller[rows]], 0)
        told = frame[rows] >= 0
        node[rows[~told]] = above[~told]
        if not told.any():
            continue
        ways, which = np.unique(np.stack([above[told], frame[rows[told]]]), axis=1, return_inverse=True)
        node[rows[told]] = count + which.reshape(-1)
        parents.append(ways[0])
        frames.append(ways[1])
        count += ways.shape[1]
    made = awaits.made
    plain = made.stacks.profile(made.name, MILLISECONDS, weight=np.arange(len(caller)), state=made.state)
    row = plain.weight.astype(np.int64)
    awaits.held.release()
    return replace(
        plain,
        tree=StackTree(np.concatenate(parents).astype(np.int32), np.concatenate(frames).astype(np.int32)),
        frames=awaits.frames,
        node=node[row].astype(np.int32),
        weight=own_ms[row],
    )
