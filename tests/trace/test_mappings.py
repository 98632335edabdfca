"""Mapped files and their symbols (version 6)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.made import MadeTrace, names_at, varuint

from dotnetdiag.trace.method_names import Style


def test_mapped_files_name_what_symbols_do_not() -> None:
    made = MadeTrace()
    made.process(1, 10)
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


def test_a_mapping_whose_end_is_the_last_byte_of_a_page_has_that_byte() -> None:
    made = MadeTrace()
    made.process(1, 10)
    for number, end in enumerate((0x10FFF, 0x21FFF, 0x32800, 0x43000), start=1):
        made.mapping(number, 0x10000 * number, end, f"{number}.so")
    where = [0x10FFF, 0x11000, 0x21FFF, 0x22000, 0x327FF, 0x32800, 0x42FFF, 0x43000]
    exact = [name.partition("!")[0] for name in names_at(made.symbols(), where)]
    assert exact == ["1.so", "", "2.so", "", "3.so", "", "4.so", ""]


@pytest.mark.parametrize("end", [0xFFFF_FFFF_FFFF_EFFF, 0xFFFF_FFFF_FFFF_FFFE, 0xFFFF_FFFF_FFFF_FFFF])
def test_the_last_byte_of_a_kernel_symbol_is_in_it(end: int) -> None:
    made = MadeTrace()
    made.process(1, 10)
    made.mapping(1, 0xFFFF_FFFF_8000_0000, end, "vmlinux")
    made.symbol(1, 0xFFFF_FFFF_9000_0000, end, "last")
    last = min(end, 0xFFFF_FFFF_FFFF_FFFE)  # nothing stands behind the last address there is
    # a return address stands behind its call
    assert names_at(made.symbols(), [last - 1, last, last + 1]) == ["vmlinux!last"] * 3


def test_a_symbol_of_a_mapping_that_nothing_says_is_none() -> None:
    made = MadeTrace()
    made.process(1, 10)
    made.symbol(0, 0x11000, 0x11010, "malloc")
    assert names_at(made.symbols(), [0x11000]) == ["!0x11000"]


def test_of_two_symbols_of_one_range_the_first_counts() -> None:
    made = MadeTrace()
    made.process(1, 10)
    made.mapping(5, 0x10000, 0x20000, "libc.so.6")
    for name in ("__clone3", "clone3"):
        made.symbol(5, 0x11000, 0x11010, name)
    assert names_at(made.symbols(), [0x11001], [5]) == ["libc.so.6!__clone3"]


def test_zeroed_and_endless_symbols_are_left_out() -> None:
    made = MadeTrace()
    made.process(1, 10)
    made.mapping(1, 0xFFFF800000000000, 0xFFFFFFFFFFFFFFFF, "vmlinux")
    for start, end in ((0, 0), (0, 1 << 63), (5, 5), (9, 3), (1, (1 << 63) + 9)):
        made.symbol(1, start, end, "bad")
    assert names_at(made.symbols(), [3, 5, 1 << 62]) == ["!0x3", "!0x5", "!0x4000000000000000"]


def test_a_file_mapped_over_another_counts_from_then_on() -> None:
    made = MadeTrace()
    made.process(1, 10)
    made.mapping(5, 0x10000, 0x20000, "old.so", time=1)
    made.mapping(6, 0x18000, 0x30000, "new.so", time=50)
    found = names_at(made.symbols(), [0x19000, 0x19000, 0x11000], [10, 60, 60])
    assert found == ["old.so!0x19000", "new.so!0x19000", "old.so!0x11000"]


@pytest.mark.parametrize(
    "metadata", ["", "{", "[1]", '{"p_vaddr":"x"}', '{"p_vaddr":1.5}', "[" * 5000, '{"p_vaddr":null}']
)
def test_odd_symbol_metadata_shifts_nothing(metadata: str) -> None:
    made = MadeTrace()
    made.process(1, 10)
    made.mapping(5, 0x10000, 0x20000, "a.so", metadata=metadata)
    symbols = made.symbols()
    names_at(symbols, [0x10010])
    assert symbols.frame_names(Style.SHORT) == ["a.so!0x10"]


@given(
    payloads=st.lists(
        st.tuples(st.sampled_from(["ProcessMapping", "ProcessSymbol"]), st.binary(max_size=40)), max_size=9
    )
)
@settings(max_examples=100)
def test_mappings_of_any_bytes_break_nothing(payloads: list[tuple[str, bytes]]) -> None:
    made = MadeTrace()
    made.process(1, 10)
    for name, payload in payloads:
        made.event("Universal.System", 3, payload, 0, name=name, version=0)
    made.mapping(5, 0x1000, 0x2000, "a.so")
    names_at(made.symbols(), [0x1000, 0, (1 << 64) - 1])
    made.symbols().frame_names(Style.SHORT)


def test_a_mapping_without_symbol_metadata_is_one() -> None:
    made = MadeTrace()
    made.process(1, 10)
    payload = b"".join(map(varuint, (5, 0x1000, 0x2000, 0))) + b"\4\0a.so" + varuint(0)
    made.event("Universal.System", 3, payload, 0, name="ProcessMapping", version=0)
    assert names_at(made.symbols(), [0x1000]) == ["a.so!0x1000"]
