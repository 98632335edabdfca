# mypy: ignore-errors
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The loops over the frames of all stacks: plain Python that Cython compiles (without the GIL). Called by
``stack_tree.py`` alone.

Rule 1: callers hand in buffers, nothing is allocated here; a loop that needs a larger one stops where it is.
Rule 2: hash tables are open: slots of i32, 0 is free, sizes are powers of two, at most half is in use. Only the low bits
of a product are looked at, so machine words and Python's integers give the same slots.
"""

from __future__ import annotations

try:
    import cython
except ImportError:  # neither compiled nor anything to compile with
    from dotnetdiag.trace import cython_stub as cython

compiled: bool = cython.compiled


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _address_slot(value: cython.ulonglong, exact: cython.ulonglong, mask: cython.ulonglong) -> cython.ulonglong:
    mixed: cython.ulonglong = value ^ (value >> 17) ^ (value >> 34)
    return (mixed * 1640531527 + exact * 668265263) & mask


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _node_slot(parent: cython.ulonglong, frame: cython.ulonglong, mask: cython.ulonglong) -> cython.ulonglong:
    return (parent * 1640531527 + frame * 668265263) & mask


def intern_addresses(
    addresses: cython.const[cython.ulonglong][::1],
    offsets: cython.const[cython.longlong][::1],
    kernel: cython.ulonglong,
    first: cython.longlong,
    count: cython.longlong,
    codes: cython.int[::1],
    unique: cython.ulonglong[::1],
    exact: cython.uchar[::1],
    table: cython.int[::1],
) -> tuple:
    """Number the addresses of stacks ``first`` and following: (stack where it stopped, numbers given).

    An address that is exact (of a leaf, or of user code under the kernel's, whose addresses begin at ``kernel``) and
    the same one as a return address are two. Stops before a stack that may not fit; slots hold the number plus 1.
    """
    stacks: cython.longlong = offsets.shape[0] - 1
    mask: cython.ulonglong = table.shape[0] - 1
    room: cython.longlong = table.shape[0] // 2
    s: cython.longlong = first
    k: cython.longlong
    low: cython.longlong
    high: cython.longlong
    slot: cython.ulonglong
    value: cython.ulonglong
    before: cython.ulonglong
    is_exact: cython.uchar
    found: cython.int
    with cython.nogil:
        while s < stacks:
            low = offsets[s]
            high = offsets[s + 1]
            if count + high - low > room:
                break
            before = 0
            for k in range(low, high):
                value = addresses[k]
                is_exact = 1 if k == low or (before >= kernel and value < kernel) else 0
                before = value
                slot = _address_slot(value, is_exact, mask)
                while True:
                    found = table[slot]
                    if found == 0:
                        table[slot] = count + 1
                        unique[count] = value
                        exact[count] = is_exact
                        codes[k] = count
                        count += 1
                        break
                    if unique[found - 1] == value and exact[found - 1] == is_exact:
                        codes[k] = found - 1
                        break
                    slot = (slot + 1) & mask
            s += 1
    return s, count


def rehash_addresses(
    unique: cython.const[cython.ulonglong][::1],
    exact: cython.const[cython.uchar][::1],
    count: cython.longlong,
    table: cython.int[::1],
) -> None:
    """Fill an empty table with the numbers given so far."""
    mask: cython.ulonglong = table.shape[0] - 1
    k: cython.longlong
    slot: cython.ulonglong
    with cython.nogil:
        for k in range(count):
            slot = _address_slot(unique[k], exact[k], mask)
            while table[slot] != 0:
                slot = (slot + 1) & mask
            table[slot] = k + 1


def intern_paths(
    codes: cython.const[cython.int][::1],
    frame_of_code: cython.const[cython.int][::1],
    offsets: cython.const[cython.longlong][::1],
    first: cython.longlong,
    count: cython.longlong,
    leaves: cython.int[::1],
    parent: cython.int[::1],
    frame: cython.int[::1],
    table: cython.int[::1],
) -> tuple:
    """Put paths ``first`` and following, leaf first, into the tree: (path where it stopped, nodes).

    Frames below 0 are left out. Stops before a path that may not fit; slots hold the node, which is never the root.
    """
    paths: cython.longlong = offsets.shape[0] - 1
    mask: cython.ulonglong = table.shape[0] - 1
    room: cython.longlong = table.shape[0] // 2
    s: cython.longlong = first
    k: cython.longlong
    low: cython.longlong
    node: cython.int
    wanted: cython.int
    found: cython.int
    slot: cython.ulonglong
    if parent.shape[0] < room:
        room = parent.shape[0]
    with cython.nogil:
        while s < paths:
            low = offsets[s]
            k = offsets[s + 1]
            if count + k - low > room:
                break
            node = 0
            while k > low:
                k -= 1
                wanted = frame_of_code[codes[k]]
                if wanted < 0:
                    continue
                slot = _node_slot(node, wanted, mask)
                while True:
                    found = table[slot]
                    if found == 0:
                        table[slot] = count
                        parent[count] = node
                        frame[count] = wanted
                        node = count
                        count += 1
                        break
                    if parent[found] == node and frame[found] == wanted:
                        node = found
                        break
                    slot = (slot + 1) & mask
            leaves[s] = node
            s += 1
    return s, count


def rehash_nodes(
    parent: cython.const[cython.int][::1],
    frame: cython.const[cython.int][::1],
    count: cython.longlong,
    table: cython.int[::1],
) -> None:
    """Fill an empty table with the nodes there are."""
    mask: cython.ulonglong = table.shape[0] - 1
    node: cython.longlong
    slot: cython.ulonglong
    with cython.nogil:
        for node in range(1, count):
            slot = _node_slot(parent[node], frame[node], mask)
            while table[slot] != 0:
                slot = (slot + 1) & mask
            table[slot] = node


def remap(
    parent: cython.const[cython.int][::1],
    frame: cython.const[cython.int][::1],
    new_frame: cython.const[cython.int][::1],
    merge: cython.bint,
    new_parent: cython.int[::1],
    new_frames: cython.int[::1],
    new_node: cython.int[::1],
    table: cython.int[::1],
) -> cython.longlong:
    """Nodes of the tree whose frames are exchanged (below 0: left out); with ``merge`` a frame that calls itself is
    one. The table must have more than twice as many slots as there are nodes.
    """
    nodes: cython.longlong = parent.shape[0]
    mask: cython.ulonglong = table.shape[0] - 1
    count: cython.longlong = 1
    n: cython.longlong
    above: cython.int
    wanted: cython.int
    found: cython.int
    slot: cython.ulonglong
    with cython.nogil:
        for n in range(1, nodes):
            above = new_node[parent[n]]
            wanted = new_frame[frame[n]]
            if wanted < 0 or (merge and above > 0 and new_frames[above] == wanted):
                new_node[n] = above
                continue
            slot = _node_slot(above, wanted, mask)
            while True:
                found = table[slot]
                if found == 0:
                    table[slot] = count
                    new_parent[count] = above
                    new_frames[count] = wanted
                    new_node[n] = count
                    count += 1
                    break
                if new_parent[found] == above and new_frames[found] == wanted:
                    new_node[n] = found
                    break
                slot = (slot + 1) & mask
    return count


def add_to_parents(parent: cython.const[cython.int][::1], weights: cython.double[::1]) -> None:
    """Exclusive weights become inclusive ones, in place: children stand behind their parents."""
    n: cython.longlong
    with cython.nogil:
        for n in range(parent.shape[0] - 1, 0, -1):
            weights[parent[n]] += weights[n]


def depths(parent: cython.const[cython.int][::1], out: cython.int[::1]) -> None:
    """How many frames stand above each node, itself included; 0 for the root."""
    n: cython.longlong
    with cython.nogil:
        for n in range(1, parent.shape[0]):
            out[n] = out[parent[n]] + 1


def children(parent: cython.const[cython.int][::1], child: cython.int[::1], sibling: cython.int[::1]) -> None:
    """First child and next sibling of each node, in the order of their numbers; 0 where there is none."""
    n: cython.longlong
    with cython.nogil:
        for n in range(parent.shape[0] - 1, 0, -1):
            sibling[n] = child[parent[n]]
            child[parent[n]] = n


def outermost(
    parent: cython.const[cython.int][::1],
    frame: cython.const[cython.int][::1],
    child: cython.const[cython.int][::1],
    sibling: cython.const[cython.int][::1],
    open_frames: cython.int[::1],
    out: cython.uchar[::1],
) -> None:
    """Mark nodes that have no caller of the same frame: one walk through the tree, with the frames that are open."""
    node: cython.int = child[0]
    with cython.nogil:
        while node != 0:
            out[node] = 1 if open_frames[frame[node]] == 0 else 0
            open_frames[frame[node]] += 1
            if child[node] != 0:
                node = child[node]
                continue
            while node != 0:
                open_frames[frame[node]] -= 1
                if sibling[node] != 0:
                    node = sibling[node]
                    break
                node = parent[node]


def expand(
    parent: cython.const[cython.int][::1],
    frame: cython.const[cython.int][::1],
    nodes: cython.const[cython.int][::1],
    offsets: cython.const[cython.longlong][::1],
    out: cython.int[::1],
) -> None:
    """The frames from each node up to the root, one path behind another."""
    k: cython.longlong
    at: cython.longlong
    node: cython.int
    with cython.nogil:
        for k in range(nodes.shape[0]):
            at = offsets[k]
            node = nodes[k]
            while node != 0:
                out[at] = frame[node]
                node = parent[node]
                at += 1
