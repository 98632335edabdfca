"""What is said of spans in one line, and of all together."""

from __future__ import annotations

import numpy as np
from tests.nettrace.recordings import recording

import dotnetdiag as dd
from dotnetdiag.events import Scalar
from dotnetdiag.events.columns import Coded, Text
from dotnetdiag.recipes.spans import LONGEST_VALUE, MOST_GROUPS, Spans, spans_of


def made(**columns: Coded | Text) -> Spans:
    count = len(next(iter(columns.values())))
    took = Scalar(np.arange(1.0, count + 1), np.arange(count) < count - 1)
    rows = dd.Table({"duration_ms": took, **columns})
    return Spans(start="A/Start", stop="A/Stop", rows=rows, ended=count - 1, durations_ms={})


def test_what_has_names_is_added_up_by_them() -> None:
    """What did not end is not counted, nor are fields of the end, nor those of many values."""
    reasons = Coded(["gc", "other", "never"], np.array([0, 1, 1, 2]))
    one = made(Reason=reasons, stop_Reason=reasons, Name=Text.from_pylist(["a", "b", "c", "d"]))
    assert one.groups == {"Reason": {"other": (2, 5.0), "gc": (1, 1.0)}}
    many = MOST_GROUPS + 1
    assert made(Reason=Coded([*"abcdefghijkl"], np.arange(many + 1))).groups == {}
    assert made(Reason=Coded(["gc"], np.zeros(4, np.int64))).groups == {}


def test_groups_come_to_all_that_ended() -> None:
    found = spans_of(dd.open(recording("gccollect-10.nettrace")), "GC/Start", "GC/Stop")
    for groups in found.groups.values():
        assert sum(count for count, _ in groups.values()) == found.ended
        assert abs(sum(total for _, total in groups.values()) - found.durations_ms["sum"]) < 1e-6
    assert "Reason" in found.groups


def test_a_long_value_leaves_room_for_others() -> None:
    path = "/usr/share/dotnet/shared/Microsoft.NETCore.App/10.0.14/System.Threading.dll"
    ((_, said), *_) = made(Path=Text.from_pylist([path, "b"]), Size=Text.from_pylist(["1", "2"])).longest(1)
    shown = said.removeprefix("Path=").partition(" ")[0]
    assert (len(shown), said.endswith(" Size=1")) == (LONGEST_VALUE, True)
    assert (shown[:10], shown[-21:]) == (path[:10], path[-21:])
    (note,) = made(Path=Text.from_pylist([path] * 3), Size=Text.from_pylist([*"123"])).notes
    assert note == f"all with Path={shown}"
