"""The events that symbols are made of, whole and broken."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.trace.made import RUNDOWN, RUNTIME, MadeTrace, names_at

from dotnetdiag.trace.symbol_events import symbol_events


def test_the_events_that_symbols_need_can_be_named() -> None:
    made = MadeTrace()
    made.method(0x1000, 0x10, "A")
    made.event(RUNTIME, 80, b"", 0)
    made.module(1, "a.dll")
    assert symbol_events(made.metadata) == {1, 3}


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


@pytest.mark.parametrize("kind", [(RUNTIME, 143, ""), (RUNDOWN, 154, ""), (RUNTIME, 159, "")])
@given(payloads=st.lists(st.binary(max_size=120), max_size=8))
@settings(max_examples=50)
def test_payloads_of_any_bytes_break_nothing(kind: tuple[str, int, str], payloads: list[bytes]) -> None:
    made = MadeTrace()
    made.event(RUNTIME, 187, b"", 0)
    for payload in payloads:
        made.event(kind[0], kind[1], payload, 0, name=kind[2])
    made.method(0x1000, 0x10, "A")
    names_at(made.symbols(), [0x1000, 0, (1 << 64) - 1])
