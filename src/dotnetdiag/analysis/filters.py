"""What a profile shows: times, threads, states, stacks with some frame, frames hidden or taken together.

Each is a function of a profile to a profile, and may follow any other. A pattern is a regular expression, searched
without regard to case in the full name of a frame (``module!Namespace.Type.Method(parameters)``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum

import numpy as np

from dotnetdiag._dataclasses import replace
from dotnetdiag.analysis.frames import Frames, pseudo
from dotnetdiag.analysis.nameless import are_nameless
from dotnetdiag.analysis.profile import MILLISECONDS, STATE_FRAMES, Array, P, Profile, State
from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.header import nothing_after
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import NO_FRAME, StackTree

UNKNOWN = "?"
"""The group of frames of which nothing is known."""
GLOBAL_NAMESPACE = "(global namespace)"
NATIVE = "(native)"
_LONGEST_S = 4e9  # more than a century, in nanoseconds half of 64 bits

_FRAMEWORK = (
    r"(?i)System(\..*)?|Microsoft\..*|mscorlib|netstandard|WindowsBase|Presentation(Core|Framework)"
    r"|lib(coreclr|clrjit|hostfxr|hostpolicy|System\..*)\.(so|dylib)|(coreclr|clrjit|hostfxr|hostpolicy)"
    r"|dotnet|libc(-[\d.]+)?\.so.*|libstdc\+\+\.so.*|libpthread.*|ld-.*|vmlinux|\[.*\]"
)
"""Modules that come with .NET and the system, by their whole name. Compiled when it is asked for the first time, which takes 0.5 ms."""


class Group(StrEnum):
    """What frames are taken together by."""

    METHOD = "method"
    MODULE = "module"
    NAMESPACE = "namespace"
    THREAD = "thread"


# some of the samples --------------------------------------------------------------------------------------------------


def between(profile: P, from_s: float | None = None, to_s: float | None = None) -> P:
    """Seconds since the start of the trace, half-open, None: open.

    Samples over an edge are cut there, and their time with them; counted ones (and bytes) belong to where they begin. UsageError for
    a time that ends before it begins, is after all samples, or is no number.
    """
    first = profile.from_ns if from_s is None else _nanoseconds(from_s)
    last = profile.to_ns + 1 if to_s is None else _nanoseconds(to_s)
    if not len(profile) and (to_s is None or first <= last):
        return profile
    if first > profile.to_ns and (to_s is None or to_s >= first / 1e9):
        raise nothing_after(first, f"the samples of {profile.origin.name or 'the trace'} end", profile.to_ns)
    if first > last:
        raise UsageError(f"a time from {first / 1e9:g} s to {last / 1e9:g} s")
    bounds = {"from_ns": max(first, profile.from_ns), "to_ns": min(last, profile.to_ns)}
    start = np.maximum(profile.start_ns, first)
    end = np.minimum(profile.start_ns + profile.length_ns, last)
    begins = (profile.start_ns >= first) & (profile.start_ns < last)
    length = np.maximum(end - start, 0)
    said = f"is from {first / 1e9:g} s to {last / 1e9:g} s"
    if profile.unit != MILLISECONDS:
        keep = begins
        return profile.take(keep, said, length_ns=length[keep], **bounds)
    keep = (length > 0) | (begins & (profile.length_ns == 0))
    share = np.ones(len(profile))
    np.divide(length, profile.length_ns, out=share, where=profile.length_ns > 0)
    return profile.take(
        keep, said, start_ns=start[keep], length_ns=length[keep], weight=(profile.weight * share)[keep], **bounds
    )


def _nanoseconds(seconds: float) -> int:
    """At most what 64 bits hold, with room for a sum."""
    if math.isnan(seconds):
        raise UsageError("a time that is no number")
    return round(min(max(seconds, -_LONGEST_S), _LONGEST_S) * 1e9)


def of_threads(profile: P, wanted: Iterable[int | str]) -> P:
    """Threads by id, or by a part of their name. UsageError when one is not there."""
    chosen: set[int] = set()
    for one in wanted:
        text = str(one).strip()
        found = [
            index
            for index, thread in enumerate(profile.threads)
            if text == str(thread.thread_id)
            or (text and not text.isdigit() and text.lower() in f"{thread.name} {thread.label}".lower())
        ]
        if not found:
            known = ", ".join(str(thread.thread_id) for thread in profile.threads[:8])
            more = ", ..." if len(profile.threads) > 8 else ""
            raise UsageError(f"no samples of a thread {text!r}; there are {known or 'none'}{more}")
        chosen.update(found)
    mask = np.zeros(len(profile.threads), np.bool_)
    mask[list(chosen)] = True
    return profile.take(mask[profile.thread])


def in_states(profile: P, *states: State) -> P:
    """Samples in some states only; what ran, so long as it may have (``running.without_idle``)."""
    if State.CPU in states:
        from dotnetdiag.analysis.running import without_idle

        profile = without_idle(profile)
    said = f"is in the state {' or '.join(state.name.lower() for state in states)}"
    return profile.take(np.isin(profile.state, np.array(states, np.uint8)), said)


def focus(profile: P, pattern: str) -> P:
    """Samples with a frame that matches anywhere in the stack."""
    said = f"has a frame that matches {pattern!r}"
    return profile.take(_below(profile.tree, _matching(profile, pattern))[profile.node], said)


def ignore(profile: P, pattern: str) -> P:
    """Samples without such a frame."""
    said = f"has no frame that matches {pattern!r}"
    return profile.take(~_below(profile.tree, _matching(profile, pattern))[profile.node], said)


def _matching(profile: Profile, pattern: str) -> Array:
    """A mask of the frames whose full name matches; only those that occur are looked at."""
    expression = _compiled(pattern)
    return _frame_mask(profile, lambda frame: expression.search(frame.name()) is not None)


def _frame_mask(profile: Profile, test: Callable[[Frame], bool]) -> Array:
    mask = np.zeros(len(profile.frames), np.bool_)
    for number in profile.used_frames().tolist():
        mask[number] = test(profile.frames[number])
    return mask


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, RecursionError, OverflowError) as error:
        position = getattr(error, "pos", None)
        raise GrammarError("pattern", pattern, position or 0, getattr(error, "msg", str(error))) from error


def _below(tree: StackTree, frames: Array) -> Array:
    """A mask of the nodes that have such a frame, or are below one: parents are asked twice as far away each time."""
    marks = np.zeros(len(tree), np.bool_)
    marks[1:] = frames[tree.frame[1:]]
    ancestor = np.maximum(tree.parent, 0)
    while ancestor.any():
        marks |= marks[ancestor]
        ancestor = ancestor[ancestor]
    return marks


# other frames ---------------------------------------------------------------------------------------------------------


def fold_recursion(profile: P) -> P:
    """A method that calls itself at once is one frame."""
    return _mapped(profile, np.arange(len(profile.frames), dtype=np.int32), merge=True)


def hide(profile: P, pattern: str) -> P:
    """Frames that match are left out; their time goes to what called them."""
    return _without(profile, _matching(profile, pattern))


def hide_frame(profile: P, frame: int) -> P:
    """A frame by its number is left out."""
    return _without(profile, np.arange(len(profile.frames)) == frame)


def hide_framework(profile: P) -> P:
    """Frames of .NET and the system are left out: their time goes to the program's methods that called them."""
    return _without(profile, _frame_mask(profile, is_framework))


