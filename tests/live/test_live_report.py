"""Questions to processes that run: the answers are those of a recording of the same work."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from tests.live.runtimes import REQUIRED, workload

import dotnetdiag as dd
from dotnetdiag.recipes.live_report import KINDS

pytestmark = pytest.mark.live

BEGIN_S = 0.3
"""The session is begun by then; nothing depends on it but that the work falls into it."""
DURATION_S = 4


def ask(runtime: str, mode: str, kind: str, *words: str) -> Any:
    with workload(runtime, mode, *words, "wait=stdin", "linger=stdin") as target:
        answers: list[Any] = []
        asking = threading.Thread(
            target=lambda: answers.append(dd.ask(target.pid, kind, duration=DURATION_S)), daemon=True
        )
        asking.start()
        asking.join(BEGIN_S)
        target.say()
        asking.join(60)
        target.say()
    assert answers, "the question had an answer within a minute"
    return answers[0]


@pytest.mark.parametrize("runtime", REQUIRED)
def test_collections_of_a_process_that_runs(runtime: str) -> None:
    made = ask(runtime, "gc", "gc", "gen0=3", "gen1=3", "gen2=4")
    assert made.totals.induced == 10
    assert made.totals.pause_percent is not None
    assert 0 < made.totals.pause_ms < 1000 * DURATION_S


@pytest.mark.parametrize("runtime", ["8", "10", "NativeAOT"])
def test_exceptions_of_a_process_that_runs_have_their_methods(runtime: str) -> None:
    made = ask(runtime, "exceptions", "exceptions", "rounds=20")
    counts = dict(zip(made.by_type.values("type"), made.by_type.values("count"), strict=True))
    assert counts == {"Workload.WidgetException": 40, "System.ArgumentException": 20, "System.FormatException": 20}
    assert made.totals.per_second == pytest.approx(80 / DURATION_S, rel=0.5)
    methods = {row["method"] for row in made.by_method.to_pylist()}
    if runtime != "NativeAOT":
        assert {"workload!Workload.Exceptions.Deep(int32,int32)", "workload!Workload.Exceptions.Wrap(int32)"} <= methods


@pytest.mark.parametrize(
    ("kind", "mode", "words"),
    [
        ("allocations", "alloc", ["widgets=20000", "size=1000"]),
        ("contention", "contention", ["rounds=20"]),
        ("jit", "generics", []),
        ("requests", "http", ["rounds=10"]),
        ("tasks", "async", []),
        ("threadpool", "threadpool", ["jobs=8"]),
        ("waits", "contention", ["rounds=10"]),
    ],
)
def test_every_question_has_an_answer(kind: str, mode: str, words: list[str]) -> None:
    assert ask("10", mode, kind, *words).totals.count > 0


def test_a_question_that_there_is_not_is_refused() -> None:
    with pytest.raises(dd.UnknownName, match="gcs"):
        dd.ask(1, "gcs", duration=1)
    assert set(KINDS) <= set(dir(dd))
