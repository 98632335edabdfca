"""Compilations made by hand: ids that are used again, and who waited."""

from __future__ import annotations

import struct

import pytest
from tests.analysis.traces import Seen, traced
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis.jit import FOREGROUND, TIERED, TIERS, jit
from dotnetdiag.analysis.kept_events import NONE, OTHERS, PooledTexts
from dotnetdiag.events.columns import Text


def compiled(
    ms: float, number: int, name: str, size: int, tier: str = "Unknown", again: int | None = None
) -> tuple[Seen, Seen]:
    """The begin of a compilation and its end, a millisecond later. ``again``: the ReJITID of one that had code before."""
    words = z16("dynamicClass") + z16(name) + z16("void  ()")
    begin = struct.pack("<QQII", number, 1, 1, 10) + words + b"\1\0"
    flags = TIERS.index(tier) << 7
    end = struct.pack("<QQQIII", number, 1, 0x10000, size, 1, flags) + words + struct.pack("<H", 1)
    version = 1 if again is None else 2
    end += b"" if again is None else struct.pack("<Q", again)
    return (
        Seen(ms=ms, thread=1, stack=(), provider=RUNTIME, number=145, payload=begin, version=1),
        Seen(ms=ms + 1, thread=1, stack=(), provider=RUNTIME, number=143, payload=end, version=version),
    )


@pytest.mark.parametrize(
    ("tier", "again", "kind"),
    [
        ("QuickJitted", None, FOREGROUND),
        ("OptimizedTier1", 1, TIERED),
        ("QuickJittedInstrumented", 1, TIERED),
        ("OptimizedTier1Instrumented", 1, TIERED),
        ("OptimizedTier1", None, FOREGROUND),  # where it is called: the first code that it has
        ("OptimizedTier1OSR", 1, FOREGROUND),  # a loop waits for it
        ("QuickJitted", 1, FOREGROUND),  # a profiler's
        ("OptimizedTier1", 0, FOREGROUND),
    ],
)
def test_what_had_code_before_and_is_of_the_upper_tiers_is_compiled_in_the_background(
    tier: str, again: int | None, kind: str
) -> None:
    """Whatever the same thread compiles else, as those of the pool do on 3.1."""
    made = jit(traced(*compiled(1, 7, "First", 10, "Optimized"), *compiled(5, 8, "Second", 20, tier, again)))
    assert made.methods.values("kind") == [FOREGROUND, kind]
    assert made.methods.values("tier") == ["Optimized", tier]


def test_methods_that_had_the_same_id_one_after_the_other_are_two() -> None:
    made = jit(traced(*compiled(1, 7, "First", 10), *compiled(5, 7, "Second", 20), *compiled(9, 7, "Second", 30)))
    rows = {row["method"]: (row["count"], row["native_bytes"]) for row in made.by_method}
    assert rows == {"dynamicClass.First()": (1, 10), "dynamicClass.Second()": (2, 50)}
    assert made.totals.again == 1


def test_names_beyond_the_room_for_them_are_others() -> None:
    texts = PooledTexts(most_bytes=8)
    names = [Text.from_pylist(some) for some in (["abc", "äöü", "abc", ""], ["abc", "new"], ["later"])]
    numbers = [texts.numbers(column, len(column)).tolist() for column in names]
    assert [[texts[one] for one in some] for some in numbers] == [["abc", "äöü", "abc", ""], [OTHERS] * 2, [OTHERS]]
    assert numbers[0][0] == numbers[0][2]
    assert texts.numbers(None, 2).tolist() == [NONE, NONE]
    assert texts[NONE] == ""
