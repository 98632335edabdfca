"""Modules by their ids."""

from __future__ import annotations

from tests.trace.made import RUNTIME, MadeTrace, names_at


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
