"""Heaps of runtimes that wait at their start, that answer nothing, or that never come; and paths where there is no file."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.heap.made import heap_from, holding, two_of_one_name
from tests.nettrace.recordings import data_of

import dotnetdiag as dd
from dotnetdiag.cli.gcdump_watch import _show as show_watched
from dotnetdiag.errors import DiagnosticsError, InputError, TimedOut, UsageError
from dotnetdiag.heap import Completeness, Heap
from dotnetdiag.recipes import heap_collect, heap_watch
from dotnetdiag.recipes.heap_collect import CollectedHeap, HeapObserver, HeapOptions, collect_heap
from dotnetdiag.recipes.heap_convert import write_collected
from dotnetdiag.recipes.heap_files import looks_like_file
from dotnetdiag.recipes.heap_watch import Suspect, WatchedHeaps, _Seen, held_below, watch_heaps
from dotnetdiag.recipes.target import Target
from dotnetdiag.testing import Runtime

SOON_S = 10.0


def test_a_runtime_that_waits_at_our_port_is_let_run_before_it_is_walked(tmp_path: Path) -> None:
    runtimes = []

    def dial(address: str) -> None:
        runtimes.append(Runtime("10", connect=address, suspended=True, replay=data_of("heap-10.nettrace")))

    options = HeapOptions(target=Target(port=str(tmp_path / "port")), timeout=SOON_S)
    try:
        heap = collect_heap(options, HeapObserver(waiting=dial)).heap
        assert not runtimes[0].is_suspended
    finally:
        for runtime in runtimes:
            runtime.close()
    assert heap.completeness.complete
    assert heap.nodes == 3342


def test_a_runtime_that_is_not_ready_to_walk_is_asked_again(tmp_path: Path) -> None:
    runtimes = []

    def dial(address: str) -> None:
        runtimes.append(Runtime("10", connect=address, suspended=True, replay=data_of("heap-10.nettrace")))

    observer = HeapObserver(
        waiting=dial,
        started=lambda _: runtimes[0].misbehave("*", "silent"),
        again=lambda _: runtimes[0].misbehave("*", None),
    )
    try:
        done = collect_heap(HeapOptions(target=Target(port=str(tmp_path / "port")), timeout=1), observer)
    finally:
        for runtime in runtimes:
            runtime.close()
    assert (done.attempts, done.heap.nodes) == (2, 3342)


def test_the_timeout_holds_for_every_answer(tmp_path: Path) -> None:
    with Runtime("10", listen=tmp_path / "r", misbehave={"*": "silent"}) as runtime:
        began = time.monotonic()
        with pytest.raises(TimedOut):
            dd.heap(f"{runtime.address},connect", timeout=0.5)
        with dd.Client.connect(f"{runtime.address},connect") as client:
            before = client.timeout_s
            with pytest.raises(TimedOut):
                dd.heap(client, timeout=0.5)
            assert client.timeout_s == before
        assert time.monotonic() - began < SOON_S


def test_who_says_nothing_is_not_waited_for_twice(tmp_path: Path) -> None:
    """What was spent on who it is counts, too: it took 8 s."""
    with Runtime("10", listen=tmp_path / "r", misbehave={"*": "silent"}) as runtime:
        began = time.monotonic()
        with pytest.raises(TimedOut):
            dd.heap(f"{runtime.address},connect", timeout=4.0)
        assert time.monotonic() - began < 7.0


def test_the_timeout_holds_for_a_runtime_that_never_comes(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(TimedOut, match="no runtime came within"):
        dd.heap(f"{tmp_path}/port,listen", timeout=0.3)
    with pytest.raises(TimedOut, match="no runtime came within"):
        watch_heaps(Target(wait_for="no such program"), every="1s", timeout="300ms")
    assert time.monotonic() - began < SOON_S
    assert not (tmp_path / "port").exists()


def test_a_path_where_nothing_is_is_a_file_that_is_missing(tmp_path: Path) -> None:
    for text in (f"{tmp_path}/dump-of-monday", str(tmp_path)):
        with pytest.raises(InputError):
            dd.heap(text, timeout=2)
    assert os.listdir(tmp_path) == []
    with pytest.raises(DiagnosticsError):
        dd.heap("a name that no process has")


@pytest.mark.parametrize(
    ("text", "is_file"),
    [
        ("app.gcdump", True), ("/no/dump", True), ("C:\\dumps\\monday", True), ("./x", True), ("name", False),
        ("/run/port,listen", False), ("/run/port, connect", False), ("uds:/run/port", False), ("host:9000", False),
        ("tcp://host:9000", False), ("net.tcp://host:9000", False), ("\\\\.\\pipe\\x", False), ("1234", False),
    ],
)  # fmt: skip
def test_files_are_told_from_ports(text: str, is_file: bool) -> None:
    assert looks_like_file(text) == is_file


def test_the_formats_that_a_heap_is_collected_into_are_named(tmp_path: Path) -> None:
    options = HeapOptions(target=Target(pid=os.getpid()))
    with (
        pytest.raises(UsageError, match=r"there are: \.gcdump.*\.nettrace"),
        write_collected(options, tmp_path / "x.xyz", force=False),
    ):
        pass


def suspect(name: str, *path: str) -> Suspect:
    return Suspect(row={"type": name}, path=(*path, name))


def held(suspects: list[Suspect]) -> list[tuple[str, str | None]]:
    return [(one.row["type"], one.held_by) for one in suspects]


def test_suspects_stand_below_those_that_hold_them() -> None:
    found = held_below(
        [
            suspect("A[]", "Root"), suspect("X", "Root"), suspect("A", "Root", "A[]"), suspect("B", "A[]", "A"),
        ]
    )  # fmt: skip
    assert held(found) == [("A[]", None), ("A", "A[]"), ("B", "A"), ("X", None)]


def test_what_holds_the_one_that_grew_most_comes_first() -> None:
    found = held_below(
        [suspect("Session", "Root", "Session[]"), suspect("X", "Root"), suspect("Session[]", "Root"), suspect("Y", "X")]
    )
    assert held(found) == [("Session[]", None), ("Session", "Session[]"), ("X", None), ("Y", "X")]


def test_suspects_of_one_name_are_not_one() -> None:
    found = held_below([suspect("Foo", "Root", "A"), suspect("Foo", "Root", "B"), suspect("B", "Root")])
    assert [(one.row["type"], one.path[1], one.held_by) for one in found] == [
        ("Foo", "A", None),
        ("B", "B", None),
        ("Foo", "B", "B"),
    ]


def test_suspects_in_a_circle_stand_below_the_one_that_is_nearest_to_the_roots() -> None:
    """Handlers of a static event, a tree, what hangs on them, and something small beside."""
    found = held_below(
        [
            suspect("Object[]", "Root", "[static var Action.Tick]", "Action"),
            suspect("Action", "Root", "[static var Action.Tick]", "Action", "Object[]"),
            suspect("List", "Root", "Tree", "List", "Tree[]", "Tree"), suspect("Tree[]", "Root", "Tree", "List"),
            suspect("Tree", "Root", "Tree", "List", "Tree[]"), suspect("Subscriber", "Root", "Action", "Object[]", "Action"),
            suspect("Byte[]", "Root", "Subscriber"), suspect("String", "Root"),
        ]
    )  # fmt: skip
    assert held(found) == [
        ("Action", None), ("Object[]", "Action"), ("Subscriber", "Action"), ("Byte[]", "Subscriber"),
        ("Tree", None), ("List", "Tree"), ("Tree[]", "List"), ("String", None),
    ]  # fmt: skip
    assert found[0].path == ("Root", "[static var Action.Tick]", "Action", "Object[]", "Action")


def test_of_a_circle_that_is_entered_at_several_the_first_holds_the_others() -> None:
    assert held(held_below([suspect("C", "D"), suspect("D", "C")])) == [("C", None), ("D", "C")]
    assert held(held_below([suspect("D", "Root", "C"), suspect("C", "Root", "D")])) == [("D", None), ("C", "D")]


@pytest.fixture
def all_suspected(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little they grow: the heaps here are small."""
    monkeypatch.setattr(heap_watch, "LEAST_GROWN", 1)


