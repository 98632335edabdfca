"""Compilations made by hand: ids that are used again."""

from __future__ import annotations

import struct

from tests.analysis.traces import Seen, traced
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis.jit import jit


def compiled(ms: float, number: int, name: str, size: int) -> tuple[Seen, Seen]:
    """The begin of a compilation and its end, a millisecond later."""
    words = z16("dynamicClass") + z16(name) + z16("void  ()")
    begin = struct.pack("<QQII", number, 1, 1, 10) + words + b"\1\0"
    end = struct.pack("<QQQIII", number, 1, 0x10000, size, 1, 0) + words + struct.pack("<HQ", 1, 0)
    return (
        Seen(ms=ms, thread=1, stack=(), provider=RUNTIME, number=145, payload=begin, version=1),
        Seen(ms=ms + 1, thread=1, stack=(), provider=RUNTIME, number=143, payload=end, version=1),
    )


def test_methods_that_had_the_same_id_one_after_the_other_are_two() -> None:
    made = jit(traced(*compiled(1, 7, "First", 10), *compiled(5, 7, "Second", 20), *compiled(9, 7, "Second", 30)))
    rows = {row["method"]: (row["count"], row["native_bytes"]) for row in made.by_method}
    assert rows == {"dynamicClass.First()": (1, 10), "dynamicClass.Second()": (2, 50)}
    assert made.totals.again == 1
