"""The same frames and the same weights as dotnet-trace, on its own recordings."""

from __future__ import annotations

import pytest
from tests.analysis.reference import (
    POOL_THREADS_MISSED,
    UNRESOLVED,
    Sums,
    is_pseudo,
    opened,
    shown_in_report,
    speedscope_of,
    sums_of,
    top_of,
)

from dotnetdiag.analysis import filters
from dotnetdiag.analysis.cpu import Marks, cpu
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style

NAMES = ["default-10", "cpu-only-10"]
TOLERANCE_MS = 0.1


def name_of(frame: Frame) -> str:
    return UNRESOLVED if frame.kind is FrameKind.UNRESOLVED else frame.name()


def our_sums(profile: StackProfile, thread: int) -> Sums:
    sums = Sums()
    table = profile.by_method([thread])
    for number, own, whole in zip(table.frame.tolist(), table.exclusive, table.inclusive, strict=True):
        name = name_of(profile.frames[number])
        sums.exclusive[name] += own
        sums.inclusive[name] += whole
    return sums


@pytest.mark.parametrize("name", NAMES)
def test_speedscope_file_has_the_same_threads_frames_and_weights(name: str) -> None:
    profile, document = cpu(opened(name), marks=Marks.ALLOCATIONS), speedscope_of(name)
    labels = [POOL_THREADS_MISSED.get((name, one["name"]), one["name"]) for one in document["profiles"]]
    assert [thread.label for thread in profile.threads] == labels
    assert [profile.start_ns[thread.rows.start] / 1e6 for thread in profile.threads] == pytest.approx(
        [one["startValue"] for one in document["profiles"]], abs=1e-6
    )
    for index, one in enumerate(document["profiles"]):
        reference, ours = sums_of(document, one), our_sums(profile, index)
        real = {frame for frame in reference.inclusive if not is_pseudo(frame)}
        assert set(ours.inclusive) == real
        for kind in ("exclusive", "inclusive"):
            theirs = {frame: weight for frame, weight in getattr(reference, kind).items() if frame in real}
            mine = {frame: weight for frame, weight in getattr(ours, kind).items() if weight or frame in theirs}
            assert mine == pytest.approx(theirs, abs=TOLERANCE_MS), one["name"]
    assert profile.total == pytest.approx(
        sum(one["endValue"] - one["startValue"] for one in document["profiles"]), 1e-4
    )


@pytest.mark.parametrize("name", NAMES)
def test_pseudo_frames_of_states_and_threads_weigh_the_same_where_asked_for(name: str) -> None:
    document = speedscope_of(name)
    profile = filters.with_states(filters.with_threads(cpu(opened(name))))
    for index, one in enumerate(document["profiles"]):
        reference, ours = sums_of(document, one), our_sums(profile, index)
        for frame in ("CPU_TIME", "UNMANAGED_CODE_TIME"):
            assert ours.exclusive[frame] == pytest.approx(reference.exclusive[frame], abs=TOLERANCE_MS)
        label = profile.threads[index].label
        assert ours.inclusive[label] == pytest.approx(reference.inclusive[one["name"]], abs=TOLERANCE_MS)


@pytest.mark.parametrize("inclusive", [False, True], ids=["exclusive", "inclusive"])
@pytest.mark.parametrize("name", NAMES)
def test_report_has_the_same_top_15_in_the_same_order(name: str, inclusive: bool) -> None:
    """Its report counts the events of EventSources as samples: in default-10 the ProcessInfo at the end makes the
    last stack of the thread that sent it last for 3.8 s. Its converter does not, nor do we unless asked.
    """
    profile = cpu(opened(name), marks=Marks.EVENTS)
    reference = [row for row in top_of(name, inclusive=inclusive) if not is_pseudo(row.name)]
    assert len(reference) >= 13
    ours = {
        shown_in_report(name_of(row.frame)): (row.inclusive_percent, row.exclusive_percent)
        for row in reversed(profile.top(10_000, inclusive=inclusive))
    }
    for row in reference:
        assert ours[row.name] == pytest.approx((row.inclusive, row.exclusive), abs=0.0051), row.name
    key = 0 if inclusive else 1
    # the reference drops what has "Process" or "ROOT" in its name (dotnet-tools.md §1.2)
    figures = sorted((round(both[key], 6) for text, both in ours.items() if "Process" not in text), reverse=True)
    assert [round(ours[row.name][key], 6) for row in reference] == figures[: len(reference)]


def test_without_marks_the_report_is_that_of_the_converter() -> None:
    profile = cpu(opened("default-10"))
    reference = {row.name: row for row in top_of("default-10", inclusive=False)}
    (artefact,) = [row for row in reference.values() if row.name == ".ctor(classSystem.Type)"]
    top = profile.top(11)
    marked = cpu(opened("default-10"), marks=Marks.EVENTS)
    assert marked.total - profile.total == pytest.approx(marked.total * artefact.exclusive / 100, abs=1)
    assert [shown_in_report(row.name()) for row in top] == [
        row.name for row in reference.values() if row is not artefact
    ][:11]


def test_hot_warm_and_cold_take_their_share() -> None:
    profile = filters.in_states(filters.focus(cpu(opened("cpu-only-10")), r"Cpu\.Round"), State.CPU)
    found = {row.name(Style.SHORT): row.inclusive for row in profile.top(100)}
    shares = [found[f"Workload.Cpu.{name}"] for name in ("Hot", "Warm", "Cold")]
    for share, expected in zip(shares, (70, 20, 10), strict=True):
        assert 100 * share / sum(shares) == pytest.approx(expected, abs=3)


def test_kernel_samples_of_a_recording() -> None:
    profile = cpu(opened("v6-oncpu-10"))
    assert profile.total == len(profile) == 2939
    assert profile.state_weights() == {State.CPU: 2939.0}
    assert [row.name(Style.SOURCE) for row in profile.top(2)] == ["Workload.Cpu.Spin", "Workload.Generics.Sum"]
    assert 0 < profile.unresolved < len(profile.used_frames())
