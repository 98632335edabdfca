"""All call stacks of a trace as one tree, which every consumer reads.

A node is a call path: its frame, called from its parent's. Node 0 is the root, which has no frame. Parents stand before
their children, so one pass over the nodes adds up what a path and all it called weigh.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.errors import UsageError
from dotnetdiag.trace import kernels
from dotnetdiag.trace.bounds import ALWAYS, KERNEL_START
from dotnetdiag.trace.distinct import distinct
from dotnetdiag.trace.stack_variants import ProcessStacks, StackEpochs, StackVariants, epoch_keys

if TYPE_CHECKING:
    from dotnetdiag.nettrace import StackTable
    from dotnetdiag.trace.symbols import Symbols

Array: TypeAlias = "np.ndarray[Any, Any]"

NO_FRAME = -1
"""The frame of the root, and of what :meth:`StackTree.map_frames` leaves out."""
_ROOT = np.full(1, -1, np.int32)


class StackTree:
    """``parent`` and ``frame`` (i32) of each node; node 0 is the root with -1 for both. Never changed once made.

    ``leaf_of_stack`` is the node of each stack id; 0 for no stack and for stacks without frames. Where code moved while
    the trace ran, or several processes are in it, a stack is several paths: then :meth:`leaves` tells them apart,
    and ``leaf_of_stack`` is the last.
    """

    __slots__ = ("_child", "_depth", "_outermost", "_sibling", "_variants", "frame", "leaf_of_stack", "parent")

    def __init__(
        self,
        parent: Array,
        frame: Array,
        leaf_of_stack: Array | None = None,
        variants: StackVariants | None = None,
    ) -> None:
        self.parent, self.frame = parent, frame
        self.leaf_of_stack: Array = np.zeros(1, np.int32) if leaf_of_stack is None else leaf_of_stack
        self._variants = variants
        self._depth: Array | None = None
        self._child: Array | None = None
        self._sibling: Array | None = None
        self._outermost: Array | None = None

    def __len__(self) -> int:
        """Number of nodes, the root included."""
        return len(self.parent)

    @classmethod
    def from_paths(cls, offsets: Array, frames: Array) -> tuple[StackTree, Array]:
        """The tree of paths ``frames[offsets[i]:offsets[i + 1]]``, leaf first, and the node of each path.

        Frames below 0 are left out.
        """
        frames = np.ascontiguousarray(frames, np.int32)
        kinds = int(frames.max(initial=-1)) + 1
        codes = np.where(frames < 0, kinds, frames).astype(np.int32)
        of_code = np.append(np.arange(kinds, dtype=np.int32), np.int32(NO_FRAME))
        begins = np.ascontiguousarray(offsets, np.int64)
        parent, frame, leaves = kernels.intern_paths(_ROOT, _ROOT, codes, of_code, begins)
        return cls(parent, frame), leaves

    def leaves(self, stack_ids: Array, times: Array | None = None, processes: Array | None = None) -> Array:
        """The node of each event's stack at its time (ticks) in its process; 0 for ids that are not there."""
        ids = np.asarray(stack_ids, np.int64)
        inside = (ids >= 0) & (ids < len(self.leaf_of_stack))
        ids = np.where(inside, ids, 0)
        if self._variants is None:
            leaves: Array = self.leaf_of_stack[ids]
            return leaves
        return self._variants.leaves(ids, times, processes, self.leaf_of_stack)

    # weights ----------------------------------------------------------------------------------------------------------

    def exclusive(self, nodes: Array, weights: Array | None = None) -> Array:
        """What was seen at each node itself (f64 per node): the sum of the weights, or the count, of ``nodes``."""
        return np.bincount(nodes, weights, minlength=len(self)).astype(np.float64, copy=False)

    def inclusive(self, exclusive: Array) -> Array:
        """What was seen at each node and below it (f64 per node)."""
        total = np.array(exclusive, np.float64)
        if len(total) != len(self):
            raise UsageError(f"{len(total)} weights for {len(self)} nodes")
        kernels.add_to_parents(self.parent, total)
        return total

    def by_frame(self, exclusive: Array, inclusive: Array | None = None) -> tuple[Array, Array]:
        """(exclusive, inclusive) weights per frame id. A frame that calls itself, at once or through others, is counted
        where it was entered first.
        """
        inclusive = self.inclusive(exclusive) if inclusive is None else inclusive
        frame, outermost = self.frame[1:], self.outermost[1:]
        own = np.bincount(frame, exclusive[1:]).astype(np.float64, copy=False)
        entered = np.bincount(frame[outermost], inclusive[1:][outermost])  # as long: each frame was entered once
        return own, entered.astype(np.float64, copy=False)

    # shape ------------------------------------------------------------------------------------------------------------

    @property
    def depth(self) -> Array:
        """Frames from the root to each node (i32), 0 for the root."""
        if self._depth is None:
            self._depth = kernels.depths(self.parent)
        return self._depth

    @property
    def children(self) -> tuple[Array, Array]:
        """(first child, next sibling) of each node (i32), 0 where there is none; siblings in the order of numbers."""
        if self._child is None or self._sibling is None:
            self._child, self._sibling = kernels.children(self.parent)
        return self._child, self._sibling

    @property
    def outermost(self) -> Array:
        """A mask of the nodes with no caller of the same frame."""
        if self._outermost is None:
            self._outermost = kernels.outermost(self.parent, self.frame, *self.children)
        return self._outermost

    def path(self, node: int) -> list[int]:
        """The frames of one node, leaf first."""
        frames = []
        while node > 0:
            frames.append(int(self.frame[node]))
            node = int(self.parent[node])
        return frames

    def paths(self, nodes: Array) -> tuple[Array, Array]:
        """(offsets, frames) of many nodes, leaf first; may be many times larger than the tree."""
        nodes = np.ascontiguousarray(nodes, np.int32)
        offsets = np.zeros(len(nodes) + 1, np.int64)
        np.cumsum(self.depth[nodes], out=offsets[1:])
        return offsets, kernels.expand(self.parent, self.frame, nodes, offsets)

    # other trees ------------------------------------------------------------------------------------------------------

    def map_frames(
        self, new_frame: Array, drop: Array | None = None, *, merge: bool = False
    ) -> tuple[StackTree, Array]:
        """The tree with ``new_frame[frame]`` in the place of each frame, and the new node of each old one.

        Frames that ``drop`` marks, and those below 0, are left out: what they called is called by their callers.
        With ``merge`` a frame that calls itself at once is one, as direct recursion or a group of frames should be.
        Equal paths become one.
        """
        wanted = np.array(new_frame, np.int32)
        if drop is not None:
            wanted[drop] = NO_FRAME
        if len(wanted) <= int(self.frame.max()):
            raise UsageError(f"{len(wanted)} new frames for {int(self.frame.max()) + 1}")
        parent, frame, new_node = kernels.remap(self.parent, self.frame, wanted, merge)
        return StackTree(parent, frame, new_node[self.leaf_of_stack]), new_node

    def inverted(self, nodes: Array) -> tuple[StackTree, Array]:
        """The tree of the same paths from their leaves to their roots, and the node in it of each of ``nodes``."""
        offsets, frames = self.paths(nodes)
        lengths = np.diff(offsets)
        place = np.repeat(offsets[:-1] + offsets[1:] - 1, lengths) - np.arange(len(frames))
        return StackTree.from_paths(offsets, frames[place])

    def rooted(self, nodes: Array, *roots: Array) -> tuple[StackTree, Array]:
        """The tree of paths that begin at further frames, such as process and thread, and the node of each path.

        ``roots`` are arrays of frame ids, one per node, the outermost first.
        """
        pairs = np.stack([np.asarray(nodes, np.int64), *(np.asarray(root, np.int64) for root in roots)], axis=1)
        distinct, back = np.unique(pairs, axis=0, return_inverse=True)
        offsets, frames = self.paths(distinct[:, 0])
        lengths = np.diff(offsets)
        wider = np.zeros(len(offsets), np.int64)
        np.cumsum(lengths + len(roots), out=wider[1:])
        out = np.empty(int(wider[-1]), np.int32)
        out[np.arange(len(frames)) + np.repeat(wider[:-1] - offsets[:-1], lengths)] = frames
        for number in range(len(roots)):
            out[wider[1:] - 1 - number] = distinct[:, 1 + number]
        tree, leaves = StackTree.from_paths(wider, out)
        return tree, leaves[back.reshape(-1)]