def hide_nameless(profile: P) -> P:
    """Addresses of which nothing is known are left out, such as the stubs through which .NET calls by reflection."""
    used, mask = profile.used_frames(), np.zeros(len(profile.frames), np.bool_)
    mask[used] = are_nameless(used, profile.frames)
    return _without(profile, mask) if mask.any() else profile


def hide_tracing(profile: P) -> P:
    """Methods of .NET that write events are left out: whose stack an event has called them."""
    return _without(profile, _frame_mask(profile, is_tracing))


def is_tracing(frame: Frame) -> bool:
    """Whether it is one of .NET's that write events, for who records."""
    return is_framework(frame) and frame.namespace.startswith("System.Diagnostics.Tracing")


_CORE = ("System.Private.CoreLib", "mscorlib")
_DISPATCH = ("System.Runtime.EH.",)
"""What looks for who catches: since .NET 9 a part of .NET's core."""
_RETHROW = ("System.Runtime.ExceptionServices.ExceptionDispatchInfo.Throw",)
_MACHINERY = (
    *_DISPATCH,
    "System.Threading.CountdownEvent.",
    "System.Threading.Lock.",
    "System.Threading.LowLevel",
    "System.Threading.ManualResetEventSlim.",
    "System.Threading.Monitor.",
    "System.Threading.SemaphoreSlim.",
    "System.Threading.SpinWait.",
    "System.Threading.Tasks.Task.InternalWait",
    "System.Threading.Tasks.Task.SpinThenBlockingWait",
    "System.Threading.Tasks.Task.Wait",
    "System.Threading.Thread.Join",
    "System.Threading.Thread.Sleep",
    "System.Threading.WaitHandle.",
)
"""What takes a lock, waits, or looks for who catches, of .NET's core: how the names of methods begin."""
_THROWS = ("Throw", "<Throw")
"""Methods that throw for others: ``ThrowHelper.ThrowArgumentNullException``, ``ThrowIfNull``, ``ExceptionDispatchInfo.Throw``."""


