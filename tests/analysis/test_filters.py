"""Filters: profile to profile, one at a time and after each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.analysis.traces import allocation, external, managed, on_cpu, traced, weights, worker_start
from tests.nettrace.recordings import data_of

from dotnetdiag.analysis import filters
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.frames import pseudo
from dotnetdiag.analysis.profile import COLUMNS, State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style
from dotnetdiag.trace.trace import Trace

MODULES = {"System.Io": "/x/System.IO.dll", "Lib.Deep": "/x/Lib.dll"}


def some() -> StackProfile:
    return cpu(
        traced(
            managed(0, 1, "App.P.Work", "App.P.Main"),
            managed(10, 1, "System.Io.Read", "Lib.Deep.Load", "App.P.Main"),
            external(14, 1, "System.Io.Wait", "App.P.Main"),
            managed(20, 1),
            managed(5, 2, "Lib.Deep.Load", "App.P.Run"),
            managed(8, 2, "Lib.Deep.Load", "App.P.Run"),
            modules=MODULES,
        )
    )


def check(profile: StackProfile) -> None:
    """What must hold of every profile."""
    assert {len(getattr(profile, name)) for name in COLUMNS} == {len(profile)}
    rows = [row for thread in profile.threads for row in thread.rows]
    assert rows == list(range(len(profile)))
    for index, thread in enumerate(profile.threads):
        assert len(thread.rows) > 0
        assert (profile.thread[thread.rows.start : thread.rows.stop] == index).all()
        start = profile.start_ns[thread.rows.start : thread.rows.stop]
        assert (np.diff(start) >= profile.length_ns[thread.rows.start : thread.rows.stop][:-1]).all()
    assert (profile.node >= 0).all()
    assert (profile.node < len(profile.tree)).all()
    assert (profile.tree.frame[1:] < len(profile.frames)).all()
    own, _ = profile.tree.by_frame(profile.node_weights())
    assert own.sum() == pytest.approx(profile.weight[profile.node > 0].sum())


def test_time_is_cut_at_the_edges() -> None:
    profile = filters.between(some(), 0.004, 0.012)
    check(profile)
    assert weights(profile.top()) == {
        "App.P.Work": (6.0, 6.0),
        "App.P.Main": (0.0, 8.0),
        "Lib.Deep.Load": (3.0, 5.0),
        "App.P.Run": (0.0, 3.0),
        "System.Io.Read": (2.0, 2.0),
    }
    assert profile.start_ns.tolist() == [4_000_000, 10_000_000, 5_000_000]
    assert (profile.from_ns, profile.to_ns) == (4_000_000, 12_000_000)


@pytest.mark.filterwarnings("error")
def test_a_sample_that_lasted_no_time_weighs_nothing_in_a_part_of_the_time() -> None:
    profile = cpu(traced(managed(1, 1, "P.A"), managed(1, 1, "P.B"), managed(5, 1)))
    part = filters.between(profile, 0.001, 0.002)
    check(part)
    assert part.weight.tolist() == [0.0, 1.0]
    assert part.length_ns.tolist() == [0, 1_000_000]


def test_counted_samples_belong_to_where_they_begin() -> None:
    trace = traced(managed(1, 1, "P.A"), managed(3, 1, "P.B"), managed(5, 1, "P.C"))
    counted = cpu(trace, weight="samples")
    assert weights(filters.between(counted, 0.002, 0.005).top()) == {"P.B": (1.0, 1.0)}


@pytest.mark.parametrize("weight", ["time", "samples"])
def test_a_time_without_an_end_has_the_sample_at_the_very_end(weight: str) -> None:
    counted = cpu(traced(managed(1, 1, "P.A"), managed(3, 1, "P.B"), managed(5, 1, "P.C")), weight=weight)
    later = filters.between(counted, 0.003)
    assert weights(later.top()) == (
        {"P.B": (2.0, 2.0)} if weight == "time" else dict.fromkeys(("P.B", "P.C"), (1.0, 1.0))
    )
    assert (later.from_ns, later.to_ns) == (3_000_000, 5_000_000)
    assert weights(filters.between(later, 0.003, 0.006).top()) == weights(later.top())
    sizes = stacks(traced(allocation(1, 1, "P.New"), allocation(7, 1, "P.Last")), "GC/AllocationTick")
    assert weights(filters.between(sizes, 0.001).top()) == {"P.New": (1.0, 1.0), "P.Last": (1.0, 1.0)}
    assert weights(filters.between(sizes, 0.007).top()) == {"P.Last": (1.0, 1.0)}
    assert weights(filters.between(sizes, 0.001, 0.007).top()) == {"P.New": (1.0, 1.0)}


def test_the_whole_time_is_no_filter() -> None:
    profile = some()
    assert weights(filters.between(profile).top()) == weights(profile.top())


def test_a_time_that_ends_before_it_begins_is_refused() -> None:
    with pytest.raises(UsageError, match=r"from 2\.25 s to 1\.5 s"):
        filters.between(some(), 2.25, 1.5)


def test_times_that_are_open_or_without_end_are_no_error() -> None:
    profile = some()
    assert weights(filters.between(profile, -math.inf, math.inf).top()) == weights(profile.top())
    for time in ((2, 3), (2, None), (math.inf, math.inf)):
        with pytest.raises(
            UsageError, match=rf"nothing is after \S+ s: the samples of made end at {profile.to_ns / 1e9:.3f} s"
        ):
            filters.between(profile, *time)
    assert len(filters.between(profile.take(np.zeros(len(profile), np.bool_)), 2, 3)) == 0
    end = profile.to_ns / 1e9
    late = filters.between(profile, end, end + 1)
    with pytest.raises(UsageError, match=r"a time from .* s to 0 s"):
        filters.between(late, None, 0)
    with pytest.raises(UsageError, match="no number"):
        filters.between(profile, math.nan)


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (lambda profile: filters.focus(profile, "Nobody"), "has a frame that matches 'Nobody'"),
        (lambda profile: filters.ignore(profile, "."), "has no frame that matches '.'"),
        (lambda profile: filters.in_states(profile, State.BLOCKED), "is in the state blocked"),
        (lambda profile: filters.between(profile, -2, -1), "is from -2 s to -1 s"),
    ],
)
def test_a_filter_that_leaves_nothing_is_named(chosen: Callable[[StackProfile], StackProfile], why: str) -> None:
    profile = some().take(some().node > 0)
    note = f"none of {len(profile)} samples {why}"
    made = chosen(profile)
    assert repr(made) == f"<StackProfile {made.name}: no samples: {note}>"
    assert repr(made.top()) == f"<no samples: {note}>"
    assert filters.focus(made, "Nobody").notes == (note,)
    assert repr(profile.top(0)) == "()"


def test_threads_by_id_and_by_name() -> None:
    profile = some()
    assert [thread.thread_id for thread in filters.of_threads(profile, ["2"]).threads] == [2]
    assert [thread.thread_id for thread in filters.of_threads(profile, [1, 2]).threads] == [1, 2]
    assert len(filters.of_threads(profile, ["thread"]).threads) == 2
    check(filters.of_threads(profile, [2]))
    with pytest.raises(UsageError, match="no samples of a thread '9'; there are 1, 2"):
        filters.of_threads(profile, [9])
    with pytest.raises(UsageError, match="no samples of a thread ''"):
        filters.of_threads(profile, [""])


def test_a_number_is_a_thread_id_and_no_part_of_a_name() -> None:
    profile = cpu(traced(*(managed(ms, thread, "P.A") for ms in (0, 1) for thread in (12, 112, 7)), worker_start(2, 7)))

    def found(*wanted: int | str) -> list[int]:
        return [thread.thread_id for thread in filters.of_threads(profile, wanted).threads]

    assert found("12") == found(12) == found(" 12 ") == [12]
    assert found("(12)") == [12]
    assert found("threadpool") == found(".NET") == found(7) == [7]
    assert found("112", "pool") == [112, 7]
    for part in ("1", "2", "11"):
        with pytest.raises(UsageError, match=f"no samples of a thread '{part}'; there are 12, 112, 7"):
            found(part)
    kernel = cpu(traced(on_cpu(1, 12, "P.A"), on_cpu(1, 4, "P.A"), version=6))
    assert [thread.label for thread in kernel.threads] == ["Thread (4012) (worker 12)", "Thread (4004) (worker 4)"]
    with pytest.raises(UsageError, match="no samples of a thread '12'"):
        filters.of_threads(kernel, [12])
    assert [thread.thread_id for thread in filters.of_threads(kernel, ["worker 12"]).threads] == [4012]


def test_states() -> None:
    profile = filters.in_states(some(), State.UNMANAGED)
    check(profile)
    assert weights(profile.top()) == {"System.Io.Wait": (6.0, 6.0), "App.P.Main": (0.0, 6.0)}
    assert len(filters.in_states(profile, State.CPU)) == 0


def test_focus_keeps_whole_stacks_and_ignore_is_its_opposite() -> None:
    profile = some()
    kept = filters.focus(profile, r"lib!lib\.deep")
    check(kept)
    assert weights(kept.top()) == {
        "System.Io.Read": (4.0, 4.0),
        "Lib.Deep.Load": (3.0, 7.0),
        "App.P.Main": (0.0, 4.0),
        "App.P.Run": (0.0, 3.0),
    }
    rest = filters.ignore(profile, r"lib!lib\.deep")
    check(rest)
    assert kept.total + rest.total == profile.total


def test_a_pattern_that_is_none_is_an_error_with_its_place() -> None:
    with pytest.raises(GrammarError, match="pattern") as caught:
        filters.focus(some(), "a(")
    assert caught.value.position == 1


def test_deep_stacks_are_matched_at_their_root() -> None:
    stack = [f"P.M{number}" for number in range(300)]
    profile = cpu(traced(managed(0, 1, *stack), managed(1, 1, *stack[:10]), managed(2, 1)))
    assert filters.focus(profile, "M299").total == 1.0
    assert filters.ignore(profile, "M299").total == 1.0


def test_direct_recursion_folds() -> None:
    profile = cpu(traced(managed(0, 1, "P.F", "P.F", "P.F", "P.Main"), managed(2, 1)))
    folded = filters.fold_recursion(profile)
    check(folded)
    assert len(folded.tree) == 3
    assert weights(folded.top()) == weights(profile.top()) == {"P.F": (2.0, 2.0), "P.Main": (0.0, 2.0)}


def test_only_direct_recursion_folds_and_only_where_it_is() -> None:
    profile = cpu(
        traced(
            managed(0, 1, "P.F", "P.G", "P.F", "P.F", "P.Main"),
            managed(2, 1, "P.F", "P.Main", "P.Main"),
            managed(3, 1, "P.F"),
            managed(5, 1),
        )
    )
    folded = filters.fold_recursion(profile)
    check(folded)
    paths = [
        [folded.frames.name(frame, Style.SHORT) for frame in folded.tree.path(node)] for node in folded.node.tolist()
    ]
    assert paths == [["P.F", "P.G", "P.F", "P.Main"], ["P.F", "P.Main"], ["P.F"]]
    assert folded.weight.tolist() == [2.0, 1.0, 2.0]
    assert weights(folded.top()) == weights(profile.top())


def test_hidden_frames_give_their_time_to_their_callers() -> None:
    hidden = filters.hide(some(), "Load")
    check(hidden)
    assert weights(hidden.top())["App.P.Run"] == (3.0, 3.0)
    program = filters.hide_framework(some())
    check(program)
    assert weights(program.top())["App.P.Main"] == (6.0, 20.0)
    assert "System.Io.Wait" not in weights(program.top())


def test_hiding_everything_leaves_the_time_of_threads() -> None:
    profile = filters.hide(some(), ".")
    check(profile)
    assert profile.top() == ()
    assert profile.total == some().total


def test_groups() -> None:
    assert weights(filters.group_by(some(), "module").top()) == {
        "System.IO": (10.0, 10.0),
        "app": (10.0, 23.0),
        "Lib": (3.0, 7.0),
    }
    assert weights(filters.group_by(some(), "namespace").top()) == {
        "System": (10.0, 10.0),
        "App": (10.0, 23.0),
        "Lib": (3.0, 7.0),
    }
    assert weights(filters.group_by(some(), "thread").top()) == {"Thread (1)": (20.0, 20.0), "Thread (2)": (3.0, 3.0)}
    for group in filters.Group:
        check(filters.group_by(some(), group))
    with pytest.raises(UsageError, match="colour"):
        filters.group_by(some(), "colour")


def test_unknown_frames_and_types_without_a_namespace_have_groups() -> None:
    profile = cpu(traced(managed(0, 1, 0x99, "Top.Main"), managed(1, 1)))
    assert weights(filters.group_by(profile, "module").top()) == {"?": (1.0, 1.0), "app": (0.0, 1.0)}
    assert weights(filters.group_by(profile, "namespace").top()) == {
        "?": (1.0, 1.0),
        "(global namespace)": (0.0, 1.0),
    }


@pytest.mark.parametrize(
    ("module", "comes_with_it"),
    [
        *((name, True) for name in ("System", "System.Linq", "system.io", "Microsoft.Extensions.Hosting", "mscorlib")),
        *((name, True) for name in ("netstandard", "WindowsBase", "PresentationCore", "libcoreclr.so", "coreclr")),
        *((name, True) for name in ("libSystem.Native.so", "libclrjit.dylib", "dotnet", "libc.so.6", "libc-2.31.so")),
        *(
            (name, True)
            for name in ("libstdc++.so.6", "libpthread-2.31.so", "ld-linux-x86-64.so.2", "vmlinux", "[vdso]")
        ),
        *((name, False) for name in ("", "Systematic", "My.System", "Microsoft", "dotnet-app", "libcurl.so.4")),
        *((name, False) for name in ("libcoreclr", "libmine.so", "mscorlib2", "vmlinux.so", "app")),
    ],
)
def test_the_framework_is_what_comes_with_dotnet_and_the_system(module: str, comes_with_it: bool) -> None:
    for kind in (FrameKind.METHOD, FrameKind.SYMBOL, FrameKind.UNRESOLVED):
        assert filters.is_framework(Frame(kind=kind, module=module, address=1)) == comes_with_it
    assert not filters.is_framework(pseudo(module))


@pytest.mark.parametrize(
    ("type_name", "comes_with_it"),
    [("System.GC", True), ("Microsoft.Extensions.Hosting.Host", True), ("Systematic.GC", False), ("Program", False)],
)
def test_a_module_without_a_name_is_told_by_its_namespaces(type_name: str, comes_with_it: bool) -> None:
    """As in a recording that breaks off: methods are named when they are compiled, modules at its end."""
    frame = Frame(kind=FrameKind.METHOD, type_name=type_name, method="Collect")
    assert filters.is_framework(frame) == comes_with_it


@pytest.mark.parametrize(
    ("frame", "module", "namespace"),
    [
        (Frame(kind=FrameKind.METHOD, module="app", type_name="A.B.C", method="M"), "app", "A.B"),
        (Frame(kind=FrameKind.METHOD, module="app", type_name="C", method="M"), "app", "(global namespace)"),
        (Frame(kind=FrameKind.METHOD, module="app", method="M"), "app", "(global namespace)"),
        (Frame(kind=FrameKind.SYMBOL, module="libc.so", text="read"), "libc.so", "libc.so (native)"),
        (Frame(kind=FrameKind.SYMBOL, text="read"), "?", "?"),
        (Frame(kind=FrameKind.UNRESOLVED, module="libc.so", address=1), "libc.so", "libc.so (native)"),
        (Frame(kind=FrameKind.UNRESOLVED, address=1), "?", "?"),
        (pseudo("CPU_TIME"), "CPU_TIME", "CPU_TIME"),
    ],
)
def test_every_kind_of_frame_has_its_group(frame: Frame, module: str, namespace: str) -> None:
    assert (filters.module_of(frame), filters.namespace_of(frame)) == (module, namespace)


def test_methods_that_print_alike_are_one() -> None:
    profile = cpu(traced(managed(0, 1, "P.<Main>b__0_1", "P.Main"), managed(3, 1)))
    named = filters.named(profile, Style.SOURCE)
    check(named)
    assert [row.name(Style.SOURCE) for row in named.top()] == ["P.Main"]
    assert [(row.exclusive, row.inclusive) for row in named.top()] == [(3.0, 3.0)]
    assert filters.named(profile, Style.FULL) is profile


def test_inverted_stacks_begin_at_their_leaves() -> None:
    profile = filters.invert(some())
    check(profile)
    assert weights(profile.top())["App.P.Main"] == (20.0, 20.0)
    assert weights(profile.top())["Lib.Deep.Load"] == (0.0, 7.0)
    twice = filters.invert(profile)
    assert weights(twice.top()) == weights(some().top())


def test_states_as_leaves_and_threads_as_roots() -> None:
    profile = filters.with_states(filters.with_threads(some()))
    check(profile)
    found = weights(profile.top(20))
    assert found["CPU_TIME"] == (17.0, 17.0)
    assert found["UNMANAGED_CODE_TIME"] == (6.0, 6.0)
    assert found["Thread (1)"] == (0.0, 20.0)
    assert found["App.P.Main"] == (0.0, 20.0)
    for row in range(len(profile)):
        names = [profile.frames.name(frame) for frame in profile.tree.path(int(profile.node[row]))]
        assert names[-1] == profile.threads[int(profile.thread[row])].label
        assert names[0] in ("CPU_TIME", "UNMANAGED_CODE_TIME")


def test_equal_root_labels_are_one_frame() -> None:
    profile = filters.with_roots(some(), ["all", "all"])
    assert weights(profile.top(20))["all"] == (0.0, 23.0)


FILTERS = [
    lambda one: filters.between(one, 0.002, 0.015),
    lambda one: filters.in_states(one, State.CPU),
    lambda one: filters.focus(one, "Main|Run"),
    lambda one: filters.ignore(one, "Wait"),
    filters.fold_recursion,
    filters.hide_framework,
    lambda one: filters.group_by(one, "module"),
    lambda one: filters.group_by(one, "namespace"),
    lambda one: filters.group_by(one, "thread"),
    lambda one: filters.named(one, Style.SHORT),
    filters.invert,
    filters.with_states,
    filters.with_threads,
]


@given(st.lists(st.integers(0, len(FILTERS) - 1), max_size=5))
def test_filters_follow_each_other_in_any_order(order: list[int]) -> None:
    profile = PROFILE
    for number in order:
        before = [getattr(profile, name).copy() for name in COLUMNS]
        made = FILTERS[number](profile)
        for name, column in zip(COLUMNS, before, strict=True):
            assert (getattr(profile, name) == column).all()  # the one before stays as it was
        profile = made
        check(profile)


PROFILE = some()


def test_an_empty_profile_goes_through_every_filter() -> None:
    profile = cpu(traced())
    for apply in FILTERS:
        assert len(apply(profile)) == 0


def test_filters_are_methods_of_what_cpu_answers_with() -> None:
    profile = cpu(Trace(data_of("default-10.nettrace")))
    expected = filters.hide_framework(filters.focus(profile, "Workload"))
    chained = profile.focus("workload").hide_framework()
    assert chained.top(5) == expected.top(5)
    assert chained.top(5)
    assert (
        profile.between(0.5, 1).in_states("cpu").total
        == filters.in_states(filters.between(profile, 0.5, 1), State.CPU).total
    )
    for name in ("ignore", "hide"):
        assert getattr(profile, name)("Spin").total == getattr(filters, name)(profile, "Spin").total
    assert profile.group_by("module").invert().top(3) == filters.invert(filters.group_by(profile, "module")).top(3)
    assert profile.fold_recursion().named(Style.SHORT).of_threads(profile.threads[0].thread_id).threads
    with pytest.raises(UsageError, match="no state 'asleep': one of none, cpu, unmanaged, blocked"):
        profile.in_states("asleep")


@pytest.mark.parametrize("group", ["module", "namespace"])
def test_calls_within_a_group_are_no_frames_of_their_own(group: str) -> None:
    profile = cpu(traced(managed(0, 1, "P.A", "P.B", "Q.C", "P.D", "P.E"), managed(1, 1), modules={"Q": "/x/q.dll"}))
    grouped = filters.group_by(profile, group)
    (node,) = grouped.node.tolist()
    path = grouped.frames.names(grouped.tree.path(node))
    assert path == {"module": ["app", "q", "app"], "namespace": ["(global namespace)"]}[group]


def test_a_time_that_ends_where_it_begins_has_nothing() -> None:
    part = filters.between(some(), 0.003, 0.003)
    assert (len(part), part.notes) == (0, (f"none of {len(some())} samples is from 0.003 s to 0.003 s",))


def test_a_time_that_is_open_ends_with_the_samples() -> None:
    part = filters.between(some(), to_s=0.012)
    assert filters.between(part, 0.012).notes == (f"none of {len(part)} samples is from 0.012 s to 0.012 s",)


def test_a_state_that_samples_do_not_say_is_no_leaf() -> None:
    profile = stacks(traced(allocation(1, 1, "P.New"), allocation(7, 1, "P.Last")), "GC/AllocationTick")
    assert weights(filters.with_states(profile).top()) == weights(profile.top())


def test_of_no_samples_any_time_has_none() -> None:
    nothing = cpu(traced(allocation(1, 1, "P.A")))
    assert not len(nothing)
    for times in ((0.5, None), (0.5, 0.7), (None, 0.2)):
        made = filters.between(nothing, *times)
        assert (len(made), made.notes) == (0, nothing.notes)
    with pytest.raises(UsageError, match=r"a time from 2 s to 1 s"):
        filters.between(nothing, 2, 1)
