"""Where methods lay, and when: what recordings do not hold."""

from __future__ import annotations

import numpy as np
import pytest
from tests.trace.made import RUNDOWN, RUNTIME, MadeTrace, names_at, varuint, z16


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


def test_between_two_times_of_a_method_its_place_is_that_of_what_was_always_there() -> None:
    made = MadeTrace()
    for begin, end in ((10, 20), (30, 40)):
        made.load(0x1000, 0x100, "Again", begin)
        made.unload(0x1000, 0x100, "Again", end)
    made.method(0x1000, 0x100, "Always", time=900)
    found = names_at(made.symbols(), [0x1050] * 5, [5, 15, 25, 35, 45])
    assert [name.rpartition(".")[2] for name in found] == ["Always()", "Again()", "Always()", "Again()", "Always()"]


def test_methods_of_one_place_and_id_are_other_methods_in_another_process() -> None:
    made = MadeTrace()
    for process, name in ((10, "One"), (20, "Two")):
        made.process(process, process)
        made.method(0x1000, 0x100, name, method_id=64, thread=process)
    processes = np.array([10, 20, 30], np.int64)
    assert names_at(made.symbols(), [0x1050] * 3, processes=processes) == [
        "ManagedModule!Some.Type.One()",
        "ManagedModule!Some.Type.Two()",
        "!0x1050",
    ]


def test_a_method_id_used_again_at_the_same_place_is_another_range_each_time() -> None:
    made = MadeTrace()
    for name, end in (("A", 100), ("B", 200), ("C", 300)):
        made.unload(0x1000, 0x100, name, end, method_id=64)
    made.unload(0x1080, 0x100, "Between", 150, method_id=128)
    found = names_at(made.symbols(), [0x1010, 0x1010, 0x1090, 0x1090, 0x1090, 0x1010], [50, 150, 99, 120, 180, 400])
    assert [name.rpartition(".")[2] for name in found] == ["A()", "B()", "A()", "Between()", "B()", "C()"]


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


def test_ranges_nested_by_the_thousand_cost_no_more_than_they_should() -> None:
    made = MadeTrace()
    count = 3000
    for number in range(count):
        made.method(0x1000 + number, 4 * count - 2 * number, f"N{number}", method_id=number)
    found = names_at(made.symbols(), [0x1000, 0x1000 + count])
    assert found[0] == "ManagedModule!Some.Type.N0()"
    assert found[1].startswith("ManagedModule!Some.Type.N")


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


def test_an_entry_point_at_the_end_of_memory_names_nothing() -> None:
    made = MadeTrace()
    made.event(RUNTIME, 187, b"", 0)
    _entry(made, 0x1000, "A")
    _entry(made, (1 << 64) - 1, "B")
    assert names_at(made.symbols(), [0x1010, (1 << 64) - 1]) == ["ManagedModule!Some.Type.A()", "!0xffffffffffffffff"]


class WithoutClock(MadeTrace):
    info = None


def test_code_is_named_in_a_file_that_does_not_say_how_wide_its_addresses_are() -> None:
    made = WithoutClock()
    made.event(RUNTIME, 187, b"", 0)
    _entry(made, 0x1000, "A")
    made.method(0x2000, 0x10, "B")
    assert names_at(made.symbols(), [0x1010, 0x2008]) == ["ManagedModule!Some.Type.A()", "ManagedModule!Some.Type.B()"]


def test_entry_points_say_too_little_in_a_session_that_began_later() -> None:
    made = MadeTrace()
    _entry(made, 0x1000, "A")
    assert names_at(made.symbols(), [0x1010]) == ["!0x1010"]


def test_the_module_of_an_entry_point_is_that_of_another_event_of_its_method() -> None:
    made = MadeTrace()
    made.event(RUNTIME, 187, b"", 0)
    made.module(3, "/x/known.dll")
    _entry(made, 0x1000, "A")
    made.method(0x9000, 0x10, "Z", method_id=8)
    made.method(0x8000, 0x10, "A", method_id=9, module=3)
    assert names_at(made.symbols(), [0x1010]) == ["known!Some.Type.A()"]