@pytest.mark.usefixtures("all_suspected")
@pytest.mark.parametrize("leaks", ["event", "tree"])
def test_the_way_to_types_that_hold_each_other_is_shown(leaks: str) -> None:
    seen = _Seen()
    for count in (1, 5, 30):
        heap = handlers(count) if leaks == "event" else tree(count)
        seen.take(CollectedHeap(heap=heap, pid=1, size_bytes=0, duration_s=0.0, attempts=1), 0.0)
    first, *others = seen.result(None).suspects
    assert (first.row["type"], first.held_by) == ("Action" if leaks == "event" else "Tree", None)
    assert first.path[:2] == ("Root", "[static var Leak]")
    assert [one.row["type"] for one in others if one.held_by is None] == ["Small"]


def handlers(count: int) -> Heap:
    """An event whose list of handlers holds delegates of the type of its own; and something else that grows a little."""
    types = ["Root", "[static var Leak]", "Action", "Object[]", *["Action"] * count, "Small"]
    edges = [(0, 1), (1, 2), (2, 3), *((3, 4 + at) for at in range(count)), (0, 4 + count)]
    return heap_from(types, edges, sizes=[0, 0, 64, 24 + 8 * count, *[64] * count, count])


def tree(count: int) -> Heap:
    """A tree whose nodes keep theirs in lists."""
    types = ["Root", "[static var Leak]", "Tree", "List", "Tree[]", *["Tree", "List"] * count, "Small"]
    edges = [(0, 1), (1, 2), (2, 3), (3, 4), (0, 5 + 2 * count)]
    edges += [pair for at in range(5, 5 + 2 * count, 2) for pair in ((4, at), (at, at + 1))]
    return heap_from(types, edges, sizes=[0, 0, 24, 32, 24 + 8 * count, *[24, 32] * count, count])


