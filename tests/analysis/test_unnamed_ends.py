"""Which end is of which begin, where nothing but the time tells."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.analysis import open_spans, request_spans
from dotnetdiag.analysis.everything import everything
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.open_spans import OPEN
from dotnetdiag.analysis.requests import SHARED_IDS, RequestsFold, requests
from dotnetdiag.analysis.unnamed_ends import UnnamedEnds
from dotnetdiag.nettrace import Field, FieldType, Metadata, TypeCode, Writer
from dotnetdiag.trace.trace import Trace

BEGIN, END, FAIL = "begin", "end", "fail"
HTTP = "System.Net.Http"


def events(steps: Sequence[tuple[str, int]], kind: str, first_row: int = 0) -> Any:
    ms = [at for at, (what, _) in enumerate(steps) if what == kind]
    made = np.zeros(len(ms), OPEN)
    made["ms"], made["pid"], made["row"] = ms, [steps[at][1] for at in ms], np.array(ms) + first_row
    return made


def one_by_one(steps: Sequence[tuple[str, int]]) -> tuple[dict[int, int], set[int], dict[int, int]]:
    """(ends by begins, begins whose end is not known, begins by failures: -1 for not known), one event after the other."""
    ended, unknown, of = dict[int, int](), set[int](), dict[int, int]()
    stretch: dict[int, list[int]] = {}
    left: dict[int, int] = {}
    last: dict[int, int] = {}
    for at, (what, pid) in enumerate(steps):
        inside = stretch.setdefault(pid, [])
        if what == BEGIN:
            inside.append(at)
            left[pid] = left.get(pid, 0) + 1
            if left[pid] < len(inside):
                unknown.update(inside)
        elif what == FAIL:
            of[at] = last.get(pid, -1) if not inside else inside[0] if len(inside) == 1 else -1
        elif what == END and inside:
            left[pid] -= 1
            if len(inside) == 1:
                ended[inside[0]] = at
            else:
                unknown.update(inside)
            if not left[pid]:
                last[pid] = inside[0] if len(inside) == 1 else -1
                inside.clear()
    return ended, unknown, of


STEPS = st.lists(st.tuples(st.sampled_from([BEGIN, BEGIN, END, END, FAIL]), st.integers(1, 2)), max_size=24)


def shared_by(some: Any) -> Any:
    """The same events, of one process: what was the process is an id that tells nothing."""
    some["activity"], some["pid"] = some["pid"], 1
    return some


@pytest.mark.parametrize("is_shared", [False, True])
@given(steps=STEPS, size=st.integers(1, 24))
def test_in_parts_and_at_once_as_one_by_one(*, is_shared: bool, steps: list[tuple[str, int]], size: int) -> None:
    ended, unknown, of = dict[int, int](), set[int](), dict[int, int]()
    waiting, told = np.zeros(0, OPEN), UnnamedEnds()
    for first in range(0, len(steps), size):
        part = [step if first <= at < first + size else ("", 0) for at, step in enumerate(steps)]
        came = [shared_by(events(part, kind)) if is_shared else events(part, kind) for kind in (BEGIN, END, FAIL)]
        starts, stops, failures = np.concatenate([waiting, came[0]]), *came[1:]
        found = told.of(starts, stops, failures, [np.full(len(one), is_shared) for one in (starts, stops, failures)])
        ended |= dict(zip(starts["row"][found.first].tolist(), stops["row"][found.last].tolist(), strict=True))
        unknown |= {*starts["row"][found.unknown].tolist()}
        of |= dict(zip(failures["row"][found.asked].tolist(), found.of.tolist(), strict=True))
        starts["is_unknown"][found.unknown] = 1
        waiting = np.delete(starts, np.append(found.first, np.setdiff1d(found.unknown, found.kept)))
    assert (ended, unknown, of) == one_by_one(steps)


def recorded(steps: Sequence[tuple[int, int, int]], activities: Sequence[int] = ()) -> Trace:
    """(1 begins, 2 ends, 3 ends with status 500, 4 fails; thread; ms)."""
    file = io.BytesIO()
    path = (Field(name="pathAndQuery", type=FieldType(code=TypeCode.STRING)),)
    why = (Field(name="exceptionMessage", type=FieldType(code=TypeCode.STRING)),)
    status = (Field(name="statusCode", type=FieldType(code=TypeCode.INT32)),)
    with Writer(file, frequency=1000) as writer:
        for number, name, fields in ((1, "RequestStart", path), (2, "RequestStop", status), (4, "RequestFailed", why)):
            writer.add_metadata(Metadata(metadata_id=number, provider=HTTP, event_id=number, name=name, fields=fields))
        for at, (kind, thread, ms) in enumerate(steps):
            ids: dict[str, Any] = {"activity": UUID(int=activities[at])} if activities else {}
            text = {1: "/x\0", 4: "gone\0"}.get(kind)
            payload = (200 if kind == 2 else 500).to_bytes(4, "little") if text is None else text.encode("utf-16-le")
            writer.write_event(2 if kind == 3 else kind, ms, payload, thread=thread, **ids)
    return Trace(file.getvalue())


def test_one_after_the_other_ends_are_known_on_whatever_threads() -> None:
    steps = [step for at in range(20) for step in ((1, at % 3, 10 * at), (2 + (at == 7), (at + 1) % 3, 10 * at + 4))]
    made = requests(recorded(steps))
    assert set(made.requests.values("duration_ms")) == {4.0}
    assert [at for at, status in enumerate(made.requests.values("status")) if status == 500] == [7]
    assert (made.totals.failed, made.totals.unknown, made.totals.unfinished) == (1, 0, 0)


AT_ONCE = [(1, 1, 0), (1, 2, 1), (3, 1, 5), (2, 1, 9), (1, 3, 20), (2, 2, 23)]


def test_of_several_at_once_nothing_is_said_that_is_not_known() -> None:
    made = requests(recorded(AT_ONCE))
    assert made.requests.values("duration_ms") == [None, None, 3.0]
    assert made.requests.values("status")[:2] == [None, None]
    assert (made.totals.unknown, made.totals.unknown_failures, made.totals.unfinished) == (2, {"client": 1}, 0)
    assert made.by_route.values("unfinished") == [0]
    assert any("2" in note and "not known when and how they ended (failed: 1 client)" in note for note in made.notes)


def test_advice_counts_failures_of_which_nobody_knows_whose_they_are() -> None:
    report = everything(recorded([*AT_ONCE, (1, 1, 5000), (2, 2, 5001)])).reports["advice"]
    assert report.findings.values("text") == [
        "1 of 4 requests that went out failed: 1 that the recording does not tell from others"
    ]


def test_with_activities_they_are_known() -> None:
    made = requests(recorded(AT_ONCE, [1, 2, 1, 2, 3, 3]))
    assert made.requests.values("duration_ms") == [5.0, 8.0, 3.0]
    assert (made.totals.failed, made.totals.unknown) == (1, 0)


@pytest.mark.parametrize("between", [10, 3000])
def test_from_when_on_a_process_gives_ids_does_not_depend_on_others(
    between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_spans, "_FOLLOWED", 100)
    monkeypatch.setattr(open_spans, "_HELD", 0)
    steps = [(1, 1, 0), (1, 2, 1), (2, 1, 2), (2, 2, 3)]
    others = [(1 + at % 2, 9, 4 + at) for at in range(between)]
    late = [(1, 1, 5000), (2, 1, 5007)]
    made = requests(recorded([*steps, *others, *late], [0] * 4 + [1 + at // 2 for at in range(between)] + [9000, 9000]))
    assert made.requests.values("duration_ms")[:2] == [None, None]
    assert made.requests.values("duration_ms")[-1] == 7.0


def test_of_several_at_once_with_one_id_nothing_is_said_that_is_not_known() -> None:
    """.NET 10 gives ids so."""
    before, behind = [(1, 1, 0), (2, 2, 4)], [(1, 3, 50), (2, 4, 57)]
    steps = [*before, *((kind, thread, ms + 10) for kind, thread, ms in AT_ONCE), *behind]
    made = requests(recorded(steps, [5, 5, *[7] * 4, 5, 5, 7, 7]))
    assert made.requests.values("duration_ms") == [4.0, None, None, 3.0, 7.0]
    assert made.requests.values("status") == [200, None, None, 200, 200]
    assert (made.totals.unknown, made.totals.unknown_failures, made.totals.unfinished) == (2, {"client": 1}, 0)
    assert any("2" in note and "not known when and how they ended (failed: 1 client)" in note for note in made.notes)
    assert any(note.startswith(SHARED_IDS) for note in made.notes)


IDS = st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)), max_size=30)


@given(IDS, st.integers(1, 30))
def test_shared_ids_are_told_the_same_in_parts(steps: list[tuple[int, int, int]], size: int) -> None:
    trace = recorded([(kind, thread, 2 * at) for at, (kind, thread, _) in enumerate(steps)], [one for *_, one in steps])
    with pytest.MonkeyPatch.context() as patch:
        (expected,) = fold(trace, RequestsFold())
        patch.setattr(request_spans, "_FOLLOWED", size)
        patch.setattr(open_spans, "_HELD", 0)
        (made,) = fold(trace, RequestsFold(), rows=size)
    assert made.to_json() == expected.to_json()


def test_a_report_for_programs_says_how_many_are_unknown() -> None:
    told = requests(recorded(AT_ONCE)).to_json()
    assert (told["totals"]["unknown"], told["totals"]["unknown_failures"]) == (2, {"client": 1})


def test_where_a_process_gives_ids_an_end_without_one_is_of_its_thread() -> None:
    """The runtime forgets one now and then: what comes behind is known all the same."""
    steps = [(1, 1, 0), (2, 1, 1), *(step for at in range(1, 51) for step in ((1, 1, 10 * at), (2, 2, 10 * at + 4)))]
    ids = [0, 99, *(at for at in range(1, 51) for _ in range(2))]
    made = requests(recorded(steps, ids))
    assert made.requests.values("duration_ms") == [1.0, *[4.0] * 50]
    assert made.totals.unknown == 0


@pytest.mark.parametrize("size", [1, 1 << 14])
def test_a_failure_behind_the_end_is_of_what_ended_last(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(request_spans, "_FOLLOWED", size)
    monkeypatch.setattr(open_spans, "_HELD", 0)
    steps = [(1, 1, 0), (2, 2, 4), (1, 2, 10), (2, 1, 14), (4, 1, 15), (1, 3, 20), (4, 4, 20), (2, 1, 24)]
    (made,) = fold(recorded(steps), RequestsFold(), rows=size)
    assert made.requests.values("failure") == [None, "gone", "gone"]
    assert made.totals.unknown_failures == {}
