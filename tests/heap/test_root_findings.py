"""Roots that keep much alive: several static variables together, variables of threads, the finalizer's queue, a kind; and what is too little."""

from __future__ import annotations

import pytest
from tests.heap.help import heap_of
from tests.heap.made import advice, heap_from, with_pseudo_nodes
from tests.nettrace.recordings import data_of

from dotnetdiag.heap import Heap
from dotnetdiag.heap.holders import DEPENDENT, FINALIZER, LOCALS, OTHERS, PINNING, ROOTS, STATICS, STRONG
from dotnetdiag.heap.root_findings import ROOTS_SHARE, STATIC_BYTES, TOGETHER_BYTES

BY_NAME, BY_DATE = "[static var Index.byName]", "[static var Index.byDate]"
CORE = "/usr/share/dotnet/shared/Microsoft.NETCore.App/10.0.0/System.Private.CoreLib.dll"
ARRAY = "System.Object[]"


pytestmark = pytest.mark.usefixtures("form")


def two_indexes(
    items: int, *, size: int = 1000, kinds: int = 1, with_places: bool = False, also_of: str | None = None
) -> Heap:
    """Two static variables whose arrays have the same items; these are of some types, and something else may hold all of them too."""
    types = [ROOTS, STATICS, BY_NAME, BY_DATE, "Index", "Index", "B[]", "B[]", OTHERS, STRONG, ARRAY, also_of or "None"]
    first = len(types)
    types += [f"B{item % kinds}" if kinds > 1 else "B" for item in range(items)]
    edges = [(0, 1), (0, 8), (8, 9), (9, 10), (1, 2), (1, 3), (2, 4), (3, 5), (4, 6), (5, 7)]
    edges += [(array, first + item) for array in (6, 7) for item in range(items)]
    if with_places:
        edges += [(10, 4), (10, 5)]
    if also_of is not None:
        edges += [(0, 11), *((11, first + item) for item in range(items))]
    sizes = [0, 0, 0, 0, 24, 24, 24 + 8 * items, 24 + 8 * items, 0, 0, 8184, 0, *[size] * items]
    return with_pseudo_nodes(heap_from(types, edges, sizes=sizes))


@pytest.mark.parametrize("with_places", [False, True])
def test_what_two_statics_hold_together_is_named_with_both(with_places: bool) -> None:
    """Also where the runtime's own array of static variables holds both."""
    heap = two_indexes(500, with_places=with_places)
    assert advice(heap, "static") == [("B", 500, 500_000)]
    (text,) = heap.advice.values("advice")
    assert text.startswith(
        "500 B keep 500,000 bytes alive, 96.8 % of the heap, and can be reached only through several static variables"
    )
    assert "Index.byName and Index.byDate: if it only grows, it is a leak" in text


def test_what_something_else_holds_too_is_not_said_to_be_held_by_statics() -> None:
    assert advice(two_indexes(500, also_of=LOCALS), "static") == []
    assert advice(two_indexes(500, also_of="Cache"), "static") == []
    for one in (LOCALS, "Cache"):
        heap = two_indexes(500, also_of=one)
        assert advice(heap, "roots") == [("B", 500, 500_000)]
        (text,) = heap.advice.values("advice")
        assert "can be reached from several roots, such as [static var Index.by" in text
    assert advice(two_indexes(200, also_of=LOCALS), "roots") == []


def test_what_hangs_on_the_root_itself_is_not_said_to_hang_on_several() -> None:
    """As in files that do not tell of kinds of roots."""
    heap = heap_from([ROOTS, "A", "B"], [(0, 1), (0, 2), (1, 2)], sizes=[0, 24, 4 * TOGETHER_BYTES])
    assert len(heap.advice) == 0


def test_what_two_statics_hold_is_told_where_no_type_has_much_of_it() -> None:
    ((subject, count, size),) = advice(two_indexes(500, kinds=50), "static")
    assert (subject, count, size) == ("B0", 500, 500_000)
    (text,) = two_indexes(500, kinds=50).advice.values("advice")
    assert text.startswith("500 objects of 50 types (most of it: B0) keep 500,000 bytes alive")