# the tree of a trace --------------------------------------------------------------------------------------------------


def build_stack_tree(
    stacks: StackTable,
    symbols: Symbols,
    stack_ids: Array | None = None,
    times: Array | None = None,
    processes: Array | None = None,
    *,
    sampled: bool = True,
) -> StackTree:
    """The tree of a table of stacks. Of a stack that is several paths, those are made that the events (ids, times in
    ticks and processes, one each) ask for. ``sampled``: a thread was stopped where its stack begins; else that, too, is where a call returns
    to, for the code there has called the runtime, which wrote the event.
    """
    offsets, codes, where, exact = _interned(stacks, sampled)
    paths = None if stack_ids is None else np.clip(np.asarray(stack_ids, np.int64), 0, len(offsets) - 2)
    owner: Array | None = None
    by_process: ProcessStacks | None = None
    if paths is not None and processes is not None:
        by_process = ProcessStacks.of(paths, processes)
        paths, _ = by_process.find(paths, processes)
        stack, place = by_process.pairs
        offsets, codes, used = _in_contexts(codes, offsets, stack, place, len(by_process.processes))
        where, exact, owner = where[used[0]], exact[used[0]], by_process.processes[used[1]]
    frames = symbols.resolve(where, None, owner, exact=exact)
    parent, frame, leaf_of_path = kernels.intern_paths(_ROOT, _ROOT, codes, frames, offsets)
    leaf_of_stack = leaf_of_path
    if by_process is not None:
        leaf_of_stack = np.zeros(len(stacks), np.int32)
        leaf_of_stack[stack] = leaf_of_path
    epochs: StackEpochs | None = None
    changing, moments = symbols.changes(where, owner, exact=exact)
    if paths is not None and times is not None and len(moments):
        timed = _any_of_path(changing[codes], offsets)
        asked = np.flatnonzero(timed[paths])
        keys = distinct(epoch_keys(moments, paths[asked], times[asked]))
        path, epoch = np.divmod(keys, len(moments) + 1)
        longer, codes, used = _in_contexts(codes, offsets, path, epoch, len(moments) + 1)
        begins = np.append(np.array([ALWAYS], np.int64), moments)
        frames = symbols.resolve(
            where[used[0]], begins[used[1]], None if owner is None else owner[used[0]], exact=exact[used[0]]
        )
        parent, frame, nodes = kernels.intern_paths(parent, frame, codes, frames, longer)
        epochs = StackEpochs(moments=moments, timed=timed, keys=keys, nodes=nodes)
    if by_process is None and epochs is None:
        return StackTree(parent, frame, leaf_of_stack)
    variants = StackVariants(by_process=by_process, leaf_of_path=leaf_of_path, epochs=epochs)
    return StackTree(parent, frame, leaf_of_stack, variants)


