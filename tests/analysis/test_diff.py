"""Two profiles against each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.analysis.traces import managed, traced
from tests.export.made import profile_of, sample

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import Change, diff
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.table import Losses
from dotnetdiag.trace.frame import Frame, FrameKind
from dotnetdiag.trace.method_names import Style

BEFORE = traced(managed(0, 1, "P.A", "P.Main"), managed(10, 1, "P.B", "P.Main"), managed(20, 1))
AFTER = traced(
    managed(0, 7, "P.New", "P.Main"), managed(4, 7, "P.B", "P.Main"), managed(10, 7, "P.A", "P.Main"), managed(25, 7)
)


def test_methods_are_found_again_by_name_and_sorted_by_change() -> None:
    made = diff(cpu(BEFORE), cpu(AFTER), style=Style.SHORT)
    assert made.total == Change(before=20.0, after=25.0)
    assert [(m.name, m.exclusive.absolute, m.exclusive.relative) for m in made.methods] == [
        ("P.A", 5.0, 50.0),
        ("P.B", -4.0, -40.0),
        ("P.New", 4.0, None),
        ("P.Main", 0.0, None),
    ]
    main = made.methods[-1]
    assert (main.inclusive.before, main.inclusive.after, main.inclusive.relative) == (20.0, 25.0, 25.0)
    assert [method.name for method in made.grown(3)] == ["P.A", "P.New"]
    assert [method.name for method in made.grown(4)] == ["P.A"]
    assert made.grown(5) == ()


def test_what_grew_most_is_first_whatever_else_changed_more() -> None:
    one = traced(managed(0, 1, "P.Gone"), managed(50, 1, "P.A"), managed(51, 1, "P.B"), managed(52, 1))
    two = traced(managed(0, 1, "P.A"), managed(5, 1, "P.B"), managed(25, 1))
    made = diff(cpu(one), cpu(two), style=Style.SHORT)
    assert [method.name for method in made.methods] == ["P.Gone", "P.B", "P.A"]
    assert [method.name for method in made.grown(0)] == ["P.B", "P.A"]


def test_shares_scale_the_second_to_the_total_of_the_first() -> None:
    made = diff(cpu(BEFORE), cpu(AFTER), style=Style.SHORT, shares=True)
    assert made.scale == 0.8
    assert made.total.absolute == 0
    assert {m.name: m.exclusive.after for m in made.methods}["P.A"] == pytest.approx(12.0)


def test_the_tree_has_the_paths_of_both() -> None:
    made = diff(cpu(BEFORE), cpu(AFTER), style=Style.SHORT)
    paths = {
        tuple(made.frames.name(frame, Style.SHORT) for frame in made.tree.path(node)): (
            made.before[node],
            made.after[node],
        )
        for node in range(1, len(made.tree))
    }
    assert paths == {
        ("P.Main",): (0.0, 0.0),
        ("P.A", "P.Main"): (10.0, 15.0),
        ("P.B", "P.Main"): (10.0, 6.0),
        ("P.New", "P.Main"): (0.0, 4.0),
    }


def test_a_profile_does_not_differ_from_itself() -> None:
    made = diff(cpu(BEFORE), cpu(BEFORE))
    assert made.total.absolute == 0
    assert all(method.exclusive.absolute == method.inclusive.absolute == 0 for method in made.methods)


def test_addresses_without_a_name_are_one() -> None:
    one = cpu(traced(managed(0, 1, 0x99), managed(1, 1, 0xAA), managed(2, 1)))
    two = cpu(traced(managed(0, 1, 0xBB), managed(2, 1)))
    assert [(m.name, m.exclusive.before, m.exclusive.after) for m in diff(one, two).methods] == [("?!?", 2.0, 2.0)]


def addresses(*frames: Frame) -> StackProfile:
    """A millisecond of each."""
    profile = profile_of(*(sample(1, time, 1, f"P.M{time}") for time in range(len(frames))))
    return replace(profile, frames=Frames(extra=list(frames)))


def unresolved(address: int, module: str = "", offset: int | None = None) -> Frame:
    return Frame(kind=FrameKind.UNRESOLVED, module=module, address=address, offset=offset)


@pytest.mark.parametrize("style", Style)
def test_addresses_without_a_name_are_one_per_module_unless_their_place_in_its_file_is_known(style: Style) -> None:
    before = addresses(
        unresolved(0x7F01),
        unresolved(0x7F02, "lib.so"),
        unresolved(0x7F03, "lib.so"),
        unresolved(0x7F10, "mapped.so", 0x10),
        unresolved(0x7F20, "mapped.so", 0x20),
    )
    after = addresses(
        unresolved(0x8801, "other.so"),
        unresolved(0x8802, "lib.so"),
        unresolved(0x8810, "mapped.so", 0x10),
        unresolved(0x8803),
        unresolved(0x8804),
    )
    made = diff(before, after, style=style)
    assert {m.name: (m.exclusive.before, m.exclusive.after) for m in made.methods} == {
        "?!?": (1, 2),
        "lib.so!?": (2, 1),
        "other.so!?": (0, 1),
        "mapped.so!0x10": (1, 1),
        "mapped.so!0x20": (1, 0),
    }
    assert len(made.methods) == len(made.tree) - 1 == 5


def test_against_nothing() -> None:
    made = diff(cpu(traced()), cpu(BEFORE), shares=True)
    assert made.total == Change(before=0.0, after=20.0)
    assert made.total.relative is None
    assert diff(cpu(traced()), cpu(traced())).methods == ()
    assert diff(cpu(BEFORE), cpu(traced())).total.relative == -100


def test_time_against_counts_is_refused() -> None:
    with pytest.raises(UsageError, match="ms against samples"):
        diff(cpu(BEFORE), cpu(AFTER, weight="samples"))


@pytest.mark.parametrize(
    ("before", "after", "lost"), [(2, 3, 5), (None, 3, None), (2, None, None), (None, None, None), (0, 0, 0)]
)
def test_a_table_of_differences_lacks_what_either_recording_lacks(
    before: int | None, after: int | None, lost: int | None
) -> None:
    profile = cpu(traced(managed(0, 1, "P.A"), managed(1, 1)))
    one, other = (replace(profile, origin=replace(profile.origin, lost=count)) for count in (before, after))
    assert diff(one, other).changes().losses == Losses(lost=lost)
