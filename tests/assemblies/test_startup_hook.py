"""What is refused as a startup hook and what is not, and that no bytes break the check."""

from __future__ import annotations

from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.assemblies import ARM64, HOOK, X64, X86, Type, assembly
from tests.client.hooks import NATIVE, UNUSABLE, USABLE

from dotnetdiag.assemblies import startup_hook
from dotnetdiag.assemblies.startup_hook import startup_hook_problem

DEMO = (files("dotnetdiag.recipes") / "demo" / "demo.dll").read_bytes()
GOOD = USABLE["public"]


def problem(data: bytes) -> str:
    return startup_hook_problem(data, machine=X64, runtime_version="10.0.14")


@pytest.mark.parametrize("name", USABLE)
def test_usable_hook_is_taken(name: str) -> None:
    assert problem(USABLE[name]) == ""


@pytest.mark.parametrize("name", UNUSABLE)
def test_other_assembly_is_refused_with_the_reason(name: str) -> None:
    data, sentence = UNUSABLE[name]
    assert problem(data) == sentence


def test_native_method_is_taken() -> None:
    assert problem(NATIVE) == ""


def test_assembly_of_a_compiler_without_the_type_is_refused() -> None:
    assert problem(DEMO) == "it has no type StartupHook outside of a namespace"


@pytest.mark.parametrize(("machine", "says"), [(None, ""), (X64, ""), (X86, "x86"), (ARM64, "arm64"), (7, "")])
def test_processor_is_compared_where_both_are_known(machine: int | None, says: str) -> None:
    told = startup_hook_problem(assembly(HOOK, machine=X64), machine=machine)
    assert told == (says and f"it is built for x64, and the target runs on {says}")
    assert startup_hook_problem(GOOD, machine=machine) == ""  # for any processor


@pytest.mark.parametrize(
    ("version", "taken"),
    [("9.0.22", True), ("9.0", True), ("10.0.0-preview.1", True), ("8.0.33", False), ("8.1", False)]
    + [(version, True) for version in ("", "9", "x.y", "²8.0", "8.999999.0", "8.-1")],
)  # fmt: skip
def test_version_is_compared_where_it_is_known(version: str, taken: bool) -> None:
    assert (startup_hook_problem(assembly(HOOK, built_for=(9, 0)), runtime_version=version) == "") == taken


def test_more_rows_than_the_limit_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    many = assembly(*[Type(name=f"T{number}", methods=()) for number in range(20)], HOOK)
    assert problem(many) == ""
    monkeypatch.setattr(startup_hook, "MAX_ROWS", 21)
    assert problem(many) == "it is no .NET assembly (table 0x02 has more than 21 rows)"
    monkeypatch.setattr(startup_hook, "MAX_ROWS", 22)  # with <Module>
    assert problem(many) == ""


def test_cut_hook_is_refused_at_every_length() -> None:
    whole = len(GOOD.rstrip(b"\0"))
    for data in (GOOD, DEMO):
        assert all(problem(data[:size]) for size in range(min(len(data), whole)))
    assert problem(DEMO[: len(DEMO) // 2]).startswith("it is no .NET assembly (")


@given(st.binary(max_size=400))
def test_other_bytes_are_no_assembly(data: bytes) -> None:
    assert problem(b"MZ" + data).startswith("it is no .NET assembly (")
    assert problem(data).startswith("it is no .NET assembly (")


@given(st.sampled_from([GOOD, USABLE["wide heaps"], DEMO]), st.data())
def test_one_lie_in_a_valid_file_is_an_answer(data: bytes, draw: st.DataObject) -> None:
    """Whatever it is: never an error, never long."""
    changed = bytearray(data)
    size = draw.draw(st.sampled_from([1, 2, 4]))
    place = draw.draw(st.integers(0, min(len(data), 0x600) - size))
    changed[place : place + size] = draw.draw(
        st.sampled_from([b"\xff" * size, b"\0" * size, b"\x7f".rjust(size, b"\xff")])
        | st.binary(min_size=size, max_size=size)
    )
    assert len(problem(bytes(changed))) < 200