def hide_machinery(profile: P) -> P:
    """Methods of .NET that take a lock, wait, or throw for others are left out: somebody has called them."""
    return _without(profile, _frame_mask(profile, _is_machinery))


def _is_machinery(frame: Frame) -> bool:
    if not is_framework(frame):
        return False
    return _is_of_core(frame, _MACHINERY) or frame.method.startswith(_THROWS)


def _is_of_core(frame: Frame, begins: tuple[str, ...]) -> bool:
    return frame.module in _CORE and f"{frame.type_name}.{frame.method}".startswith(begins)


NO_NAME, NO_FRAMES = -1, -2
"""Why :func:`are_rethrown` does not know."""


def are_rethrown(profile: Profile) -> Array:
    """Of each sample whether its stack begins where .NET throws an exception that somebody has kept, as each await of a task that failed does: 1 or
    0, or below 0 where that is not told.
    """
    part = _without(profile, _frame_mask(profile, lambda frame: _is_of_core(frame, _DISPATCH)))
    frame = part.tree.frame[part.node]
    mask = _frame_mask(part, lambda frame: _is_of_core(frame, _RETHROW))
    made = np.append(mask, False)[frame].astype(np.int8)
    made[are_nameless(frame, part.frames)] = NO_NAME
    made[frame < 0] = NO_FRAMES
    return made


_TRIES = ("System.Threading.Lock.TryEnter_Outlined",)
"""By way of this, and not of Enter or a lock statement, .NET 9 and later wait for a System.Threading.Lock for a while."""


def are_tries(profile: Profile) -> Array:
    """Of each sample whether its stack waits for a lock for a while, and may go on without it."""
    return _below(profile.tree, _frame_mask(profile, lambda frame: _is_of_core(frame, _TRIES)))[profile.node]


_PLUMBING = (
    "System.Runtime.CompilerServices.",
    "System.Threading.ExecutionContext",
    "System.Threading.PortableThreadPool+WorkerThread",
    "System.Threading.QueueUserWorkItem",
    "System.Threading.Tasks.",
    "System.Threading.Thread+StartHelper",
    "System.Threading.Thread.StartCallback",
    "System.Threading.ThreadHelper",
    "System.Threading.ThreadPool",
)
"""What queues work, goes on with it when what it awaits is done, and begins threads, likewise."""
_IDLE = ("System.Threading.PortableThreadPool+WorkerThread", "System.Threading.LowLevelLifoSemaphore")
_SLEEPS = ("System.Threading.Thread.Join", "System.Threading.Thread.Sleep", "System.Threading.WaitHandle.")
_STARTS = ("System.Threading.Thread.StartCore",)
_DYNAMIC = "dynamicClass"
"""The type of methods that were made while the program ran, such as those that ASP.NET calls an endpoint by."""


def hide_plumbing(profile: P) -> P:
    """Methods of .NET that queue work, go on with tasks or begin threads are left out: of work in a queue, or an await, somebody has called them.
    So are methods that were made while the program ran.
    """
    return _without(profile, _frame_mask(profile, _is_plumbing))


def _is_plumbing(frame: Frame) -> bool:
    return frame.type_name == _DYNAMIC or _is_of_core(frame, _PLUMBING)


