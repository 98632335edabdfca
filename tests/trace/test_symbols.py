"""Addresses to names: what TraceEvent made of the recordings, and the cases that recordings do not hold."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nettrace.recordings import FOLDER, data_of, recordings
from tests.trace.made import RUNDOWN, RUNTIME, MadeTrace, names_at, varuint, z16

from dotnetdiag.events import resolve
from dotnetdiag.nettrace import Contents, ThreadInfo, read
from dotnetdiag.trace.address_space import process_ids
from dotnetdiag.trace.frame import FrameKind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.stack_tree import build_stack_tree
from dotnetdiag.trace.symbol_events import symbol_events
from dotnetdiag.trace.symbols import build_symbols

# recordings, as TraceEvent resolved them ------------------------------------------------------------------------------

SYMBOLISED = [name for name in recordings() if (FOLDER / f"{name.rpartition('.')[0]}.stacks.jsonl.gz").exists()]

REFERENCE_IS_WRONG: dict[tuple[str, str, str], str] = {}
"""(recording, its frame, our frame) → why. There is none so far; the two rules that could make one are: we look up
return addresses one byte before, and name code by the time at which it was there.
"""


def _reference(name: str) -> Iterator[dict[str, Any]]:
    with gzip.open(FOLDER / f"{name.rpartition('.')[0]}.stacks.jsonl.gz", "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


def _stacks_by_event(contents: Contents) -> dict[tuple[str, str, int, float], list[int]]:
    """Rows by (provider, event, thread, ms)."""
    headers, info = contents.headers, contents.info
    assert info is not None
    names = {number: resolve(record).name for number, record in contents.metadata.items()}
    by_event: dict[tuple[str, str, int, float], list[int]] = defaultdict(list)
    for row, (kind, thread, ticks) in enumerate(
        zip(headers.metadata_id.tolist(), headers.thread.tolist(), headers.time.tolist(), strict=True)
    ):
        if contents.threads:
            thread = contents.threads[thread].os_thread_id
        ms = round((ticks - info.sync_ticks) * 1000 / info.frequency, 6)
        for name in {names[kind], "*"}:
            by_event[contents.metadata[kind].provider, name, thread, ms].append(row)
    return by_event


@pytest.mark.parametrize("name", SYMBOLISED)
def test_stacks_of_recordings_are_frame_by_frame_those_of_traceevent(name: str) -> None:
    contents = read(data_of(name))
    headers = contents.headers
    symbols = build_symbols(contents, contents.buffer)
    processes = process_ids(contents.threads, headers.thread)
    tree = build_stack_tree(contents.stacks, symbols, headers.stack, headers.time, processes)
    leaves = tree.leaves(headers.stack, headers.time, processes)
    printed = symbols.frame_names(Style.TRACEEVENT)
    by_event = _stacks_by_event(contents)
    compared = 0
    for entry in _reference(name):
        key = entry["provider"], entry["event"], entry["tid"], entry["ms"]
        rows = by_event.get(key) or by_event[key[0], "*", *key[2:]]
        ours = [[printed[frame] for frame in tree.path(int(leaves[row]))] for row in rows]
        theirs = entry["frames"]
        excused = [
            [theirs[at] if (name, theirs[at], frame) in REFERENCE_IS_WRONG else frame for at, frame in enumerate(stack)]
            for stack in ours
            if len(stack) == len(theirs)
        ]
        assert theirs in excused, (key, theirs, ours)
        compared += 1
    assert compared
    assert len(tree) > 1


def test_recordings_with_stacks_are_there() -> None:
    assert not recordings() or SYMBOLISED


# what recordings do not hold ------------------------------------------------------------------------------------------


def test_a_method_is_printed_with_module_type_and_parameters() -> None:
    made = MadeTrace()
    made.module(1, "/app/bin/My.App.dll")
    made.method(
        0x1000, 0x100, "Run", type_name="My.App.Program", signature="instance void  (int32,class System.String)"
    )
    assert names_at(made.symbols(), [0x1000, 0x10FF]) == ["My.App!My.App.Program.Run(int32,class System.String)"] * 2


def test_a_leaf_is_looked_up_where_it_is_and_a_return_address_one_byte_before() -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    made.method(0x1000, 0x100, "First")
    made.method(0x1100, 0x100, "Second")
    symbols = made.symbols()
    assert names_at(symbols, [0x1100]) == ["a!Some.Type.Second()"]
    assert names_at(symbols, [0x1100], exact=np.zeros(1, np.bool_)) == ["a!Some.Type.First()"]
    assert names_at(symbols, [0x1100], exact=None) == ["a!Some.Type.First()"]


def test_an_address_behind_the_last_method_is_one_only_as_a_return_address_of_its_last_call() -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    made.method(0x1000, 0x100, "Throw")
    assert names_at(made.symbols(), [0x1100, 0x1101, 0xFFF, 0]) == ["a!Some.Type.Throw()", "!0x1101", "!0xfff", "!0x0"]


def test_a_range_given_to_another_method_is_told_apart_by_time() -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    made.load(0x1000, 0x100, "Old", 10)
    made.unload(0x1000, 0x100, "Old", 20)
    made.load(0x1080, 0x100, "New", 30)
    made.method(0x1080, 0x100, "New", time=100)
    symbols = made.symbols()
    where, when = [0x1090] * 5, [0, 10, 19, 30, 99]
    found = [name.rpartition(".")[2] for name in names_at(symbols, where, when)]
    assert found == ["Old()", "Old()", "Old()", "New()", "New()"]
    assert names_at(symbols, [0x1010, 0x1150], [99, 0]) == ["a!Some.Type.Old()", "a!Some.Type.New()"]
    assert names_at(symbols, [0x1090]) == ["a!Some.Type.New()"], "without a time it is the last"


def test_code_whose_load_event_comes_late_belongs_to_the_method_that_comes() -> None:
    made = MadeTrace()
    made.load(0x1000, 0x100, "Old", 10)
    made.unload(0x1000, 0x100, "Old", 20)
    made.load(0x1000, 0x100, "New", 30)
    assert names_at(made.symbols(), [0x1050], [25]) == ["ManagedModule!Some.Type.New()"]


def test_rundown_gives_way_to_a_load_seen_later_and_comes_back_after_its_unload() -> None:
    made = MadeTrace()
    made.load(0x1000, 0x100, "Short", 100)
    made.unload(0x1000, 0x100, "Short", 200)
    made.method(0x1000, 0x100, "Known", time=900)
    found = names_at(made.symbols(), [0x1050] * 3, [50, 150, 250])
    assert found == [
        "ManagedModule!Some.Type.Known()",
        "ManagedModule!Some.Type.Short()",
        "ManagedModule!Some.Type.Known()",
    ]


def test_an_unload_alone_says_that_the_method_was_there_until_then() -> None:
    made = MadeTrace()
    made.unload(0x1000, 0x100, "Gone", 100)
    made.method(0x1000, 0x100, "Came", time=900)
    assert names_at(made.symbols(), [0x1050] * 2, [99, 100]) == [
        "ManagedModule!Some.Type.Gone()",
        "ManagedModule!Some.Type.Came()",
    ]


def test_a_method_that_is_loaded_again_at_its_old_place_has_two_times() -> None:
    made = MadeTrace()
    for name, begin, end in (("A", 10, 20), ("B", 20, 30), ("A", 30, 40)):
        made.load(0x1000, 0x100, name, begin)
        made.unload(0x1000, 0x100, name, end)
    found = names_at(made.symbols(), [0x1050] * 3, [15, 25, 35])
    assert [name[-3:] for name in found] == ["A()", "B()", "A()"]


def test_tiers_have_ranges_of_their_own_and_are_one_frame() -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    for start in (0x1000, 0x5000, 0x9000):
        made.load(start, 0x100, "Hot", start, method_id=77, version=2)
    symbols = made.symbols()
    frames = symbols.resolve(np.array([0x1001, 0x5001, 0x9001], np.uint64))
    assert len(set(frames.tolist())) == 1
    assert symbols.ranges == 3


@pytest.mark.parametrize("event", [(RUNTIME, 141), (RUNDOWN, 141), (RUNDOWN, 142)])
def test_an_event_without_names_takes_them_from_another_of_the_same_method(event: tuple[str, int]) -> None:
    made = MadeTrace()
    made.module(1, "a.dll")
    made.method(0x1000, 0x10, "Cold", method_id=5)
    made.method(0x2000, 0x10, "", method_id=5, event=event, verbose=False)
    made.method(0x3000, 0x10, "", method_id=6, event=event, verbose=False)
    symbols = made.symbols()
    assert names_at(symbols, [0x2000, 0x3000]) == ["a!Some.Type.Cold()", "a!0x3000"]
    assert symbols.unresolved().tolist() == [False, True]


@pytest.mark.parametrize("event", [(RUNTIME, 143), (RUNTIME, 144), (RUNDOWN, 143), (RUNDOWN, 144)])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_every_verbose_event_in_every_version_gives_a_name(event: tuple[str, int], version: int) -> None:
    made = MadeTrace()
    made.method(0x1000, 0x10, "Name", event=event, version=version)
    assert names_at(made.symbols(), [0x1008]) == ["ManagedModule!Some.Type.Name()"]


def test_a_module_id_used_twice_is_told_apart_by_time() -> None:
    made = MadeTrace()
    made.module(1, "/x/first.dll", time=5, event=(RUNTIME, 152))
    made.module(1, "/x/first.dll", time=50, event=(RUNTIME, 153))
    made.module(1, "/x/second.dll", time=60, event=(RUNTIME, 152))
    made.load(0x1000, 0x10, "A", 10)
    made.load(0x2000, 0x10, "B", 70)
    assert names_at(made.symbols(), [0x1001, 0x2001]) == ["first!Some.Type.A()", "second!Some.Type.B()"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/usr/lib/System.Private.CoreLib.dll", "System.Private.CoreLib"),
        (r"C:\app\Main.EXE", "Main"),
        ("Anonymously Hosted DynamicMethods Assembly", "Anonymously Hosted DynamicMethods Assembly"),
        ("", ""),
    ],
)
def test_a_module_is_named_by_its_file(path: str, shown: str) -> None:
    made = MadeTrace()
    made.module(1, path)
    made.method(0x1000, 0x10, "A")
    symbols = made.symbols()
    assert names_at(symbols, [0x1001]) == [f"{shown or 'ManagedModule'}!Some.Type.A()"]
    assert symbols.frame(0).module_path == path


def test_addresses_of_32_bit_traces_are_found() -> None:
    made = MadeTrace(pointer_size=4)
    made.method(0xFFFF0000, 0x10, "High")
    assert names_at(made.symbols(), [0xFFFF0001]) == ["ManagedModule!Some.Type.High()"]


def test_broken_payloads_and_impossible_ranges_are_left_out() -> None:
    made = MadeTrace()
    made.method(0x1000, 0x10, "Good")
    made.event(RUNDOWN, 144, b"\1\2\3", 0)
    made.method(0x2000, 0, "Empty")
    made.method(0xFFFFFFFFFFFFFFF0, 0xFFFFFFFF, "Beyond")
    symbols = made.symbols()
    assert names_at(symbols, [0x1001, 0x2000, 0xFFFFFFFFFFFFFFFF]) == [
        "ManagedModule!Some.Type.Good()",
        "!0x2000",
        "!0xffffffffffffffff",
    ]


def test_a_trace_without_symbols_names_addresses_by_themselves() -> None:
    symbols = MadeTrace().symbols()
    assert names_at(symbols, [0x1234, 0x1234, 0x5]) == ["!0x1234", "!0x1234", "!0x5"]
    assert len(symbols) == 2
    assert symbols.frame_names(Style.SHORT) == ["?!0x1234", "?!0x5"]


def test_ranges_nested_by_the_thousand_cost_no_more_than_they_should() -> None:
    made = MadeTrace()
    count = 3000
    for number in range(count):
        made.method(0x1000 + number, 4 * count - 2 * number, f"N{number}", method_id=number)
    found = names_at(made.symbols(), [0x1000, 0x1000 + count])
    assert found[0] == "ManagedModule!Some.Type.N0()"
    assert found[1].startswith("ManagedModule!Some.Type.N")


def test_odd_names_come_through_whole() -> None:
    odd = ["x" * 10_000, 'say "hi" </script>', "lone \ud800 surrogate", "line\nbreak", "日本語"]
    made = MadeTrace()
    for number, name in enumerate(odd):
        made.method(0x1000 * (number + 1), 0x10, name, method_id=number, type_name=f"T<{name}>")
    symbols = made.symbols()
    assert names_at(symbols, [0x1000 * (number + 1) for number in range(len(odd))]) == [
        f"ManagedModule!T<{name}>.{name}()" for name in odd
    ]
    for style in Style:
        assert all(symbols.frame_names(style))


def test_pseudo_frames_are_what_they_are_called() -> None:
    symbols = MadeTrace().symbols()
    cpu = symbols.pseudo_frame("CPU_TIME")
    assert symbols.pseudo_frame("CPU_TIME") == cpu
    assert symbols.frame(cpu).kind is FrameKind.PSEUDO
    assert {symbols.frame_name(cpu, style) for style in Style} == {"CPU_TIME"}


# entry points of precompiled code -------------------------------------------------------------------------------------


def _entry(made: MadeTrace, start: int, name: str) -> None:
    payload = varuint(9).ljust(8, b"\0") + z16("Some.Type") + z16(name) + z16("void  ()") + start.to_bytes(8, "little")
    made.event(RUNTIME, 159, payload + b"\0\0", 5, version=0)


def test_entry_points_name_code_up_to_what_begins_next_when_the_session_saw_the_start() -> None:
    made = MadeTrace()
    made.event(RUNTIME, 187, b"", 0)
    for start, name in ((0x1000, "A"), (0x1200, "B"), (0x9000000, "C")):
        _entry(made, start, name)
    made.method(0x1300, 0x10, "Exact")
    found = names_at(made.symbols(), [0x11FF, 0x1200, 0x12FF, 0x1305, 0x1320, 0x9000100, 0x9010000, 0x9020000])
    assert [name.rpartition(".")[2] for name in found] == [
        "A()",
        "B()",
        "B()",
        "Exact()",
        "!0x1320",
        "C()",
        "C()",
        "!0x9020000",
    ]


def test_entry_points_say_too_little_in_a_session_that_began_later() -> None:
    made = MadeTrace()
    _entry(made, 0x1000, "A")
    assert names_at(made.symbols(), [0x1010]) == ["!0x1010"]


# nettrace 6 -----------------------------------------------------------------------------------------------------------


def _process(made: MadeTrace, index: int, process_id: int) -> None:
    made.threads[index] = ThreadInfo(index=index, process_id=process_id, os_thread_id=process_id)


def test_mapped_files_name_what_symbols_do_not() -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    metadata = '{"type":"ELF","P_VADDR":"0x3000","p_offset":4096}'
    made.mapping(5, 0x10000, 0x20000, "/usr/lib/libc.so.6", offset=0x400, metadata=metadata)
    made.mapping(6, 0x30000, 0x40000, "/app/My.Lib.dll")
    made.mapping(7, 0x50000, 0x60000, "")
    made.symbol(5, 0x11000, 0x11010, "malloc")
    symbols = made.symbols()
    where = [0x11000, 0x11010, 0x12000, 0x30004, 0x50000]
    # 0x11010 as a return address is that of a call at the end of malloc
    assert names_at(symbols, where) == [
        "libc.so.6!malloc",
        "libc.so.6!malloc",
        "libc.so.6!0x12000",
        "My.Lib!0x30004",
        "!0x50000",
    ]
    short = symbols.frame_names(Style.SHORT)
    assert short == ["libc.so.6!malloc", "libc.so.6!0x4400", "My.Lib!0x4", "?!0x50000"]
    assert symbols.frame(1).offset == 0x4400
    assert symbols.frame_names(Style.TRACEEVENT) == [
        "libc.so.6!malloc",
        "libc.so.6!0x12000",
        "my.lib!0x30004",
        "!0x50000",
    ]


def test_symbols_of_jitted_code_are_methods_of_their_assembly() -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    made.mapping(5, 0x10000, 0x20000, "/memfd:doublemapper (deleted)")
    made.symbol(5, 0x11000, 0x11010, "void [workload] Workload.Cpu+<>c::<Run>b__0(int32)[QuickJitted]")
    symbols = made.symbols()
    assert names_at(symbols, [0x11004]) == ["workload!Workload.Cpu+<>c.<Run>b__0(int32)"]
    frame = symbols.frame(0)
    assert (frame.module, frame.namespace, frame.kind) == ("workload", "Workload", FrameKind.SYMBOL)
    assert frame.tier == "QuickJitted"
    assert frame.name(Style.TRACEEVENT) == (
        "memfd:doublemapper!void [workload] Workload.Cpu+<>c::<Run>b__0(int32)[QuickJitted]"
    )
    assert frame.name(Style.SHORT) == "Workload.Cpu.<>c.<Run>b__0"
    assert frame.name(Style.SOURCE) == "Workload.Cpu.Run"


def test_of_two_symbols_of_one_range_the_first_counts() -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    made.mapping(5, 0x10000, 0x20000, "libc.so.6")
    for name in ("__clone3", "clone3"):
        made.symbol(5, 0x11000, 0x11010, name)
    assert names_at(made.symbols(), [0x11001], [5]) == ["libc.so.6!__clone3"]


def test_processes_have_addresses_of_their_own_and_share_the_kernel() -> None:
    made = MadeTrace()
    kernel = 0xFFFFFFFF81000000
    for thread, process in ((1, 10), (2, 20)):
        _process(made, thread, process)
    made.mapping(1, 0xFFFF800000000000, 0xFFFFFFFFFFFFFFFF, "vmlinux", thread=1)
    made.mapping(5, 0x10000, 0x20000, "one.so", thread=1)
    made.mapping(6, 0x10000, 0x20000, "two.so", thread=2)
    made.mapping(7, 0x70000, 0x80000, "both.so", thread=1)
    made.mapping(7, 0x70000, 0x80000, "both.so", thread=2)
    made.symbol(1, kernel, kernel + 0xF, "schedule")
    made.symbol(7, 0x71000, 0x71010, "shared")
    symbols = made.symbols()
    processes = np.array([10, 20, 10, 20, 20, 99, 20], np.int64)
    where = [0x10001, 0x10001, 0x71001, 0x71001, kernel + 0xF, 0x10001, 0xFFFFFFFFFFFFFFFF]
    assert names_at(symbols, where, processes=processes) == [
        "one.so!0x10001",
        "two.so!0x10001",
        "both.so!shared",
        "both.so!shared",
        "vmlinux!schedule",
        "!0x10001",
        "!0xffffffffffffffff",
    ]
    assert symbols.processes == {10, 20}


def test_zeroed_and_endless_symbols_are_left_out() -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    made.mapping(1, 0xFFFF800000000000, 0xFFFFFFFFFFFFFFFF, "vmlinux")
    for start, end in ((0, 0), (0, 1 << 63), (5, 5), (9, 3), (1, (1 << 63) + 9)):
        made.symbol(1, start, end, "bad")
    assert names_at(made.symbols(), [3, 5, 1 << 62]) == ["!0x3", "!0x5", "!0x4000000000000000"]


def test_a_file_mapped_over_another_counts_from_then_on() -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    made.mapping(5, 0x10000, 0x20000, "old.so", time=1)
    made.mapping(6, 0x18000, 0x30000, "new.so", time=50)
    found = names_at(made.symbols(), [0x19000, 0x19000, 0x11000], [10, 60, 60])
    assert found == ["old.so!0x19000", "new.so!0x19000", "old.so!0x11000"]


@pytest.mark.parametrize(
    "metadata", ["", "{", "[1]", '{"p_vaddr":"x"}', '{"p_vaddr":1.5}', "[" * 5000, '{"p_vaddr":null}']
)
def test_odd_symbol_metadata_shifts_nothing(metadata: str) -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    made.mapping(5, 0x10000, 0x20000, "a.so", metadata=metadata)
    symbols = made.symbols()
    names_at(symbols, [0x10010])
    assert symbols.frame_names(Style.SHORT) == ["a.so!0x10"]


def test_the_events_that_symbols_need_can_be_named() -> None:
    made = MadeTrace()
    made.method(0x1000, 0x10, "A")
    made.event(RUNTIME, 80, b"", 0)
    made.module(1, "a.dll")
    assert symbol_events(made.metadata) == {1, 3}


def test_a_method_id_used_again_at_the_same_place_is_another_range_each_time() -> None:
    made = MadeTrace()
    for name, end in (("A", 100), ("B", 200), ("C", 300)):
        made.unload(0x1000, 0x100, name, end, method_id=64)
    made.unload(0x1080, 0x100, "Between", 150, method_id=128)
    found = names_at(made.symbols(), [0x1010, 0x1010, 0x1090, 0x1090, 0x1090, 0x1010], [50, 150, 99, 120, 180, 400])
    assert [name.rpartition(".")[2] for name in found] == ["A()", "B()", "A()", "Between()", "B()", "C()"]


def test_a_method_without_a_module_is_named_all_the_same() -> None:
    made = MadeTrace()
    made.method(0x1000, 0x10, "A", module=99)
    assert names_at(made.symbols(), [0x1000]) == ["ManagedModule!Some.Type.A()"]


@pytest.mark.parametrize("kind", [(RUNTIME, 143, ""), (RUNDOWN, 154, ""), (RUNTIME, 159, "")])
@given(payloads=st.lists(st.binary(max_size=120), max_size=8))
@settings(max_examples=50, deadline=None)
def test_payloads_of_any_bytes_break_nothing(kind: tuple[str, int, str], payloads: list[bytes]) -> None:
    made = MadeTrace()
    made.event(RUNTIME, 187, b"", 0)
    for payload in payloads:
        made.event(kind[0], kind[1], payload, 0, name=kind[2])
    made.method(0x1000, 0x10, "A")
    names_at(made.symbols(), [0x1000, 0, (1 << 64) - 1])


@given(
    payloads=st.lists(
        st.tuples(st.sampled_from(["ProcessMapping", "ProcessSymbol"]), st.binary(max_size=40)), max_size=9
    )
)
@settings(max_examples=100, deadline=None)
def test_mappings_of_any_bytes_break_nothing(payloads: list[tuple[str, bytes]]) -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    for name, payload in payloads:
        made.event("Universal.System", 3, payload, 0, name=name, version=0)
    made.mapping(5, 0x1000, 0x2000, "a.so")
    names_at(made.symbols(), [0x1000, 0, (1 << 64) - 1])
    made.symbols().frame_names(Style.SHORT)


def test_a_mapping_without_symbol_metadata_is_one() -> None:
    made = MadeTrace()
    _process(made, 1, 10)
    payload = b"".join(map(varuint, (5, 0x1000, 0x2000, 0))) + b"\4\0a.so" + varuint(0)
    made.event("Universal.System", 3, payload, 0, name="ProcessMapping", version=0)
    assert names_at(made.symbols(), [0x1000]) == ["a.so!0x1000"]
