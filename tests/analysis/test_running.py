"""What ran: a sample of a thread that was passed over does not last until the thread is there again."""

from __future__ import annotations

import numpy as np
import pytest
from tests.analysis.traces import Seen, event_source, external, managed, off_cpu, on_cpu, runtime_is, traced

from dotnetdiag.analysis.advice import advice
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.native import NO_STATES
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.running import without_idle
from dotnetdiag.analysis.threads import threads
from dotnetdiag.recipes.report import ViewOptions, view


def with_finalizer() -> list[Seen]:
    """A thread that waits and is seen each ms for a second, and one that ran for a moment each 400 ms."""
    made = [external(float(ms), 1, "P.Main") for ms in range(1001)]
    made += [managed(ms + 0.5, 2, "System.GC.RunFinalizers") for ms in (100.0, 500.0, 900.0)]
    return sorted(made, key=lambda one: one.ms)


def test_a_thread_that_was_passed_over_did_not_run_meanwhile() -> None:
    trace = traced(*with_finalizer())
    profile = cpu(trace)
    assert profile.in_states(State.CPU).total == pytest.approx(2 * 1.5)
    assert profile.total == pytest.approx(1000 + 800)  # the reference tool's rule stays for all together
    for threads_of in ((), ("2",)):  # whether the others are looked at or not
        options = ViewOptions(state="cpu", threads=threads_of)
        assert view(traced(*with_finalizer()), options).total == pytest.approx(3.0)
    rows = {row["tid"]: row for row in threads(traced(*with_finalizer())).threads.to_pylist()}
    assert (rows[2]["cpu_ms"], rows[2]["waiting_ms"]) == (pytest.approx(3.0), pytest.approx(797.0))
    assert "topN" not in advice(traced(*with_finalizer())).findings.values("question")


def test_a_thread_that_is_there_each_time_keeps_its_time() -> None:
    events = [managed(ms + 0.1 * thread, thread, "P.Spin") for ms in range(100) for thread in (1, 2, 3)]
    profile = cpu(traced(*events))
    assert without_idle(profile) is profile
    assert profile.in_states(State.CPU).total == profile.total


def test_where_nobody_was_sampled_a_sample_lasts() -> None:
    """As while the sampler itself stands still, or where there is but one thread."""
    profile = cpu(traced(managed(1, 1, "P.A"), managed(401, 1, "P.A"), managed(402, 1, "P.A")))
    assert profile.in_states(State.CPU).total == 401.0


def test_processes_have_samplers_of_their_own() -> None:
    events = [managed(0, 1, "P.A"), managed(100, 1, "P.A"), *(external(float(ms), 2, "P.B") for ms in range(100))]
    events.sort(key=lambda one: one.ms)
    together = cpu(traced(*events, version=6)).in_states(State.CPU).total
    apart = cpu(traced(*events, version=6, processes={2: 79})).in_states(State.CPU).total
    assert (together, apart) == (2.0, 100.0)


def test_a_sampler_that_tells_no_states_is_said_to() -> None:
    samples = [external(float(ms), 1, "P.Main") for ms in range(300)]
    made = advice(traced(*samples, runtime_is(300, 1, "9.0.22")))
    assert made.lacking["topN"] == NO_STATES
    assert "topN" not in advice(traced(*samples, runtime_is(300, 1, "10.0.1"))).lacking


@pytest.mark.parametrize("seed", range(20))
def test_no_sample_lasts_longer_than_until_another_thread_was_taken_twice(seed: int) -> None:
    random = np.random.default_rng(seed)
    times = np.sort(random.choice(1000, 60, replace=seed % 2 > 0)).tolist()
    events = [managed(float(ms), int(random.integers(1, 4)), "P.A") for ms in times]
    profile = cpu(traced(*events))
    made = without_idle(profile)
    of_thread = [profile.threads[at].thread_id for at in profile.thread.tolist()]
    samples = list(zip(profile.start_ns.tolist(), of_thread, strict=True))
    for (start, thread), length, was in zip(samples, made.length_ns.tolist(), profile.length_ns.tolist(), strict=True):
        seen, until = set[int](), None
        for at, other in sorted(one for one in samples if one[0] > start):  # those of its own tick do not count
            if other in seen and until is None:
                until = at - start
            seen.add(other)
        assert length == (was if until is None else min(was, until)), (start, thread)
    np.testing.assert_allclose(made.weight, made.length_ns / 1e6)


def test_samples_of_the_kernel_stand_for_their_time_and_marks_are_no_ticks() -> None:
    switches = [off_cpu(ms + 0.1 * at, 2, "P.B", length_ms=0.01) for ms in range(100) for at in range(1, 9)]
    kernel = sorted([*(on_cpu(float(ms), 1, "P.A") for ms in range(100)), *switches], key=lambda one: one.ms)
    assert cpu(traced(*kernel)).in_states(State.CPU).total == pytest.approx(100.0)
    marked = [managed(10.0 * ms, 1, "P.A") for ms in range(11)]
    marked += [event_source(float(ms) + 0.5, 2, "P.B") for ms in range(100)]
    profile = cpu(traced(*sorted(marked, key=lambda one: one.ms)), marks="events")
    assert profile.in_states(State.CPU).of_threads(1).total == pytest.approx(100.0)


def test_threads_of_one_tick_are_alike() -> None:
    events = [
        managed(float(10 * tick), thread, "P.A")
        for tick in range(6)
        for thread in (1, 2, 3)
        if tick != 2 or thread == 2
    ]
    profile = cpu(traced(*events)).in_states(State.CPU)
    assert profile.of_threads(1).total == profile.of_threads(3).total
