"""The tree of all stacks, in every form of the loops, against paths counted one by one."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import MadeTrace, table_of

from dotnetdiag.errors import UsageError
from dotnetdiag.nettrace import StackTable, ThreadInfo, read
from dotnetdiag.trace import fallback, kernels
from dotnetdiag.trace.stack_tree import StackTree, build_stack_tree
from dotnetdiag.trace.symbols import build_symbols

Array: TypeAlias = "np.ndarray[Any, Any]"


LOOPS: Any = kernels.KERNELS
FORMS = {"compiled": 0, "level by level": 0, "node by node": 1 << 60}
"""Of the loops, and the least width of trees that the fall-back takes level by level."""
if not kernels.COMPILED:
    del FORMS["compiled"]


def run(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the loops run in this form."""
    monkeypatch.setattr(kernels, "KERNELS", LOOPS if form == "compiled" else None)
    monkeypatch.setattr(fallback, "LEAST_WIDTH", FORMS[form])


@pytest.fixture(params=FORMS, autouse=True)
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which loops run."""
    run(request.param, monkeypatch)


def tree_of(*paths: Sequence[int]) -> tuple[StackTree, Array]:
    """The tree of paths of frames, leaf first, and their nodes."""
    offsets = np.cumsum([0, *map(len, paths)])
    return StackTree.from_paths(offsets, np.array([frame for path in paths for frame in path], np.int64))


def assert_sound(tree: StackTree) -> None:
    assert tree.parent.dtype == tree.frame.dtype == np.int32
    assert tree.parent[0] == tree.frame[0] == -1
    assert (tree.parent[1:] < np.arange(1, len(tree))).all()
    assert (tree.parent[1:] >= 0).all()
    pairs = set(zip(tree.parent[1:].tolist(), tree.frame[1:].tolist(), strict=True))
    assert len(pairs) == len(tree) - 1, "equal paths are one node"


PATHS = st.lists(st.lists(st.integers(0, 4), max_size=8), max_size=30)
UNHURRIED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(PATHS)
@UNHURRIED
def test_every_path_is_in_the_tree_once(paths: list[list[int]]) -> None:
    tree, nodes = tree_of(*paths)
    assert_sound(tree)
    assert [tree.path(int(node)) for node in nodes] == paths
    assert len(tree) == 1 + len({tuple(path[at:]) for path in paths for at in range(len(path))})
    assert tree.depth[nodes].tolist() == [len(path) for path in paths]
    offsets, frames = tree.paths(nodes)
    assert [frames[a:b].tolist() for a, b in pairwise(offsets)] == paths


@given(PATHS)
@UNHURRIED
def test_weights_are_those_of_paths_counted_one_by_one(paths: list[list[int]]) -> None:
    tree, nodes = tree_of(*paths)
    weights = np.arange(1, len(paths) + 1, dtype=np.float64)
    exclusive = tree.exclusive(nodes, weights)
    inclusive = tree.inclusive(exclusive)
    below: Counter[int] = Counter()
    own: Counter[int] = Counter()
    within: Counter[int] = Counter()
    for path, weight in zip(paths, weights.tolist(), strict=True):
        if path:
            own[path[0]] += int(weight)
        for frame in set(path):
            within[frame] += int(weight)
    for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
        while node >= 0:
            below[node] += int(weight)
            node = int(tree.parent[node])
    assert inclusive.tolist() == [below[node] for node in range(len(tree))]
    frames_own, frames_within = tree.by_frame(exclusive)
    assert frames_own.tolist() == [own[frame] for frame in range(len(frames_own))]
    assert frames_within.tolist() == [within[frame] for frame in range(len(frames_within))], "recursion counts once"


def test_a_recursion_of_five_thousand_frames_is_no_depth_for_python() -> None:
    deep = [7] * 5000
    zigzag = [number % 3 for number in range(5000)]
    tree, nodes = tree_of(deep, zigzag)
    assert tree.depth[nodes].tolist() == [5000, 5000]
    assert tree.path(int(nodes[0])) == deep
    exclusive = tree.exclusive(nodes)
    own, within = tree.by_frame(exclusive)
    assert (own[7], within[7]) == (1, 1)
    assert within[:3].tolist() == [1, 1, 1]
    folded, moved = tree.map_frames(np.arange(8), merge=True)
    assert folded.path(int(moved[nodes[0]])) == [7]
    assert tree.inverted(nodes)[0].depth.max() == 5000


def test_weights_of_another_tree_are_refused() -> None:
    tree, _ = tree_of([1, 2])
    with pytest.raises(UsageError):
        tree.inclusive(np.zeros(2))


def test_a_tree_of_nothing_is_its_root() -> None:
    for tree, nodes in (tree_of(), tree_of([], [])):
        assert_sound(tree)
        assert (len(tree), nodes.tolist()) == (1, [0] * len(nodes))
        assert tree.inclusive(tree.exclusive(nodes)).tolist() == [len(nodes)]
        assert [part.tolist() for part in tree.by_frame(tree.exclusive(nodes))] == [[], []]
        assert tree.map_frames(np.zeros(0, np.int32))[1].tolist() == [0]


# other trees ----------------------------------------------------------------------------------------------------------


def test_frames_are_renamed_and_equal_paths_become_one() -> None:
    tree, nodes = tree_of([1, 2, 0], [3, 2, 0])
    grouped, moved = tree.map_frames(np.array([0, 5, 2, 5]))
    assert_sound(grouped)
    assert grouped.path(int(moved[nodes[0]])) == [5, 2, 0]
    assert moved[nodes[0]] == moved[nodes[1]]


def test_hidden_frames_give_what_they_called_to_their_callers() -> None:
    tree, nodes = tree_of([1, 2, 3, 0], [2, 0])
    hidden, moved = tree.map_frames(np.arange(4), np.array([False, False, True, True]))
    assert [hidden.path(int(node)) for node in moved[nodes]] == [[1, 0], [0]]
    assert hidden.map_frames(np.full(4, -1))[0].parent.tolist() == [-1]


@pytest.mark.parametrize("merge", [False, True])
def test_a_frame_that_calls_itself_is_one_when_asked(merge: bool) -> None:
    tree, nodes = tree_of([1, 1, 2, 1, 1, 0])
    folded, moved = tree.map_frames(np.arange(3), merge=merge)
    assert folded.path(int(moved[nodes[0]])) == ([1, 2, 1, 0] if merge else [1, 1, 2, 1, 1, 0])


def test_a_frame_without_a_new_one_is_refused() -> None:
    tree, _ = tree_of([1, 2])
    with pytest.raises(UsageError, match=r"^2 new frames for 3$"):
        tree.map_frames(np.zeros(2, np.int32))


@given(PATHS)
@UNHURRIED
def test_an_inverted_tree_has_the_same_paths_backwards(paths: list[list[int]]) -> None:
    tree, nodes = tree_of(*paths)
    other, moved = tree.inverted(nodes)
    assert_sound(other)
    assert [other.path(int(node)) for node in moved] == [path[::-1] for path in paths]


@given(PATHS, st.integers(0, 2))
@UNHURRIED
def test_paths_get_roots_of_their_own(paths: list[list[int]], count: int) -> None:
    tree, nodes = tree_of(*paths)
    roots = [np.arange(len(paths)) % (2 + number) + 10 * (number + 1) for number in range(count)]
    rooted, moved = tree.rooted(nodes, *roots)
    assert_sound(rooted)
    expected = [path + [int(root[at]) for root in reversed(roots)] for at, path in enumerate(paths)]
    assert [rooted.path(int(node)) for node in moved] == expected


def test_children_are_linked_in_the_order_of_their_numbers() -> None:
    tree, _ = tree_of([1, 0], [2, 0], [3])
    child, sibling = tree.children
    root_children = [int(child[0])]
    while root_children[-1]:
        root_children.append(int(sibling[root_children[-1]]))
    assert [int(tree.frame[node]) for node in root_children[:-1]] == [0, 3]
    assert tree.frame[child[child[0]]] == 1
    assert tree.frame[sibling[child[child[0]]]] == 2


# from stacks ----------------------------------------------------------------------------------------------------------


def made_trace() -> MadeTrace:
    made = MadeTrace()
    for start, name in ((0x1000, "Main"), (0x2000, "Work")):
        made.method(start, 0x100, name)
    return made


def printed(tree: StackTree, made: Any, node: int) -> list[str]:
    return [made.frame_name(frame).rpartition(".")[2] for frame in tree.path(node)]


def test_stacks_become_paths_of_their_methods() -> None:
    symbols = made_trace().symbols()
    stacks = table_of([], [0x2010, 0x1010], [0x2020, 0x1010], [0x2010, 0x1020], [0x9999, 0x1010])
    tree = build_stack_tree(stacks, symbols)
    assert_sound(tree)
    leaves = tree.leaf_of_stack
    assert leaves[:2].tolist() == [0, 0], "no stack, and a stack without frames"
    assert leaves[2] == leaves[3] == leaves[4], "other addresses of the same methods"
    assert printed(tree, symbols, leaves[2]) == ["Work()", "Main()"]
    assert printed(tree, symbols, leaves[5]) == ["!0x9999", "Main()"]
    assert tree.leaves(np.array([5, 0, 99, 2])).tolist() == [leaves[5], 0, 0, leaves[2]]


def test_stacks_of_32_bit_traces_become_paths() -> None:
    symbols = made_trace().symbols()
    tree = build_stack_tree(table_of([0x2010, 0x1010], pointer_size=4), symbols)
    assert printed(tree, symbols, tree.leaf_of_stack[1]) == ["Work()", "Main()"]


def test_only_a_leaf_is_looked_up_where_it_is() -> None:
    made = MadeTrace()
    made.method(0x1000, 0x100, "First")
    made.method(0x1100, 0x100, "Second")
    symbols = made.symbols()
    tree = build_stack_tree(table_of([0x1100, 0x1100]), symbols)
    assert printed(tree, symbols, tree.leaf_of_stack[1]) == ["Second()", "First()"]


def test_user_code_under_the_kernel_is_looked_up_where_it_is() -> None:
    made = MadeTrace()
    made.threads[1] = ThreadInfo(index=1, process_id=10)
    made.mapping(1, 0xFFFF800000000000, 0xFFFFFFFFFFFFFFFF, "vmlinux")
    made.mapping(2, 0x1000, 0x3000, "a.so")
    made.symbol(2, 0x1000, 0x1100, "first")
    made.symbol(2, 0x1100, 0x1200, "second")
    symbols = made.symbols()
    tree = build_stack_tree(table_of([0xFFFFFFFF81000000, 0x1100, 0x1100]), symbols)
    names = [symbols.frame_name(frame) for frame in tree.path(int(tree.leaf_of_stack[1]))]
    assert names == ["vmlinux!0xffffffff81000000", "a.so!second", "a.so!first"]


def test_a_stack_is_another_path_when_the_code_at_an_address_changed() -> None:
    made = made_trace()
    for name, begin, end in (("Old", 10, 20), ("New", 20, 90)):
        made.load(0x5000, 0x100, name, begin)
        made.unload(0x5000, 0x100, name, end)
    symbols = made.symbols()
    stacks = table_of([0x5010, 0x1010], [0x2010, 0x1010], [0x2010, 0x5010])
    ids, times = np.array([1, 1, 1, 2, 3, 3]), np.array([5, 19, 20, 20, 12, 30])
    tree = build_stack_tree(stacks, symbols, ids, times)
    assert_sound(tree)
    found = [printed(tree, symbols, node) for node in tree.leaves(ids, times)]
    assert found == [
        ["Old()", "Main()"],
        ["Old()", "Main()"],
        ["New()", "Main()"],
        ["Work()", "Main()"],
        ["Work()", "Old()"],
        ["Work()", "New()"],
    ]
    assert printed(tree, symbols, tree.leaf_of_stack[1]) == ["New()", "Main()"]
    assert tree.leaves(ids)[0] == tree.leaf_of_stack[1], "without a time it is the last"
    never_asked_for = tree.leaves(np.array([1]), np.array([1000]))
    assert printed(tree, symbols, never_asked_for[0]) == ["New()", "Main()"]


def test_a_stack_is_another_path_in_another_process() -> None:
    made = MadeTrace()
    for thread, process in ((1, 10), (2, 20)):
        made.threads[thread] = ThreadInfo(index=thread, process_id=process)
        made.mapping(thread, 0x1000, 0x3000, f"of{process}.so", thread=thread)
    made.mapping(3, 0x2000, 0x3000, "later.so", thread=2, time=50)
    symbols = made.symbols()
    stacks = table_of([0x1010, 0x1020], [0x2010])
    ids, processes = np.array([1, 1, 2, 2, 2, 1]), np.array([10, 20, 10, 20, 20, 7])
    times = np.array([0, 0, 60, 40, 60, 0])
    tree = build_stack_tree(stacks, symbols, ids, times, processes)
    assert_sound(tree)
    names = [
        [symbols.frame_name(frame) for frame in tree.path(int(node))] for node in tree.leaves(ids, times, processes)
    ]
    assert names == [
        ["of10.so!0x1010", "of10.so!0x1020"],
        ["of20.so!0x1010", "of20.so!0x1020"],
        ["of10.so!0x2010"],
        ["of20.so!0x2010"],
        ["later.so!0x2010"],
        ["!0x1010", "!0x1020"],
    ]
    assert tree.leaves(ids).tolist() == tree.leaf_of_stack[ids].tolist()


def test_many_stacks_make_the_tables_grow() -> None:
    count, made = 3000, MadeTrace()
    made.method(0x1000, 0x100, "Main")
    symbols = made.symbols()
    stacks = table_of(*([0x100000 + 16 * number + at for at in range(7)] + [0x1010] for number in range(count)))
    tree = build_stack_tree(stacks, symbols)
    assert_sound(tree)
    assert len(tree) == 2 + 7 * count
    assert tree.depth[tree.leaf_of_stack[1:]].tolist() == [8] * count
    assert symbols.frame_name(int(tree.frame[tree.leaf_of_stack[count]])) == f"!{0x100000 + 16 * (count - 1):#x}"


def test_a_table_without_stacks_is_a_root() -> None:
    tree = build_stack_tree(StackTable(8), MadeTrace().symbols(), np.zeros(2, np.int64), np.zeros(2, np.int64))
    assert (len(tree), tree.leaf_of_stack.tolist()) == (1, [0])
    assert tree.leaves(np.array([0, 1])).tolist() == [0, 0]


# the forms of the loops against each other ----------------------------------------------------------------------------

in_all_forms = pytest.mark.parametrize("form", ["level by level"], indirect=True, ids=["all forms"])
compiled_only = pytest.mark.parametrize("form", ["compiled"][: kernels.COMPILED], indirect=True)


def assert_same_in_all_forms(arrays: Callable[[], Sequence[Array]]) -> None:
    expected = [array.tolist() for array in arrays()]
    for form in FORMS:
        with pytest.MonkeyPatch.context() as context:
            run(form, context)
            assert [array.tolist() for array in arrays()] == expected, form


@in_all_forms
@given(
    st.lists(st.lists(st.integers(-1, 4), max_size=8), max_size=30),
    st.lists(st.integers(-1, 3), min_size=5, max_size=5),
)
@UNHURRIED
def test_all_forms_number_nodes_alike(paths: list[list[int]], groups: list[int]) -> None:
    def arrays() -> list[Array]:
        tree, nodes = tree_of(*paths)
        weights = tree.inclusive(tree.exclusive(nodes, np.arange(len(paths)) / 10))
        found = [
            nodes,
            tree.parent,
            tree.frame,
            tree.depth,
            *tree.children,
            tree.outermost,
            *tree.paths(nodes),
            weights,
        ]
        for merge in (False, True):
            other, moved = tree.map_frames(np.array(groups), merge=merge)
            found += [moved, other.parent, other.frame]
        return found

    assert_same_in_all_forms(arrays)


KERNEL = 1 << 63


@in_all_forms
@given(st.lists(st.lists(st.sampled_from([0, 1, 2, KERNEL - 1, KERNEL, KERNEL + 1]), max_size=6), max_size=20))
@UNHURRIED
def test_all_forms_number_addresses_alike(stacks: list[list[int]]) -> None:
    addresses = np.array([address for stack in stacks for address in stack], np.uint64)
    offsets = np.cumsum([0, *map(len, stacks)])
    seen: dict[tuple[int, bool], int] = {}
    codes = [
        seen.setdefault((address, at == 0 or stack[at - 1] >= KERNEL > address), len(seen))
        for stack in stacks
        for at, address in enumerate(stack)
    ]
    expected = [codes, [address for address, _ in seen], [exact for _, exact in seen]]
    assert [array.tolist() for array in kernels.intern_addresses(addresses, offsets, KERNEL)] == expected
    assert_same_in_all_forms(lambda: kernels.intern_addresses(addresses, offsets, KERNEL))


@in_all_forms
@pytest.mark.parametrize("name", [name for name in recordings() if name.startswith(("default", "v6"))])
def test_recordings_give_the_same_tree_in_all_forms(name: str) -> None:
    contents = read(data_of(name))

    def arrays() -> list[Array]:
        tree = build_stack_tree(contents.stacks, build_symbols(contents, contents.buffer))
        return [tree.parent, tree.frame, tree.leaf_of_stack, tree.depth, tree.outermost]

    assert_same_in_all_forms(arrays)


@pytest.mark.parametrize("parent", [[-1, 1], [-1, 2, 1], [-1, 0, -1], [-1, 0, 7]])
def test_a_node_that_stands_before_its_parent_is_refused(parent: list[int]) -> None:
    tree = StackTree(np.array(parent, np.int32), np.append(-1, np.zeros(len(parent) - 1)).astype(np.int32))
    for use in (
        lambda: tree.depth,
        lambda: tree.children,
        lambda: tree.paths(np.arange(len(tree))),
        lambda: tree.inclusive(np.ones(len(tree))),
        lambda: tree.map_frames(np.zeros(1, np.int32)),
        lambda: kernels.outermost(tree.parent, tree.frame, *np.zeros((2, len(tree)), np.int32)),
    ):
        with pytest.raises(ValueError, match="before its parent"):
            use()


# what the compiled loops touch, and how often -------------------------------------------------------------------------


def i32(*values: int) -> Array:
    return np.array(values, np.int32)


def i64(*values: int) -> Array:
    return np.array(values, np.int64)


TREE, FRAMES, SLOTS, KEYS = i32(-1, 0, 1), i32(-1, 0, 1), np.zeros(16, np.int32), np.ones(3, np.uint64)
PATH = (i32(0, 1), i32(5, 6), i64(0, 2), 0, 1)
STACK = (np.ones(2, np.uint64), i64(0, 2), 9, 0, 0)
FREE, NO_MARKS = (i32(0, 0), np.zeros(2, np.uint64), np.zeros(2, np.uint8), SLOTS, KEYS), np.zeros(3, np.uint8)


def other(arguments: tuple[Any, ...], at: int, value: Any) -> tuple[Any, ...]:
    return (*arguments[:at], value, *arguments[at + 1 :])


@compiled_only
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("intern_addresses", (*other(STACK, 1, i64(0, 3)), *FREE)),
        ("intern_addresses", (*other(STACK, 1, i64(-1, 2)), *FREE)),
        ("intern_addresses", (*other(STACK, 1, i64(0, 2, 1)), *FREE)),
        ("intern_addresses", (*other(STACK, 3, -1), *FREE)),
        ("intern_addresses", (*other(STACK, 4, -1), *FREE)),
        ("intern_addresses", (*other(STACK, 4, 3), *FREE)),
        ("intern_addresses", (*STACK, *other(FREE, 0, i32(0)))),
        ("intern_addresses", (*STACK, *other(FREE, 2, np.zeros(1, np.uint8)))),
        ("intern_addresses", (*STACK, *other(FREE, 3, SLOTS[:15]))),
        ("intern_addresses", (*STACK, *other(FREE, 3, SLOTS[:0]))),
        ("intern_addresses", (*STACK, *other(FREE, 4, KEYS[:2]))),
        ("intern_paths", (*other(PATH, 0, i32(0, 2)), i32(0), TREE, FRAMES, SLOTS, KEYS)),
        ("intern_paths", (*other(PATH, 0, i32(-1, 1)), i32(0), TREE, FRAMES, SLOTS, KEYS)),
        ("intern_paths", (*other(PATH, 2, i64(0, 3)), i32(0), TREE, FRAMES, SLOTS, KEYS)),
        ("intern_paths", (*other(PATH, 4, 0), i32(0), TREE, FRAMES, SLOTS, KEYS)),
        ("intern_paths", (*other(PATH, 4, 4), i32(0), TREE, FRAMES, SLOTS, KEYS)),
        ("intern_paths", (*PATH, i32(), TREE, FRAMES, SLOTS, KEYS)),
        ("intern_paths", (*PATH, i32(0), TREE, FRAMES[:2], SLOTS, KEYS)),
        ("remap", (TREE, FRAMES, i32(0), False, *np.zeros((3, 3), np.int32), SLOTS, KEYS)),
        ("remap", (TREE, FRAMES, i32(0, 1), False, *np.zeros((3, 2), np.int32), SLOTS, KEYS)),
        ("remap", (TREE, FRAMES, i32(0, 1), False, *np.zeros((3, 3), np.int32), SLOTS[:4], KEYS)),
        ("remap", (i32(), i32(), i32(), False, i32(), i32(), i32(), SLOTS, KEYS)),
        ("add_to_parents", (TREE, np.zeros(2))),
        ("depths", (TREE, i32(0, 0))),
        ("children", (TREE, i32(0, 0, 0), i32(0, 0))),
        ("outermost", (TREE, FRAMES, i32(1, 2, 0), i32(0, 0, 0), i32(0), NO_MARKS)),
        ("outermost", (TREE, FRAMES, i32(1, 2, 0), i32(0, 0, 0), i32(0, 0), NO_MARKS[:2])),
        ("outermost", (TREE, FRAMES, i32(1, 2, 1), i32(0, 0, 0), i32(0, 0), NO_MARKS)),
        ("outermost", (TREE, FRAMES, i32(1, 3, 0), i32(0, 0, 0), i32(0, 0), NO_MARKS)),
        ("outermost", (TREE, FRAMES, i32(1, 2, 0), i32(0, 0, -1), i32(0, 0), NO_MARKS)),
        ("expand", (TREE, FRAMES, i32(2), i64(0, 3), i32(0, 0, 0))),
        ("expand", (TREE, FRAMES, i32(2), i64(0, 1), i32(0))),
        ("expand", (TREE, FRAMES, i32(3), i64(0, 1), i32(0))),
        ("expand", (TREE, FRAMES, i32(-1), i64(0, 1), i32(0))),
        ("expand", (TREE, FRAMES, i32(2), i64(0, 2), i32(0))),
    ],
)
def test_arrays_that_do_not_fit_each_other_are_refused(name: str, arguments: tuple[Any, ...]) -> None:
    copies = [argument.copy() if isinstance(argument, np.ndarray) else argument for argument in arguments]
    with pytest.raises(ValueError):
        getattr(LOOPS, name)(*copies)


@compiled_only
def test_loops_stop_before_what_may_not_fit() -> None:
    memory, offsets, slots = np.full((2, 10), 77, np.int32), i64(0, 2, 5), np.zeros(16, np.int32)
    stopped = LOOPS.intern_paths(i32(0, 1, 0, 1, 1), i32(5, 6), offsets, 0, 1, i32(0, 0), *memory[:, :5], slots, KEYS)
    assert stopped[:2] == (1, 3), "the second path may need three more nodes, and there is room for two"
    assert (memory[:, 5:] == 77).all()
    unique, exact = np.full(10, 77, np.uint64), np.full(10, 77, np.uint8)
    addresses, slots = np.array([1, 2, 1, 2, 3], np.uint64), np.zeros(16, np.int32)
    stopped = LOOPS.intern_addresses(
        addresses, offsets, 9, 0, 0, i32(0, 0, 0, 0, 0), unique[:4], exact[:4], slots, KEYS
    )
    assert stopped[:2] == (1, 2)
    assert (unique[4:] == 77).all()
    assert (exact[4:] == 77).all()


@compiled_only
def test_a_path_longer_than_its_place_is_cut() -> None:
    memory = np.full(10, 77, np.int32)
    with pytest.raises(ValueError, match="other lengths"):
        LOOPS.expand(TREE, FRAMES, i32(2, 2), i64(0, 1, 2), memory[:2])
    assert memory.tolist() == [1, 1] + [77] * 8


def meeting_addresses(count: int) -> Array:
    """Whose slots of a table of 65536 are the same where ``(v ^ v >> 17 ^ v >> 34) * constant`` chooses the slot."""
    mixed = np.arange(1, count + 1, dtype=np.uint64) << np.uint64(16)
    values = mixed
    for _ in range(4):
        values = mixed ^ (values >> np.uint64(17)) ^ (values >> np.uint64(34))
    return values


def meeting_frames(count: int) -> Array:
    """Frames of nodes 2, 4, 6... under 1, 3, 5..., of which the same is true of ``parent * constant + frame * constant``."""
    return np.array(
        [-parent * 1640531527 * pow(668265263, -1, 1 << 16) % (1 << 16) for parent in range(1, 2 * count, 2)]
    )


@compiled_only
@pytest.mark.parametrize("seed", [1, 2, 3, None])
def test_a_file_cannot_choose_the_slots_of_its_addresses_and_frames(seed: int | None) -> None:
    keys = np.zeros(3, np.uint64) if seed is None else np.random.default_rng(seed).integers(0, 1 << 64, 3, np.uint64)
    count, size = 4000, 1 << 16
    addresses, codes = meeting_addresses(count), np.zeros(count, np.int32)
    unique, exact, slots = np.empty(count, np.uint64), np.empty(count, np.uint8), np.zeros(size, np.int32)
    done = LOOPS.intern_addresses(addresses, np.arange(count + 1), 1 << 63, 0, 0, codes, unique, exact, slots, keys)
    frames = np.stack([meeting_frames(count), size + np.arange(count)], axis=1).ravel().astype(np.int32)
    offsets, kinds, leaves = np.arange(0, 2 * count + 1, 2), np.arange(size + count, dtype=np.int32), codes.copy()
    parent, frame, slots = *np.empty((2, 2 * count + 1), np.int32), np.zeros(size, np.int32)
    *_, passed = LOOPS.intern_paths(frames, kinds, offsets, 0, 1, leaves, parent, frame, slots, keys)
    assert done[:2] == (count, count)
    assert leaves.tolist() == list(range(2, 2 * count + 1, 2))
    if seed is None:  # as if all met
        assert min(done[2], passed) > count * count // 4
    else:
        assert max(done[2], passed) < count


def test_the_keys_of_hashes_are_drawn_anew() -> None:
    again = runpy.run_path(kernels.__file__)["_KEYS"]
    assert len({*again.tolist(), *kernels._KEYS.tolist()}) == 6