def test_what_one_variable_refers_to_is_not_told_of_several_again() -> None:
    types = [ROOTS, STATICS, BY_NAME, BY_DATE, "List", "B"]
    heap = heap_from(types, [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 5)], sizes=[0, 0, 0, 0, 32, TOGETHER_BYTES])
    found = advice(with_pseudo_nodes(heap), "static")
    assert found == [("Index.byName", 1, 32 + TOGETHER_BYTES), ("Index.byDate", 1, 32 + TOGETHER_BYTES)]


def test_little_is_told_of_no_root() -> None:
    """Whatever share of a small heap it is; and a small share of a large one."""
    assert len(two_indexes(200).advice) == 0
    small = heap_from([ROOTS, STATICS, BY_NAME, "B"], [(0, 1), (1, 2), (2, 3)], sizes=[0, 0, 0, STATIC_BYTES - 1])
    assert len(small.advice) == 0
    assert len(of_finalizer(TOGETHER_BYTES - 1, 0).advice) == 0
    assert len(of_finalizer(TOGETHER_BYTES, 20 * TOGETHER_BYTES).advice) == 0
    assert advice(of_thread(LOCALS, TOGETHER_BYTES - 1), "thread static") == []
    assert len(of_thread(LOCALS, TOGETHER_BYTES // 2).advice) == 0
    assert len(of_kind(LOCALS, TOGETHER_BYTES - 1).advice) == 0
    size = 4 * TOGETHER_BYTES
    assert len(of_kind(LOCALS, size, rest=int(size / ROOTS_SHARE) - size + 100).advice) == 0


def of_finalizer(size: int, rest: int) -> Heap:
    types = [ROOTS, OTHERS, FINALIZER, "Fin", "Fin", "Byte[]", "Shared", "Rest"]
    edges = [(0, 1), (1, 2), (2, 3), (2, 4), (3, 5), (4, 6), (0, 6), (0, 7)]
    return with_pseudo_nodes(heap_from(types, edges, sizes=[0, 0, 0, 24, 24, max(size - 48, 0), 5000, rest]))


def test_what_only_the_finalizers_queue_holds_is_told() -> None:
    size = 2 * TOGETHER_BYTES
    heap = of_finalizer(size, 1000)
    assert advice(heap, "finalizer") == [(FINALIZER, 2, size)]
    (text,) = heap.advice.values("advice")
    assert text.startswith(
        f"2 objects wait for their finalizers and keep {size:,} bytes alive, 98.9 % of the heap, that nothing else holds"
    )
    assert "most of it by Fin:" in text


def of_thread(holder: str, size: int, *, nested: bool = False, places: int = 10) -> Heap:
    """An array of a root of some kind, which may hold another, in which a thread's variables are."""
    types = [ROOTS, holder, ARRAY, *[ARRAY] * nested, "List", "B"]
    edges = [(number, number + 1) for number in range(len(types) - 1)]
    sizes = [0, 0, *[8 * (places + 3)] * (1 + nested), 32, max(size - 32, 0)]
    return with_pseudo_nodes(heap_from(types, edges, sizes=sizes))


@pytest.mark.parametrize(("holder", "nested"), [(LOCALS, True), (STRONG, False), (LOCALS, False)])
def test_what_variables_of_threads_hold_is_told_as_the_runtime_keeps_it(holder: str, nested: bool) -> None:
    heap = of_thread(holder, TOGETHER_BYTES, nested=nested)
    assert advice(heap, "thread static") == [("List", 1, TOGETHER_BYTES)]
    (text,) = heap.advice.values("advice")
    assert "as the runtime keeps [ThreadStatic] variables" in text


def test_an_array_of_the_runtimes_static_variables_is_none_of_a_thread() -> None:
    assert advice(of_thread(STRONG, TOGETHER_BYTES, places=1020), "thread static") == []


def of_kind(holder: str, size: int, *, rest: int = 0, places: int = 0) -> Heap:
    """Roots of a kind that hold sessions, and a little of another type, which may be in an array of objects."""
    types = [ROOTS, holder, *[ARRAY] * (places > 0), "Session[]", "Session", "Text", "Rest"]
    above = 1 + (places > 0)
    edges = [(0, 1), (1, 2), (above, above + 1), (above, above + 3), (above + 1, above + 2), (0, above + 4)]
    sizes = [0, 0, *[8 * (places + 3)] * (places > 0), 1000, size - 1100, 100, rest]
    return with_pseudo_nodes(heap_from(types, list(dict.fromkeys(edges)), sizes=sizes))


@pytest.mark.parametrize(
    ("holder", "means"),
    [
        (LOCALS, "variables of methods that run"),
        (STRONG, "static variables of generic classes"),
        (PINNING, "handles of the program's"),
        (DEPENDENT, "a ConditionalWeakTable"),
    ],
)
def test_what_roots_of_a_kind_keep_alive_is_told(holder: str, means: str) -> None:
    size = TOGETHER_BYTES
    heap = of_kind(holder, size, rest=size)
    assert advice(heap, "roots") == [(holder, 2, size)]
    (text,) = heap.advice.values("advice")
    assert text.startswith(f"{holder} keep {size:,} bytes alive, 50.0 % of the heap, most of it by Session[]: ")
    assert means in text


def test_what_is_in_an_array_of_the_runtimes_is_told_by_its_own_type() -> None:
    """Static variables of generic classes, of which the runtime does not tell."""
    heap = of_kind(STRONG, TOGETHER_BYTES, places=1020)
    assert advice(heap, "roots") == [(STRONG, 2, TOGETHER_BYTES + 8 * 1023)]
    assert "most of it by Session[]" in heap.advice.values("advice")[0]


def test_a_program_that_does_little_has_no_kind_of_roots_to_be_told() -> None:
    assert advice(heap_of(data_of("heap-10.nettrace")), "roots") == []


def test_what_is_told_of_threads_or_of_the_finalizer_is_not_told_of_their_roots() -> None:
    assert advice(of_thread(LOCALS, 4 * TOGETHER_BYTES), "roots") == []
    assert advice(of_finalizer(4 * TOGETHER_BYTES, 0), "roots") == []


def of_variable(variable: str, kinds: list[tuple[str, str | None]]) -> str:
    """The advice on a static variable that holds an object of the first type, which holds one of each other type."""
    types = [ROOTS, STATICS, f"[static var {variable}]", *(name for name, _ in kinds)]
    edges = [(0, 1), (1, 2), (2, 3), *((3, 3 + number) for number in range(1, len(kinds)))]
    modules = [None, None, None, *(module for _, module in kinds)]
    sizes = [0, 0, 0, *[STATIC_BYTES] * len(kinds)]
    (text,) = with_pseudo_nodes(heap_from(types, edges, sizes=sizes, modules=modules)).advice.values("advice")
    return str(text)


@pytest.mark.parametrize(
    ("variable", "kinds", "is_leak"),
    [
        ("SyncTextWriter.s_out", [("SyncTextWriter", CORE), ("System.Byte[]", None)], False),
        ("System.Globalization.CultureData.<Invariant>k__BackingField", [("System.Globalization.CultureData", CORE)], False),
        ("System.Net.Http.HttpClient.client", [("System.Net.Http.HttpClient", CORE), ("App.Handler", "/app/App.dll")], True),
        ("System.Net.Http.HttpClient.client", [("System.Net.Http.HttpClient", CORE), ("App.Handler[]", None)], True),
        ("App.Session.last", [("App.Session", "/app/App.dll")], True),
        ("System.Text.StringBuilder.log", [("System.Text.StringBuilder", CORE)], True),
        ("System.Byte[].pooled", [("System.Byte[]", CORE)], True),
        ("System.Action.Tick", [("System.Action", CORE)], True),
        ("System.Collections.Generic.List<System.String>.names", [("System.Collections.Generic.List<System.String>", CORE)], True),
        ("Timer.all", [("Timer", "Module(0x7f00)")], True),
    ],
)  # fmt: skip
def test_a_variable_of_a_class_of_the_framework_is_the_frameworks(
    variable: str, kinds: list[tuple[str, str | None]], is_leak: bool
) -> None:
    """Where all that it keeps alive is of the framework's types too, and programs hardly keep their data in such a class."""
    assert of_variable(variable, kinds).endswith("it is a leak") == is_leak