def moments_of(stacks: StackTable, symbols: Symbols, *, sampled: bool = True) -> Array:
    """The moments (ticks, ascending) at which an address of these stacks becomes another method's: between two of them a stack is one path.
    ``sampled``: as for :func:`build_stack_tree`.
    """
    _, _, where, exact = _interned(stacks, sampled)
    if len(symbols.processes) < 2:
        return symbols.changes(where, exact=exact)[1]
    owners = (np.full(len(where), process, np.int64) for process in sorted(symbols.processes))
    return distinct(np.concatenate([symbols.changes(where, owner, exact=exact)[1] for owner in owners]))


def _interned(stacks: StackTable, sampled: bool) -> tuple[Array, Array, Array, Array]:
    """(where each stack begins, its addresses by their numbers, these addresses, and which are of code that comes: the others are where calls return
    to).
    """
    offsets, addresses = stacks.arrays()
    codes, where, exact = kernels.intern_addresses(np.ascontiguousarray(addresses), offsets, KERNEL_START)
    return offsets, codes, where, exact if sampled else np.zeros_like(exact)


def _in_contexts(
    codes: Array, offsets: Array, paths: Array, context: Array, contexts: int
) -> tuple[Array, Array, tuple[Array, Array]]:
    """Some paths, each in a context: their offsets, the codes of (old code, context), and those two of each new code."""
    lengths = np.diff(offsets)[paths]
    longer = np.zeros(len(paths) + 1, np.int64)
    np.cumsum(lengths, out=longer[1:])
    place = np.arange(int(longer[-1])) + np.repeat(offsets[:-1][paths] - longer[:-1], lengths)
    both = codes[place].astype(np.uint64) * np.uint64(contexts) + np.repeat(context, lengths).astype(np.uint64)
    again, distinct_pairs, _ = kernels.intern_addresses(both, longer, KERNEL_START)
    old, which = np.divmod(distinct_pairs, np.uint64(contexts))
    return longer, again, (old.astype(np.int64), which.astype(np.int64))


def _any_of_path(marks: Array, offsets: Array) -> Array:
    """Which paths have a marked code."""
    total = np.zeros(len(marks) + 1, np.int64)
    np.cumsum(marks, out=total[1:])
    found: Array = total[offsets[1:]] > total[offsets[:-1]]
    return found