def test_what_grows_once_by_a_few_bytes_is_no_suspect() -> None:
    """As in an idle process, where one thread comes: but what grows a little each time is one."""

    def suspected(*sizes: int) -> bool:
        seen = _Seen()
        for size in sizes:
            heap = heap_from(["Root", "Small"], [(0, 1)], sizes=[0, size])
            seen.take(CollectedHeap(heap=heap, pid=1, size_bytes=0, duration_s=0.0, attempts=1), 0.0)
        return len(seen.result(None).suspects) > 0

    assert [suspected(24, 24, 24, 96), suspected(24, 24, 24, 2000)] == [False, True]
    assert suspected(24, 48, 72, 96)


@pytest.mark.usefixtures("all_suspected")
def test_a_suspect_is_held_by_what_grew_and_not_by_what_holds_most() -> None:
    seen = _Seen()
    for leaked in (1, 3, 9):
        heap = holding(leaked)
        seen.take(CollectedHeap(heap=heap, pid=1, size_bytes=0, duration_s=0.0, attempts=1), 0.0)
    (suspect,) = seen.result(None).suspects
    assert suspect.row["type"] == "Byte[]"
    assert suspect.path == ("Root", "Leak", "Byte[]")


def watched(*heaps: tuple[int, bool]) -> WatchedHeaps:
    """Of heaps that have leaked so much, and whether they are complete."""
    seen = _Seen()
    for leaked, is_complete in heaps:
        heap = holding(leaked)
        if not is_complete:
            heap = replace(heap, completeness=Completeness(problems=("10 events were lost",)))
        seen.take(CollectedHeap(heap=heap, pid=1, size_bytes=0, duration_s=0.0, attempts=1), 0.0)
    return seen.result(None)


@pytest.mark.usefixtures("all_suspected")
def test_heaps_that_are_not_complete_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing of one has neither gone nor come."""
    whole = [(leaked, True) for leaked in (10, 20, 40, 80)]
    expected, made = watched(*whole), watched(whole[0], whole[1], (5, False), whole[2], whole[3])
    assert made.suspects == expected.suspects
    assert (made.compared, len(made.samples), made.to_json()["compared"]) == (4, 5, 4)
    show_watched(made)
    assert (
        "\nOf 5 heaps 1 is not complete, and not compared.\n\nTypes that only grow, of 4 heaps:\n"
        in capsys.readouterr().out
    )
    for heaps, said in (
        (
            [(5, False), (10, True)],
            "Of 2 heaps 1 is not complete, and not compared.\nOne heap to compare: what grows is seen in two or more.",
        ),
        (
            [(5, False), (9, False)],
            "Of 2 heaps 2 are not complete, and not compared.\nNo heap to compare: what grows is seen in two or more.",
        ),
    ):
        idle = watched(*heaps)
        assert (idle.growing, idle.suspects) == (None, ())
        show_watched(idle)
        assert capsys.readouterr().out.strip() == said


def test_that_another_session_was_told_of_types_is_not_said_of_a_walk_that_was_cut() -> None:
    """They come last."""
    for problems, is_nameless in (
        (("3 types have no name",), True),
        (("the end of the collection was not seen", "3 types have no name"), False),
        ((), False),
    ):
        heap = replace(holding(1), completeness=Completeness(problems=problems))
        assert heap_collect._is_nameless(heap) == is_nameless


@pytest.mark.usefixtures("all_suspected")
def test_suspects_of_one_name_have_ways_of_their_own() -> None:
    seen = _Seen()
    for count in (5, 50, 500):
        heap = two_of_one_name("HolderA", count, 2 * count)
        seen.take(CollectedHeap(heap=heap, pid=1, size_bytes=0, duration_s=0.0, attempts=1), 0.0)
    assert {(one.row["module"], one.path[1]) for one in seen.result(None).suspects} == {
        ("a.dll", "HolderA"),
        ("b.dll", "HolderB"),
    }


@pytest.mark.parametrize("answers", [True, False])
def test_a_recording_of_what_came_is_kept_whether_the_next_session_tells_something_or_not(
    tmp_path: Path, answers: bool
) -> None:
    """It was emptied for the next, which a process that has ended does not answer."""
    data, path = data_of("heap-10.nettrace")[:-1], tmp_path / "heap.nettrace"  # without its end
    with Runtime("10", listen=tmp_path / "r", replay=data) as runtime:
        observer = HeapObserver(again=lambda _: None if answers else runtime.misbehave("*", "close:0"))
        options = HeapOptions(target=Target(port=f"{runtime.address},connect"), timeout=SOON_S)
        with write_collected(options, path, force=False) as writing:
            done = collect_heap(writing.options, observer)
            _, size = writing.finish(done, path)
    assert done.session == (done.attempts if answers else 1)
    assert done.attempts > 1
    assert path.read_bytes() == data
    assert (size, done.size_bytes, done.heap.completeness.complete) == (len(data), len(data), False)
