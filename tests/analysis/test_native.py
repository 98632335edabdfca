"""Recordings of NativeAOT, as they say who they are of."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.analysis.test_cpu import merged
from tests.analysis.traces import PROCESS, external, managed, runtime_is, traced

from dotnetdiag.analysis import native as room
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.jit import NO_EVENTS, JitFold, jit
from dotnetdiag.analysis.native import NO_COMPILER, NO_LOADER, NO_STATES, RuntimeFacts, facts_of, is_of_native
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.startup import NO_START, StartupFold, startup
from dotnetdiag.analysis.threads import ThreadsFold, threads
from dotnetdiag.trace.merge import NEXT_PROCESS
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize(
    ("os", "runtime", "processors", "is_native"),
    [
        ("Linux", None, None, True),
        ("Linux", "10.0.0", None, False),
        ("Linux", None, 4, False),
        (None, None, None, False),
    ],
)
def test_it_tells_its_system_but_not_its_runtime(os: Any, runtime: Any, processors: Any, is_native: bool) -> None:
    one = SimpleNamespace(os=os, runtime=runtime, processors=processors)
    assert is_of_native(cast("Trace", SimpleNamespace(processes=[one]))) == is_native
    assert not is_of_native(cast("Trace", SimpleNamespace(processes=[])))


def test_it_compiles_nothing_whatever_is_recorded() -> None:
    trace = traced(managed(0, 1))
    assert jit(trace).notes == (NO_EVENTS,)
    (made,) = fold(trace, JitFold(is_native=lambda: True))
    assert made.notes == made.methods.notes == (NO_COMPILER,)


def test_it_tells_nothing_of_its_start_wherever_a_recording_begins() -> None:
    trace = traced(managed(0, 1))
    assert startup(trace).notes == (NO_START,)
    (made,) = fold(trace, StartupFold(runtime=lambda: RuntimeFacts(is_native=True)))
    assert made.notes == made.phases.notes == (NO_LOADER,)


def test_where_no_sample_says_who_ran_nothing_is_said_of_it() -> None:
    """As on .NET 9: unknown is not 0."""
    seen = [external(ms, thread, "App.Spin", "App.Main") for ms in range(100) for thread in (1, 2)]
    facts: dict[bool, Callable[[], RuntimeFacts]] = {
        True: RuntimeFacts,
        False: partial(RuntimeFacts, tells_states=False),
    }
    for told, runtime in facts.items():
        (made,) = fold(traced(*seen), ThreadsFold(runtime=runtime))
        assert (made.totals.cpu_ms, made.totals.waiting_ms) == ((0.0, 198.0) if told else (None, None))
        assert made.threads.values("waiting_ms") == ([99.0, 99.0] if told else [None, None])
        assert (made.threads.values("samples"), NO_STATES in made.notes) == ([100, 100], not told)
    some = [managed(ms, 1, "App.Spin", "App.Main") for ms in range(100)]
    (made,) = fold(traced(*some), ThreadsFold(runtime=facts[False]))  # a sampler that does
    assert made.totals.cpu_ms == 99.0
    assert State.CPU == room._RAN


def test_of_several_runtimes_each_has_what_its_own_sampler_tells() -> None:
    """.NET 9 takes nothing from the other, which says who ran."""
    ran = [managed(ms, 1, "App.Spin", "App.Main") for ms in range(100)]
    waited = [external(ms, 1, "App.Spin", "App.Main") for ms in range(100)]
    ten, nine = traced(*ran, runtime_is(100, 1, "10.0.14")), traced(*waited, runtime_is(100, 1, "9.0.22"))
    for traces in ((ten, nine), (nine, ten)):
        made = threads(merged(*traces))
        figures = {(row["pid"], row["cpu_ms"], row["waiting_ms"]) for row in made.threads}
        pids = [PROCESS, NEXT_PROCESS + PROCESS]
        told, untold = pids if traces[0] is ten else pids[::-1]
        assert figures == {(told, 99.0, 0.0), (untold, None, None)}
        assert made.notes == (f"of process {untold}: {NO_STATES}",)
    assert NO_STATES not in threads(merged(ten, ten)).notes
    assert threads(merged(nine, nine)).totals.cpu_ms is None


def test_facts_are_of_all_where_all_are_alike() -> None:
    nine, ten = (traced(managed(0, 1), runtime_is(1, 1, version)) for version in ("9.0.22", "10.0.14"))
    assert not facts_of(merged(nine, nine))().tells_states
    both = facts_of(merged(ten, nine))()
    assert (both.tells_states, both.of(PROCESS).tells_states) == (True, True)
    assert not both.of(NEXT_PROCESS + PROCESS).tells_states
