"""What frames are called."""

from __future__ import annotations

import pytest
from tests.trace.made import MadeTrace, names_at

from dotnetdiag.trace.frame import FrameKind
from dotnetdiag.trace.method_names import Style


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


def test_symbols_of_jitted_code_are_methods_of_their_assembly() -> None:
    made = MadeTrace()
    made.process(1, 10)
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


def test_pseudo_frames_are_what_they_are_called() -> None:
    symbols = MadeTrace().symbols()
    cpu = symbols.pseudo_frame("CPU_TIME")
    assert symbols.pseudo_frame("CPU_TIME") == cpu
    assert symbols.frame(cpu).kind is FrameKind.PSEUDO
    assert {symbols.frame_name(cpu, style) for style in Style} == {"CPU_TIME"}
