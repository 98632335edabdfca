"""Sampled time: the rule, on made traces."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from tests.analysis.traces import (
    MS,
    allocation,
    event_source,
    external,
    managed,
    off_cpu,
    on_cpu,
    traced,
    weights,
    worker_start,
)

import dotnetdiag
from dotnetdiag.analysis.cpu import MARKED, CpuFold, Marks, cpu
from dotnetdiag.analysis.profile import State
from dotnetdiag.errors import UsageError
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace


def test_a_stack_lasts_until_the_next_sample_of_its_thread() -> None:
    trace = traced(
        managed(1, 1, "P.Leaf", "P.Main"),
        managed(2, 2, "P.Other"),
        external(4, 1, "P.Wait", "P.Main"),
        managed(5, 2, "P.Other"),
        managed(10, 1, "P.Leaf", "P.Main"),
    )
    profile = cpu(trace)
    assert profile.unit == "ms"
    assert weights(profile.top()) == {
        "P.Wait": (6.0, 6.0),
        "P.Leaf": (3.0, 3.0),
        "P.Other": (3.0, 3.0),
        "P.Main": (0.0, 9.0),
    }
    assert profile.state_weights() == {State.CPU: 6.0, State.UNMANAGED: 6.0}
    assert [(thread.thread_id, len(thread.rows)) for thread in profile.threads] == [(1, 2), (2, 1)]
    assert profile.thread_weights().tolist() == [9.0, 3.0]
    assert profile.start_ns.tolist() == [1_000_000, 4_000_000, 2_000_000]
    assert profile.length_ns.tolist() == [3_000_000, 6_000_000, 3_000_000]


def test_the_last_sample_of_a_thread_counts_nothing_and_a_thread_of_one_is_not_there() -> None:
    profile = cpu(traced(managed(1, 1, "P.A"), managed(2, 1, "P.B"), managed(3, 2, "P.C")))
    assert weights(profile.top()) == {"P.A": (1.0, 1.0)}
    assert [thread.thread_id for thread in profile.threads] == [1]
    assert profile.thread.tolist() == [0]


def test_threads_behind_one_that_is_not_there_keep_their_samples() -> None:
    profile = cpu(
        traced(managed(1, 1, "P.A"), managed(2, 2, "P.B"), managed(3, 3, "P.C"), managed(5, 3), managed(9, 2))
    )
    assert [(thread.thread_id, thread.rows) for thread in profile.threads] == [(2, range(1)), (3, range(1, 2))]
    assert profile.thread.tolist() == [0, 1]
    assert profile.thread_weights().tolist() == [7.0, 2.0]


def test_counted_samples_are_all_there() -> None:
    profile = cpu(traced(managed(1, 1, "P.A"), managed(2, 1, "P.B"), managed(3, 2, "P.C")), weight="samples")
    assert profile.unit == "samples"
    assert weights(profile.top()) == {"P.A": (1.0, 1.0), "P.B": (1.0, 1.0), "P.C": (1.0, 1.0)}
    assert profile.length_ns.tolist() == [1_000_000, 0, 0]


def test_only_samples_count_unless_marks_are_asked_for() -> None:
    events = (managed(1, 1, "P.A"), allocation(3, 1, "P.New"), managed(4, 1, "P.A"), event_source(50, 1, "P.Say"))
    assert weights(cpu(traced(*events)).top()) == {"P.A": (3.0, 3.0)}
    assert weights(cpu(traced(*events), weight="samples").top()) == {"P.A": (2.0, 2.0)}
    with pytest.raises(UsageError, match="marks 'x': one of none, allocations, events"):
        cpu(traced(*events), marks="x")


def test_allocations_are_samples_of_a_running_thread_where_they_are_marks() -> None:
    events = (external(1, 1, "P.Wait"), allocation(3, 1, "P.New"), external(4, 1, "P.Wait"))
    profile = cpu(traced(*events), marks=Marks.ALLOCATIONS)
    assert weights(profile.top()) == {"P.Wait": (2.0, 2.0), "P.New": (1.0, 1.0)}
    assert profile.state_weights() == {State.CPU: 1.0, State.UNMANAGED: 2.0}


@pytest.mark.parametrize("number", [10, 20, 32])
def test_ticks_and_sampled_allocations_are_samples_and_nothing_else_of_the_runtime_is(number: int) -> None:
    events = (replace(allocation(2, 1, "P.New"), number=number), replace(allocation(3, 1, "P.No"), number=11))
    profile = cpu(traced(external(1, 1, "P.Wait"), *events, external(6, 1, "P.Wait")), marks=Marks.ALLOCATIONS)
    assert weights(profile.top()) == {"P.New": (4.0, 4.0), "P.Wait": (1.0, 1.0)}


@pytest.mark.parametrize(
    "provider",
    [
        *(
            "System.Threading.Tasks.TplEventSource",
            "System.Diagnostics.Eventing.FrameworkEventSource",
            "Universal.System",
        ),
        *(f"Microsoft-Windows-DotNETRuntime{kind}" for kind in ("", "Private", "Stress")),
    ],
)
def test_events_of_the_system_do_not_count_even_where_those_of_event_sources_do(provider: str) -> None:
    events = (replace(event_source(2, 1, "P.No"), provider=provider), event_source(50, 1, "P.Say"))
    trace = traced(managed(1, 1, "P.A"), *events, external(60, 1))
    found = weights(cpu(trace, marks=Marks.EVENTS).top())
    assert found == {"P.A": (49.0, 49.0), "P.Say": (0.0, 10.0), "EventName: My-EventSource/Said": (10.0, 10.0)}


def test_the_name_of_an_event_that_counts_as_a_sample_is_its_leaf() -> None:
    other = replace(event_source(4, 2, "P.Say"), name="Other", number=6)
    events = (event_source(1, 1, "P.Say"), other, event_source(3, 1), event_source(7, 2, "P.Say"), managed(9, 1, "P.A"))
    for rows in (1, 2, 5):
        asked = CpuFold(marks=Marks.EVENTS)
        (window,) = traced(*events).windows()
        for first in range(0, len(window), rows):
            asked.feed(window.slice(first, first + rows))
        found = asked.result()
        said, named = "EventName: My-EventSource/Said", "EventName: My-EventSource/Other"
        assert weights(found.top()) == {said: (8.0, 8.0), named: (3.0, 3.0), "P.Say": (0.0, 5.0)}
        counted = cpu(traced(*events), marks=Marks.EVENTS, weight="samples")
        assert weights(counted.top()) == {said: (3, 3), named: (1, 1), "P.A": (1, 1), "P.Say": (0, 3)}


def test_allocations_alone_are_no_time_unless_they_are_asked_for() -> None:
    trace = traced(allocation(1, 1, "P.New"), allocation(3, 1, "P.New"))
    marked = cpu(trace, marks=Marks.ALLOCATIONS)
    assert weights(marked.top()) == {"P.New": (2.0, 2.0)}
    assert marked.notes == ("the trace has no CPU samples (events of Microsoft-DotNETCore-SampleProfiler)",)
    profile = cpu(trace)
    assert len(profile) == 0
    assert profile.top() == ()
    why = (
        "the trace has no CPU samples (events of Microsoft-DotNETCore-SampleProfiler): "
        "record with --profile dotnet-sampled-thread-time"
    )
    assert profile.notes == (why,)
    assert repr(profile) == f"<StackProfile Thread time: no samples: {why}>"
    assert repr(profile.top()) == f"<no samples: {why}>"


def test_threads_that_were_sampled_once_are_an_empty_answer_that_says_so() -> None:
    once = traced(managed(1, 1, "P.A"), managed(2, 2, "P.B"))
    assert repr(cpu(once)).endswith(
        ": no samples: every thread was sampled once, and a stack lasts until the next sample of its thread>"
    )
    assert cpu(once, weight="samples").notes == ()


def test_events_of_event_sources_count_only_where_asked_for() -> None:
    trace = traced(managed(1, 1, "P.A"), event_source(50, 1, "P.Say"))
    assert cpu(trace).total == 0
    marked = cpu(trace, marks=Marks.EVENTS)
    assert weights(marked.top()) == {"P.A": (49.0, 49.0)}


def test_events_of_event_sources_are_told_and_say_nothing_of_what_ran() -> None:
    events = (managed(1, 1, "P.A"), event_source(3, 1, "P.Say"), allocation(4, 1, "P.New"), managed(9, 1, "P.A"))
    marked = cpu(traced(*events), marks=Marks.EVENTS)
    assert marked.notes == (MARKED,)
    assert marked.state_weights() == {State.CPU: 2.0 + 5.0, State.UNMANAGED: 1.0}
    assert cpu(traced(*events), marks=Marks.ALLOCATIONS).notes == cpu(traced(*events)).notes == ()


def test_a_sample_without_a_stack_counts_for_its_thread() -> None:
    profile = cpu(traced(managed(1, 1), managed(3, 1, "P.A"), managed(4, 1, "P.A")))
    assert profile.total == 3.0
    assert weights(profile.top()) == {"P.A": (1.0, 1.0)}
    assert profile.node.tolist()[0] == 0


def test_threads_are_in_the_order_of_their_first_sample() -> None:
    profile = cpu(traced(*(managed(ms, thread, "P.A") for ms, thread in enumerate((9, 3, 5, 3, 9, 5)))))
    assert [thread.thread_id for thread in profile.threads] == [9, 3, 5]


def test_thread_ids_may_be_of_any_size() -> None:
    large = (1 << 63) + 5
    profile = cpu(
        traced(managed(0, large, "P.A"), managed(1, 3, "P.A"), managed(2, large, "P.A"), managed(4, 3, "P.A"))
    )
    assert [thread.thread_id for thread in profile.threads] == [large, 3]
    assert profile.thread_weights().tolist() == [2.0, 3.0]


def test_large_thread_ids_are_in_the_order_of_their_first_sample_too() -> None:
    ids = [(1 << 40) + number for number in (9, 3, 5, 3, 9, 5)]
    profile = cpu(traced(*(managed(ms, thread, "P.A") for ms, thread in enumerate(ids))))
    assert [thread.thread_id for thread in profile.threads] == ids[:3]
    assert profile.thread_weights().tolist() == [4.0, 2.0, 3.0]


def test_workers_of_the_pool_say_so() -> None:
    events = [worker_start(0, 5), replace(worker_start(0, 6), number=57), replace(worker_start(0, 7), number=55)]
    profile = cpu(traced(*events, *(managed(ms, thread, "P.A") for ms in (1, 2) for thread in (5, 6, 7))))
    pool = " (.NET ThreadPool)"
    assert [thread.label for thread in profile.threads] == [f"Thread (5){pool}", f"Thread (6){pool}", "Thread (7)"]


def test_kernel_samples_count_the_sampling_period_and_switches_their_ticks() -> None:
    trace = traced(
        on_cpu(1, 1, "P.A"),
        on_cpu(2, 1, "P.B", value=3),
        off_cpu(10, 1, "P.Wait", length_ms=7.5),
        on_cpu(18, 1, "P.A"),
        version=6,
    )
    profile = cpu(trace)
    assert weights(profile.top()) == {"P.Wait": (7.5, 7.5), "P.B": (3.0, 3.0), "P.A": (2.0, 2.0)}
    assert profile.state_weights() == {State.CPU: 5.0, State.BLOCKED: 7.5}
    assert profile.length_ns.tolist() == [1_000_000, 3_000_000, 7_500_000, 1_000_000]
    assert [thread.label for thread in profile.threads] == ["Thread (4001) (worker 1)"]
    assert cpu(trace, weight="samples").total == 6.0


def test_jitted_code_of_a_perf_map_reads_as_a_method_and_its_tiers_are_one() -> None:
    run = "void [app] Ns.P::Run(uint8)"
    profile = cpu(
        traced(
            *(
                on_cpu(ms, 1, f"{run}[{tier}]")
                for ms, tier in enumerate(("QuickJitted", "OptimizedTier1", "QuickJitted"))
            ),
            on_cpu(4, 1, "void [app] Ns.P::Other()[QuickJitted]"),
            version=6,
        )
    )
    assert [(row.name(), row.frame.tier, row.exclusive) for row in profile.top()] == [
        ("app!Ns.P.Run(unsigned int8)", "", 3.0),
        ("app!Ns.P.Other()", "QuickJitted", 1.0),
    ]
    assert profile.top(1)[0].name(Style.TRACEEVENT) == f"memfd:doublemapper!{run}"


def test_kernel_samples_that_come_early_are_cut_for_drawing_only() -> None:
    profile = cpu(traced(on_cpu(1, 1, "P.A"), on_cpu(1.25, 1, "P.A"), version=6))
    assert profile.length_ns.tolist() == [250_000, 1_000_000]
    assert profile.total == 2.0


def test_kernel_samples_last_for_the_period_of_the_file_and_switches_go_by_its_clock() -> None:
    trace = traced(
        on_cpu(1, 1, "P.A", value=2),
        off_cpu(200, 1, "P.Wait", length_ms=7.5),
        version=6,
        frequency=500_000_000,
        sampling_ns=4_000_000,
    )
    profile = cpu(trace)
    assert weights(profile.top()) == {"P.A": (8.0, 8.0), "P.Wait": (15.0, 15.0)}
    assert (profile.start_ns.tolist(), profile.length_ns.tolist()) == ([2 * MS, 400 * MS], [8 * MS, 15 * MS])
    counted = cpu(trace, weight="samples")
    assert weights(counted.top()) == {"P.A": (2.0, 2.0), "P.Wait": (1.0, 1.0)}


def merged(*traces: Trace) -> Trace:
    out = io.BytesIO()
    merge([trace.raw.contents for trace in traces], out)
    return Trace(out.getvalue())


@pytest.mark.parametrize("shape", ["3", "12", "21", "22", "1(12)", "(12)1", "(1(12))(12)"])
def test_processes_of_merges_of_merges_stay_apart(shape: str) -> None:
    """Where one of a file that was merged itself has the number that another would get, too."""
    count = {"3": 3, "12": 3, "21": 3, "22": 4, "1(12)": 4, "(12)1": 4, "(1(12))(12)": 7}[shape]

    def made(text: str) -> Trace:
        parts, at = [], 0
        while at < len(text):
            if text[at] == "(":
                depth, end = 1, at
                while depth:
                    end += 1
                    depth += {"(": 1, ")": -1}.get(text[end], 0)
                parts.append(made(text[at + 1 : end]))
                at = end
            else:
                alone = [traced(managed(1, 1, "P.A"), managed(2, 1, "P.A"))] * int(text[at])
                parts.append(merged(*alone) if len(alone) > 1 else alone[0])
            at += 1
        return merged(*parts) if len(parts) > 1 else parts[0]

    threads = cpu(made(shape)).threads
    assert len({one.process_id for one in threads}) == count
    assert sorted(len(one.rows) for one in threads) == [1] * count


def test_kernel_samples_take_the_place_of_the_runtime_s_in_their_own_process_only() -> None:
    kernel = traced(managed(1, 1, "P.A"), on_cpu(2, 1, "P.K"), managed(3, 1, "P.A"), managed(4, 2, "P.A"), version=6)
    sampled = traced(managed(1, 1, "P.A"), external(3, 1, "P.Wait"), event_source(7, 1, "P.Say"), managed(9, 1, "P.A"))
    left_out = "3 samples of the runtime are left out: their processes have samples of the kernel"
    for traces in ((kernel, sampled), (sampled, kernel)):
        both = merged(*traces)
        profile = cpu(both)
        assert weights(profile.top()) == {"P.Wait": (6.0, 6.0), "P.A": (2.0, 2.0), "P.K": (1.0, 1.0)}
        assert profile.state_weights() == {State.CPU: 3.0, State.UNMANAGED: 6.0}
        assert profile.notes == (left_out,)
        assert sorted(profile.length_ns.tolist()) == [MS, 2 * MS, 6 * MS]
        counted = cpu(both, weight="samples")
        assert weights(counted.top()) == {"P.A": (2.0, 2.0), "P.Wait": (1.0, 1.0), "P.K": (1.0, 1.0)}
        marked = cpu(both, marks=Marks.EVENTS)
        assert weights(marked.top())["EventName: My-EventSource/Said"] == (2.0, 2.0)
        assert marked.total == 9.0
        whole = CpuFold()
        for window in both.windows():
            for first in range(len(window)):
                whole.feed(window.slice(first, first + 1))
        assert weights(whole.result().top()) == weights(profile.top())
    assert cpu(merged(kernel, kernel)).notes == (left_out.replace("3", "6", 1),)
    assert cpu(traced(on_cpu(2, 1, "P.K"), version=6)).notes == ()


def test_kernel_samples_of_a_thread_are_not_cut_by_those_of_another() -> None:
    trace = traced(
        on_cpu(1, 2, "P.B"),
        on_cpu(1.25, 1, "P.A"),
        on_cpu(1.5, 2, "P.B"),
        off_cpu(1.75, 1, "P.Wait", length_ms=5),
        on_cpu(2, 3, "P.C"),
        version=6,
    )
    profile = cpu(trace)
    assert [thread.thread_id for thread in profile.threads] == [4002, 4001, 4003]
    assert profile.length_ns.tolist() == [500_000, 1_000_000, 500_000, 5_000_000, 1_000_000]
    assert profile.to_ns == 6_750_000
    assert profile.total == 9.0


def test_a_profile_says_what_it_is_of_and_what_it_lacks() -> None:
    trace = traced(managed(1, 1, "P.A", 0x99), managed(2, 1, "P.A", 0x99), lost=4)
    profile = dotnetdiag.cpu(trace)
    assert profile.origin.lost == 4
    assert profile.origin.complete
    assert profile.origin.process_id == 77
    assert profile.origin.events == len(trace)
    assert profile.unresolved == 1
    assert len(profile.used_frames()) == 2
    assert profile.period_ns == 1_000_000
    assert repr(profile) == "<StackProfile Thread time: 1 samples of 1 threads, 1.0 ms>"


def test_an_empty_trace_gives_an_empty_profile() -> None:
    profile = cpu(traced())
    assert (len(profile), profile.total, profile.threads, profile.to_ns, profile.period_ns) == (0, 0.0, (), 0, None)


def test_an_unknown_weight_is_refused() -> None:
    with pytest.raises(UsageError, match="time or samples"):
        cpu(traced(), weight="bytes")
