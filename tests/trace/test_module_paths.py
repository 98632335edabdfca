"""Modules by their ids."""

from __future__ import annotations

import struct

import numpy as np
from tests.trace.made import RUNDOWN, RUNTIME, MadeTrace, names_at, z16


def test_a_module_id_used_twice_is_told_apart_by_time() -> None:
    made = MadeTrace()
    made.module(1, "/x/first.dll", time=5, event=(RUNTIME, 152))
    made.module(1, "/x/first.dll", time=50, event=(RUNTIME, 153))
    made.module(1, "/x/second.dll", time=60, event=(RUNTIME, 152))
    made.load(0x1000, 0x10, "A", 10)
    made.load(0x2000, 0x10, "B", 70)
    assert names_at(made.symbols(), [0x1001, 0x2001]) == ["first!Some.Type.A()", "second!Some.Type.B()"]


def test_a_method_without_a_module_is_named_all_the_same() -> None:
    made = MadeTrace()
    made.method(0x1000, 0x10, "A", module=99)
    assert names_at(made.symbols(), [0x1000]) == ["ManagedModule!Some.Type.A()"]


def test_a_module_without_il_is_named_by_its_native_file() -> None:
    made = MadeTrace()
    made.event(RUNDOWN, 154, struct.pack("<QQII", 1, 7, 8, 0) + z16("") + z16("/x/native.dll") + b"\0\0", 0)
    made.method(0x1000, 0x10, "A")
    assert names_at(made.symbols(), [0x1000]) == ["native!Some.Type.A()"]


def test_processes_have_their_own_ids() -> None:
    """In a recording that was merged of several: the same numbers stand for other modules, methods and code."""
    made = MadeTrace()
    made.begin()
    for thread in (1, 2):
        made.process(thread, 100 * thread)
        made.module(1, f"/x/of_{thread}.dll", thread=thread)
        made.method(0x1000, 0x10, f"Told{thread}", method_id=64, thread=thread)
        made.method(0x2000, 0x10, "", method_id=64, verbose=False, event=(RUNDOWN, 142), thread=thread)
        made.entry_point(0x3000, f"Entry{thread}", 64, thread=thread)
    made.method(0x3008, 0x10, "Behind", thread=2)
    addresses = np.array([0x1001, 0x2001, 0x3001, 0x3009])
    for thread, last in ((1, "Entry1"), (2, "Behind")):
        names = names_at(made.symbols(), addresses.tolist(), processes=np.full(4, 100 * thread))
        own = [f"Told{thread}", f"Told{thread}", f"Entry{thread}", last]
        assert names == [f"of_{thread}!Some.Type.{name}()" for name in own]


def test_a_module_whose_process_is_not_known_is_that_of_all() -> None:
    made = MadeTrace()
    made.process(1, 100)
    made.module(1, "/x/any.dll", thread=9)
    made.method(0x1000, 0x10, "A")
    assert names_at(made.symbols(), [0x1001], processes=np.array([100])) == ["any!Some.Type.A()"]
