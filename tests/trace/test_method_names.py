"""Names as TraceEvent, C# and the programmer write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.trace.method_names import (
    SourceKind,
    csharp_type,
    event_signature,
    full_name,
    namespace_of,
    parse_jitted,
    short_name,
    source_method,
    source_name,
)


@pytest.mark.parametrize(
    ("parts", "printed"),
    [
        (("a", "N.T", "M", "void  ()"), "a!N.T.M()"),
        (("a", "N.T`1[System.__Canon]", ".ctor", "instance void  (!0,int32[])"), "a!N.T`1[System.__Canon]..ctor(!0,int32[])"),
        (("a", "dynamicClass", "IL_STUB", "class X  (pMT: 0x7f<pMT: 0x1>)"), "a!dynamicClass.IL_STUB(pMT: 0x7f<pMT: 0x1>)"),
        (("a", "N.T", "M", "no parameters"), "a!N.T.M"),
        (("", "", "M", ""), "!M"),
    ],
)  # fmt: skip
def test_the_full_name_is_module_type_method_and_parameters(parts: tuple[str, str, str, str], printed: str) -> None:
    assert full_name(*parts) == printed


@pytest.mark.parametrize(
    ("type_name", "printed"),
    [
        ("Program", "Program"),
        ("A.B.Outer+Inner", "A.B.Outer.Inner"),
        ("System.Collections.Generic.List`1[System.Int32]", "System.Collections.Generic.List<int>"),
        ("S.Dictionary`2[System.__Canon,System.Boolean]", "S.Dictionary<__Canon, bool>"),
        ("S.Dictionary`2+Entry[System.String,A.B+C]", "S.Dictionary<string, B.C>.Entry"),
        ("A.Outer`1+Inner`2[System.Int32,X.Y,System.Object]", "A.Outer<int>.Inner<Y, object>"),
        ("A.T`1[A.U`1[B.V`1[System.Char]]]", "A.T<U<V<char>>>"),
        ("A.T`1[[System.Int32, System.Private.CoreLib, Version=10.0.0.0]]", "A.T<int>"),
        ("A.T`2[[System.Int32, CoreLib],[B.C, D]]", "A.T<int, C>"),
        ("A.T`1[System.Byte[]]", "A.T<byte[]>"),
        ("A.T`1[System.Byte[,][]]", "A.T<byte[,][]>"),
        ("A.T`1[System.Byte*]", "A.T<byte*>"),
        ("A.B[]", "A.B[]"),
        ("A.B[,]", "A.B[,]"),
        ("A.B`1[System.Int32][]", "A.B<int>[]"),
        ("A.T`1", "A.T<T>"),
        ("A.T`3", "A.T<T1, T2, T3>"),
        ("A.T`9999", "A.T<" + ", ".join(f"T{number}" for number in range(1, 17)) + ">"),
        ("A.T`1[", "A.T<T>"),
        ("A.T`1[B", "A.T<B>"),
        ("A.T`1]x", "A.T<T>]x"),
        ("A.T[B]", "A.T<B>"),
        ("A`", "A`"),
        ("", ""),
    ],
)
def test_types_are_written_as_csharp_writes_them(type_name: str, printed: str) -> None:
    assert csharp_type(type_name) == printed


def test_a_type_nested_deeper_than_anyone_writes_is_printed_as_it_stands() -> None:
    deep = "A`1[" * 5000 + "B" + "]" * 5000
    assert csharp_type(deep) == deep
    assert csharp_type("A`1[" * 50 + "B" + "]" * 50) == "A<" * 50 + "B" + ">" * 50


def test_the_short_name_has_no_parameters() -> None:
    assert short_name("N.List`1[System.Int32]", "Add") == "N.List<int>.Add"
    assert short_name("N.T", ".cctor") == "N.T..cctor"
    assert short_name("", "Main") == "Main"


@pytest.mark.parametrize(
    ("type_name", "namespace"),
    [
        ("A.B.C", "A.B"),
        ("A.B.C+D.E", "A.B"),
        ("A.B`1[X.Y.Z]", "A"),
        ("C", ""),
        ("<>f__AnonymousType0`1[A.B]", ""),
        ("", ""),
        (".x", ""),
    ],
)
def test_the_namespace_stands_before_the_outermost_type(type_name: str, namespace: str) -> None:
    assert namespace_of(type_name) == namespace


@pytest.mark.parametrize(
    ("type_name", "method", "shown", "kind"),
    [
        ("N.P", "Main", "N.P.Main", SourceKind.METHOD),
        ("N.P+<>c", "<Main>b__0_1", "N.P.Main", SourceKind.LAMBDA),
        ("N.P+<>c__DisplayClass3_1", "<Main>b__1", "N.P.Main", SourceKind.LAMBDA),
        ("N.P+<>c__DisplayClass12_0`2[A.B,C.D]", "<Define>g__Log|0", "N.P.Define.Log", SourceKind.LOCAL_FUNCTION),
        ("N.G`1+<>c__DisplayClass1_0`2[A.B,C.D]", "<Run>b__0", "N.G<B>.Run", SourceKind.LAMBDA),
        ("N.G`1+<>c[N.X`2[A.B,C.D]]", "<Run>b__0_0", "N.G<X<B, D>>.Run", SourceKind.LAMBDA),
        ("N.P", "<Main>g__Local|0_0", "N.P.Main.Local", SourceKind.LOCAL_FUNCTION),
        ("N.P", "<<Main>g__Outer|0_0>g__Inner|0_1", "N.P.Main.Outer.Inner", SourceKind.LOCAL_FUNCTION),
        ("N.P+<FooAsync>d__3", "MoveNext", "N.P.FooAsync", SourceKind.STATE_MACHINE),
        ("N.P+<FooAsync>d__3`1[System.__Canon]", "MoveNext", "N.P.FooAsync", SourceKind.STATE_MACHINE),
        ("N.G`1+<FooAsync>d__3[System.Int32]", "MoveNext", "N.G<int>.FooAsync", SourceKind.STATE_MACHINE),
        ("N.P+<Numbers>d__1", "<>m__Finally1", "N.P.Numbers", SourceKind.STATE_MACHINE),
        ("N.P+<>c+<<Main>b__0_0>d", "MoveNext", "N.P.Main", SourceKind.STATE_MACHINE),
        ("N.P+<>c__DisplayClass0_0+<<Main>g__Work|0>d", "MoveNext", "N.P.Main.Work", SourceKind.STATE_MACHINE),
        ("Program", "<Main>$", "Program.Main", SourceKind.METHOD),
        ("Program+<>c", "<<Main>$>b__0_0", "Program.Main", SourceKind.LAMBDA),
        ("Program+<<Main>$>d__0", "MoveNext", "Program.Main", SourceKind.STATE_MACHINE),
        ("N.P+<>c", "<.ctor>b__0_0", "N.P..ctor", SourceKind.LAMBDA),
        ("N.P+VB$StateMachine_3_Wait", "MoveNext", "N.P.Wait", SourceKind.STATE_MACHINE),
        ("N.P+<Numbers>d__1", "System.IDisposable.Dispose", "N.P.<Numbers>d__1.System.IDisposable.Dispose", SourceKind.METHOD),
        ("N.Box`1[N.P+<FooAsync>d__3]", "MoveNext", "N.Box<P.<FooAsync>d__3>.MoveNext", SourceKind.METHOD),
        ("N.P+Enumerator", "MoveNext", "N.P.Enumerator.MoveNext", SourceKind.METHOD),
        ("N.P+<>c", ".cctor", "N.P.<>c..cctor", SourceKind.METHOD),
        ("N.P+<>c__DisplayClass3_1", ".ctor", "N.P.<>c__DisplayClass3_1..ctor", SourceKind.METHOD),
        ("N.P", "<x", "N.P.<x", SourceKind.METHOD),
        ("N.P", "<>z", "N.P.<>z", SourceKind.METHOD),
        ("N.P", "<a>", "N.P.<a>", SourceKind.METHOD),
        ("<>c", "<Main>b__0", "<>c.Main", SourceKind.LAMBDA),
    ],
)  # fmt: skip
def test_what_the_compiler_made_is_shown_as_its_source(
    type_name: str, method: str, shown: str, kind: SourceKind
) -> None:
    assert source_name(type_name, method) == shown
    assert source_method(type_name, method).kind == kind


@pytest.mark.parametrize(
    "text", ["<" * 10_000, "<x>b__" * 2000, "A+<>c" * 2000, "`1" * 5000, "[" * 10_000, "A`1[B," * 2000]
)
def test_names_of_ten_thousand_characters_are_printed(text: str) -> None:
    assert isinstance(source_name(text, text) + short_name(text, text) + namespace_of(text), str)


@given(st.text(alphabet="AB.+`12[],<>*&$_|gbdc \ud800", max_size=40), st.text(alphabet="<>AbgdM_|$1", max_size=30))
def test_no_name_breaks_the_printing(type_name: str, method: str) -> None:
    assert short_name(type_name, method).endswith(method)
    source_name(type_name, method)
    parse_jitted(f"{type_name}[x] {method}::a()[T]")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (
            "void [workload] Workload.Cpu::Run(int32)[QuickJitted]",
            ("workload", "Workload.Cpu", "Run", "(int32)", "QuickJitted"),
        ),
        (
            "valuetype [System.Net.Primitives]System.Net.Sockets.SocketError [System.Net.Sockets] A.B::Shutdown(class [X]Y)[QuickJitted]",
            ("System.Net.Sockets", "A.B", "Shutdown", "(class [X]Y)", "QuickJitted"),
        ),
        ("int32[] [a] T::M[OptimizedTier1]", ("a", "T", "M", "", "OptimizedTier1")),
        ("instance float64 [a] N.G`1[System.Int32]::.ctor()[PreStub]", ("a", "N.G`1[System.Int32]", ".ctor", "()", "PreStub")),
    ],
)  # fmt: skip
def test_symbols_of_perf_maps_are_taken_apart(text: str, parts: tuple[str, str, str, str, str]) -> None:
    found = parse_jitted(text)
    assert found is not None
    assert (found.module, found.type_name, found.method, found.signature, found.tier) == parts


@pytest.mark.parametrize(
    ("perf_map", "event"),  # of one runtime, 10.0.14
    [
        ("()", "()"),
        ("(string,object[])", "(class System.String,class System.Object[])"),
        ("(uint8*,char&,native uint,native int*)", "(unsigned int8*,wchar&,unsigned int,int*)"),
        ("(bool,uint8,uint16,uint32,uint64)", "(bool,unsigned int8,unsigned int16,unsigned int32,unsigned int64)"),
        ("(class [System.Runtime]System.Func`2<!0,!!1>)", "(class System.Func`2<!0,!!1>)"),
        ("(valuetype System.ReadOnlySpan`1<char>)", "(value class System.ReadOnlySpan`1<wchar>)"),
        ("(class System.RuntimeType/RuntimeTypeCache/MemberInfoCache`1<!!0>&)", "(class MemberInfoCache`1<!!0>&)"),
        ("(valuetype Ns.string.uint8,valuetype Workload.Shade)", "(value class Ns.string.uint8,value class Workload.Shade)"),
    ],
)  # fmt: skip
def test_signatures_of_perf_maps_read_as_those_of_events(perf_map: str, event: str) -> None:
    assert event_signature(perf_map) == event
    assert event_signature(event) == event


@pytest.mark.parametrize("text", ["", "malloc", "stub A<B>", "void [a] T::M()", "x[y]", "[a] b[c]", "operator new[]"])
def test_other_symbols_are_none_of_them(text: str) -> None:
    assert parse_jitted(text) is None