def is_idle_worker(frame: Frame) -> bool:
    """Whether a thread of the pool waits for work there."""
    return _is_of_core(frame, _IDLE)


def is_poll(frame: Frame) -> bool:
    """Whether a thread stands still there for the collector, or for who samples it, and goes on."""
    return frame.type_name == "System.Threading.Thread" and "PollGC" in frame.method and frame.module in _CORE


def is_sleep(frame: Frame) -> bool:
    """Whether a thread waits there, and does nothing else: the sampler that stops it as it wakes says that it runs."""
    return _is_of_core(frame, _SLEEPS)


def is_start(frame: Frame) -> bool:
    """Whether a thread waits there for another one to begin, of which the runtime says that it runs."""
    return _is_of_core(frame, _STARTS)


def hide_polls(profile: P) -> P:
    """The places where threads stand still for the sampler are left out: time is of what ran before."""
    return _without(profile, _frame_mask(profile, is_poll))


def is_of_framework(module: str) -> bool:
    """Whether a module by that name comes with .NET or the system."""
    return re.fullmatch(_FRAMEWORK, module) is not None


def is_framework(frame: Frame) -> bool:
    """Whether a frame's module comes with .NET or the system; where no event names the module, as in a recording that breaks off, its namespace."""
    return frame.kind is not FrameKind.PSEUDO and is_of_framework(frame.module or frame.namespace)


def _without(profile: P, mask: Array) -> P:
    return _mapped(profile, np.where(mask, NO_FRAME, np.arange(len(mask))), merge=False)


def _mapped(profile: P, new_frame: Array, *, merge: bool, frames: Frames | None = None) -> P:
    tree, new_node = profile.tree.map_frames(new_frame, merge=merge)
    return replace(profile, tree=tree, node=new_node[profile.node], frames=frames or profile.frames)


def group_by(profile: P, group: str) -> P:
    """Frames by what they belong to: a call within the group is no frame of its own. ``method`` changes nothing.

    By ``thread`` each sample has one frame, its thread.
    """
    try:
        kind = Group(group)
    except ValueError as error:
        raise UsageError(f"groups by {group!r}: one of {', '.join(Group)}") from error
    if kind is Group.METHOD:
        return profile
    if kind is Group.THREAD:
        frames = profile.frames.extended([pseudo(thread.label) for thread in profile.threads])
        first = len(profile.frames)
        count = len(profile.threads)
        parent = np.zeros(count + 1, np.int32)
        frame = np.arange(first - 1, first + count, dtype=np.int32)
        parent[0] = frame[0] = NO_FRAME
        return replace(profile, tree=StackTree(parent, frame), node=profile.thread + np.int32(1), frames=frames)
    return _grouped(profile, module_of if kind is Group.MODULE else namespace_of, merge=True)


def module_of(frame: Frame) -> str:
    """The group of a frame by module."""
    return frame.text if frame.kind is FrameKind.PSEUDO else frame.module or UNKNOWN


def namespace_of(frame: Frame) -> str:
    """The group of a frame by namespace; native code by its module."""
    if frame.kind is FrameKind.PSEUDO:
        return frame.text
    if frame.type_name:
        return frame.namespace or GLOBAL_NAMESPACE
    if frame.kind is FrameKind.METHOD:
        return GLOBAL_NAMESPACE
    return f"{frame.module} {NATIVE}" if frame.module else UNKNOWN


def _grouped(profile: P, key: Callable[[Frame], str], *, merge: bool) -> P:
    texts: dict[str, int] = {}
    new_frame = np.full(len(profile.frames), NO_FRAME, np.int32)
    first = len(profile.frames)
    for number in profile.used_frames().tolist():
        new_frame[number] = first + texts.setdefault(key(profile.frames[number]), len(texts))
    frames = profile.frames.extended([pseudo(text) for text in texts])
    return _mapped(profile, new_frame, merge=merge, frames=frames)


