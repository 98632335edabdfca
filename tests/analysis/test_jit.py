"""Compilations made by hand: ids that are used again, and who waited."""

from __future__ import annotations

import pickle
import struct
from dataclasses import replace
from typing import Any

import pytest
from tests.analysis.traces import Seen, traced
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis import compilations, followed
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.jit import FOREGROUND, TIERED, TIERS, JitFold, jit
from dotnetdiag.analysis.kept_events import NONE, OTHERS, PooledTexts
from dotnetdiag.events.columns import Text
from dotnetdiag.trace import spilled
from dotnetdiag.trace.trace import Trace


def compiled(
    ms: float,
    number: int,
    name: str,
    size: int,
    tier: str = "Unknown",
    again: int | None = None,
    *,
    of: str = "dynamicClass",
    module: int = 1,
) -> tuple[Seen, Seen]:
    """The begin of a compilation and its end, a millisecond later. ``again``: the ReJITID of one that had code before."""
    words = z16(of) + z16(name) + z16("void  ()")
    begin = struct.pack("<QQII", number, module, 1, 10) + words + b"\1\0"
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


def test_attempts_that_were_given_up_are_not_what_threads_waited_for() -> None:
    """As of code that is not valid: each call begins anew, and none ends."""
    bad = [compiled(10 + at, 9, "Bad", 10)[0] for at in range(5)]
    made = jit(traced(*compiled(1, 7, "First", 10), *bad))
    assert (made.totals.count, made.totals.unfinished, made.totals.foreground) == (6, 5, 1)


def test_methods_beyond_those_that_are_told_apart_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "SLICE_ROWS", 4)
    monkeypatch.setattr(compilations, "MOST_METHODS", 6)
    trace = traced(*(one for at in range(20) for one in compiled(3 * at, at % 12 + 1, f"M{at % 12}", at)))
    made = jit(trace)
    rows = {row["method"]: (row["count"], row["native_bytes"], row["pid"]) for row in made.by_method}
    (pid,) = {row["pid"] for row in made.methods}
    assert rows == {f"dynamicClass.M{at}()": (1, at, pid) for at in range(8)} | {OTHERS: (12, sum(range(8, 20)), None)}
    assert [*rows][-1] == OTHERS
    assert made.by_method.values("compile_ms")[-1] == pytest.approx(12.0)
    assert made.totals.again == 0
    assert any(OTHERS in note for note in made.notes)
    assert made.methods.values("method") == [f"dynamicClass.M{at % 12}()" for at in range(20)]
    assert pickle.loads(pickle.dumps(made)).to_json() == made.to_json()


def test_names_beyond_the_room_for_them_are_others() -> None:
    texts = PooledTexts(most_bytes=8)
    names = [Text.from_pylist(some) for some in (["abc", "äöü", "abc", ""], ["abc", "new"], ["later"])]
    numbers = [texts.numbers(column, len(column)).tolist() for column in names]
    assert [[texts[one] for one in some] for some in numbers] == [["abc", "äöü", "abc", ""], [OTHERS] * 2, [OTHERS]]
    assert numbers[0][0] == numbers[0][2]
    assert texts.numbers(None, 2).tolist() == [NONE, NONE]
    assert texts[NONE] == ""
    few = PooledTexts(most=2)
    numbers = [few.numbers(column, len(column)).tolist() for column in names]
    assert [[few[one] for one in some] for some in numbers] == [["abc", "äöü", "abc", ""], [OTHERS] * 2, [OTHERS]]


