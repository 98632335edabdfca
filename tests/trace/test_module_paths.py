"""Modules by their ids."""

from __future__ import annotations

import struct

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