def without_tiers(profile: P) -> P:
    """Code of one method in several tiers is one frame, as it is where the runtime names it."""
    codes: dict[str, list[int]] = {}
    for number in profile.frames.tiered:
        codes.setdefault(profile.frames.name(number), []).append(number)
    several = [numbers for numbers in codes.values() if len(numbers) > 1]
    if not several:
        return profile
    new_frame = np.arange(len(profile.frames), dtype=np.int32)
    methods: list[Frame] = []
    for numbers in several:
        new_frame[numbers] = len(profile.frames) + len(methods)
        first: Frame = profile.frames[numbers[0]]
        methods.append(replace(first, text=first.text.removesuffix(f"[{first.tier}]"), tier=""))
    return _mapped(profile, new_frame, merge=False, frames=profile.frames.extended(methods))


def named(profile: P, style: Style) -> P:
    """Methods that print alike in a style are one, such as overloads in ``SHORT``, and lambdas in ``SOURCE``."""
    if style in (Style.FULL, Style.TRACEEVENT):
        return profile
    firsts: dict[str, int] = {}
    new_frame = np.full(len(profile.frames), NO_FRAME, np.int32)
    for number in profile.used_frames().tolist():
        frame: Frame = profile.frames[number]
        new_frame[number] = (
            number if frame.kind is FrameKind.UNRESOLVED else firsts.setdefault(frame.name(style), number)
        )
    return _mapped(profile, new_frame, merge=False)


def invert(profile: P) -> P:
    """Stacks from their leaves to their roots: what calls a method stands below it."""
    leaves, which = _distinct(profile.node, len(profile.tree))
    tree, nodes = profile.tree.inverted(leaves)
    return replace(profile, tree=tree, node=nodes[which].astype(np.int32, copy=False))


def _distinct(numbers: Array, limit: int) -> tuple[Array, Array]:
    """Distinct small numbers, ascending, and the place of each."""
    if limit > 1 << 24:
        values, which = np.unique(numbers, return_inverse=True)
        return values, which.reshape(-1)
    there = np.zeros(limit, np.bool_)
    there[numbers] = True
    values = np.flatnonzero(there)
    place = np.zeros(limit, np.int32)
    place[values] = np.arange(len(values))
    return values, place[numbers]


# frames that no code has ----------------------------------------------------------------------------------------------


def with_states(profile: P) -> P:
    """The state as the leaf of each stack (``STATE_FRAMES``), as in the files of the reference tool."""
    states = list(STATE_FRAMES)
    code = np.full(len(State), -1, np.int64)
    code[states] = np.arange(len(states))
    return with_leaves(profile, list(STATE_FRAMES.values()), code[profile.state])


def with_leaves(profile: P, labels: Sequence[str], which: Array) -> P:
    """A leaf frame for each stack: ``labels[which[i]]`` for that of sample ``i``, none where ``which`` is negative."""
    says = which >= 0
    keys = profile.node[says].astype(np.int64) * len(labels) + which[says]
    made, place = _distinct(keys, len(profile.tree) * len(labels))
    node, label = np.divmod(made, max(len(labels), 1))
    tree = _with_nodes(profile.tree, node, len(profile.frames) + label)
    nodes = profile.node.copy()
    nodes[says] = len(profile.tree) + place
    return replace(profile, tree=tree, node=nodes, frames=profile.frames.extended(list(map(pseudo, labels))))


def _with_nodes(tree: StackTree, parent: Array, frame: Array) -> StackTree:
    return StackTree(np.append(tree.parent, parent).astype(np.int32), np.append(tree.frame, frame).astype(np.int32))


def with_threads(profile: P) -> P:
    """The thread as the root of each stack."""
    return with_roots(profile, [thread.label for thread in profile.threads])


def with_roots(profile: P, labels: Sequence[str]) -> P:
    """A root frame for each stack: ``labels[i]`` for those of thread ``i``; equal ones are one frame."""
    texts: dict[str, int] = {}
    first = len(profile.frames)
    numbers = np.array([first + texts.setdefault(label, len(texts)) for label in labels], np.int64)
    size = len(profile.tree)
    keys = profile.thread.astype(np.int64) * size + profile.node
    made, which = _distinct(keys, len(labels) * size)
    thread, node = np.divmod(made, size)
    tree, nodes = profile.tree.rooted(node, numbers[thread])
    frames = profile.frames.extended([pseudo(text) for text in texts])
    return replace(profile, tree=tree, node=nodes[which].astype(np.int32, copy=False), frames=frames)