@pytest.mark.parametrize("name", recordings())
def test_answers_are_the_same_however_windows_come_and_whatever_lies_elsewhere(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (expected,) = fold(Trace(data_of(name), name=name), JitFold())
    monkeypatch.setattr(spilled, "HELD_BYTES", 500)
    monkeypatch.setattr(spilled, "SLICE_ROWS", 16)
    monkeypatch.setattr(followed, "FOLLOWED_EVENTS", 1)
    monkeypatch.setattr(followed, "_OPEN_TOGETHER", 2)
    for rows in (7, 1 << 16):
        (made,) = fold(Trace(data_of(name), name=name), JitFold(), rows=rows)
        assert rounded(made.to_json()) == rounded(expected.to_json())


def rounded(report: dict[str, Any]) -> dict[str, Any]:
    """Sums of parts are sums of all but for the last bit."""
    return {**report, "totals": {**report["totals"], "foreground_ms": pytest.approx(report["totals"]["foreground_ms"])}}


def test_an_answer_may_be_asked_for_while_windows_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was told stays as it was, though an end comes later."""
    monkeypatch.setattr(spilled, "HELD_BYTES", 200)
    monkeypatch.setattr(followed, "FOLLOWED_EVENTS", 4)
    begins, ends = zip(*(compiled(3 * at, at, f"M{at}", at) for at in range(1, 41)), strict=True)
    trace = traced(*sorted((*begins, *ends), key=lambda one: one.ms))
    made, fold_ = [], JitFold()
    for window in trace.windows(fold_.wants, size=3):
        fold_.feed(window)
        made.append(fold_.result())
    assert [one.totals.count for one in made] == [-(-3 * at // 2) for at in range(1, 27)] + [40]
    assert [one.totals.unfinished for one in made] == [at % 2 for at in range(1, 27)] + [0]
    assert made[0].methods.values("native_bytes") == [1, None]
    assert made[-1].methods.values("native_bytes") == list(range(1, 41))
    assert made[-1].methods.values("method") == [f"dynamicClass.M{at}()" for at in range(1, 41)]
    assert made[-1].totals.compile_ms == pytest.approx(40.0)


def test_of_nested_compilations_of_one_method_each_ends_its_own() -> None:
    """A thread that compiles a method compiles another meanwhile, and another thread the same one."""
    (a, a_end), (b, b_end) = compiled(1, 7, "A", 10), compiled(2, 8, "B", 20)
    (c, c_end), (other, other_end) = compiled(2.5, 7, "A", 30), compiled(1.5, 7, "A", 40)
    seen = [
        a, replace(other, thread=2), b, c, replace(c_end, ms=3), replace(b_end, ms=4), replace(a_end, ms=5),
        replace(other_end, ms=9, thread=2),
    ]  # fmt: skip
    rows = [(row["method"][-3:], row["compile_ms"], row["native_bytes"]) for row in jit(traced(*seen)).methods]
    assert rows == [("A()", 4.0, 10), ("A()", 7.5, 40), ("B()", 2.0, 20), ("A()", 0.5, 30)]


def test_where_nothing_ended_nothing_tells_how_long_it_took() -> None:
    """Nor whether anybody waited: it said 0 ms, of 0 methods."""
    begins = [compiled(at, at, f"M{at}", 10)[0] for at in (1, 2)]
    made = jit(traced(*begins))
    totals = made.totals
    assert (totals.count, totals.unfinished, totals.il_bytes) == (2, 2, 20)
    assert (totals.compile_ms, totals.foreground, totals.foreground_ms, totals.native_bytes) == (None,) * 4
    assert made.by_method.values("compile_ms") == made.by_method.values("native_bytes") == [None, None]
    some = jit(traced(*begins, *compiled(5, 3, "M3", 30)))
    assert (some.totals.compile_ms, some.totals.foreground, some.totals.foreground_ms) == (1.0, 1, 1.0)
    assert some.totals.native_bytes == 30
    assert some.by_method.values("compile_ms") == [1.0, None, None]
    none = jit(traced()).totals
    assert (none.compile_ms, none.foreground, none.foreground_ms, none.native_bytes) == (0.0, 0, 0.0, 0)


@pytest.mark.parametrize("in_background", [True, False])
def test_work_in_the_background_tells_who_waits_and_not_how_long(in_background: bool) -> None:
    (begin, _), (own, _) = compiled(2, 7, "A", 10), compiled(9, 8, "B", 10)
    names = ((283, 1.0), (284, 5.0))
    work = [
        Seen(ms=ms, thread=1, stack=(), provider=RUNTIME, number=number, payload=struct.pack("<HII", 1, 0, 0))
        for number, ms in names
    ]
    totals = jit(traced(work[0], begin, work[1], *([] if in_background else [own]))).totals
    assert (totals.foreground, totals.foreground_ms) == ((0, None) if in_background else (1, None))


@pytest.mark.parametrize(
    ("work", "background"),
    [
        ("stop 5, start 15, stop 25, start 35", [0, 20, 40]),  # a recording begins in the middle of it
        ("stop 5", [0]),
        ("start 5, stop 15, stop 25", [10, 20]),  # the begin of the second was lost
        ("start 5, start 15, stop 25", [10, 20]),  # the end of the first
        ("start 5, stop 25, start 25, stop 35", [10, 20, 30]),
    ],
)
def test_one_begin_or_end_of_work_that_is_missing_leaves_all_else_as_it_was(work: str, background: list[int]) -> None:
    """A count of both was wrong by one for good: threads waited for all that was compiled."""
    numbers = {"start": 283, "stop": 284}
    told = [
        Seen(
            ms=float(ms),
            thread=1,
            stack=(),
            provider=RUNTIME,
            number=numbers[what],
            payload=struct.pack("<HII", 1, 0, 0),
        )
        for what, ms in (one.split(" ") for one in work.split(", "))
    ]
    told += [Seen(ms=99.0, thread=2, stack=(), provider=RUNTIME, number=283, payload=struct.pack("<HII", 1, 0, 0))]
    begun = [one for at in range(0, 50, 10) for one in compiled(at, at + 1, f"M{at}", 10)]
    made = jit(traced(*sorted([*told, *begun], key=lambda one: one.ms)))
    assert [row["start_ms"] for row in made.methods if row["kind"] == TIERED] == background
    assert made.totals.foreground == 5 - len(background)


def test_methods_beyond_those_that_are_told_apart_may_have_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "SLICE_ROWS", 1)
    monkeypatch.setattr(compilations, "MOST_METHODS", 1)
    first, others = compiled(1, 1, "A", 10), [compiled(at, at, "B", 20) for at in (5, 6, 7)]
    made = jit(traced(*first, *(begin for begin, _ in others)))
    assert (made.by_method.values("method")[-1], made.by_method.values("compile_ms")) == (OTHERS, [1.0, None])
    assert jit(traced(*first, others[0][0], *others[1])).by_method.values("compile_ms") == [1.0, 1.0]


def test_a_report_goes_to_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilled, "HELD_BYTES", 200)
    made = jit(traced(*(one for at in range(20) for one in compiled(2 * at + 1, at % 7, f"M{at % 7}", at))))
    assert pickle.loads(pickle.dumps(made)).to_json() == made.to_json()  # our own bytes, as multiprocessing sends them


def test_what_is_made_as_the_program_runs_is_told() -> None:
    """As by Reflection.Emit, whose modules are told to be so before their methods are compiled."""
    modules = [(7, 1 | 4 | 8), (8, 8), (9, 1)]
    loaded = [
        Seen(
            ms=0,
            thread=1,
            stack=(),
            provider=RUNTIME,
            number=compilations.MODULE,
            payload=struct.pack("<QQII", module, 1, flags, 0) + z16("") + z16("") + struct.pack("<H", 1),
            version=1,
        )
        for module, flags in modules
    ]
    methods = [
        compiled(1, 1, "Made", 10, of="Proxies.Cart", module=7),
        compiled(3, 2, "Usual", 10, of="Shop.Cart", module=8),
        compiled(5, 3, "lambda_method1", 10),
    ]
    rows = jit(traced(*loaded, *(one for both in methods for one in both))).methods.to_pylist()
    assert [(row["method"], row["dynamic"]) for row in rows] == [
        ("Proxies.Cart.Made()", 1),
        ("Shop.Cart.Usual()", 0),
        ("dynamicClass.lambda_method1()", 1),
    ]
