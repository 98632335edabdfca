"""Exceptions of recordings, whose workload says how many it threw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.analysis.traces import Seen, traced
from tests.nettrace.recordings import data_of, recordings
from tests.trace.made import RUNTIME, z16

from dotnetdiag.analysis import exceptions as room
from dotnetdiag.analysis.exceptions import NO_EVENTS, exceptions
from dotnetdiag.analysis.kept_events import OTHERS
from dotnetdiag.analysis.stacked import NO_STACKS
from dotnetdiag.trace.trace import Trace

TYPES = ["Workload.WidgetException", "System.ArgumentException", "System.FormatException"]


@pytest.mark.parametrize("name", recordings())
def test_as_many_as_events(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    thrown = trace.counts().get("Microsoft-Windows-DotNETRuntime", {}).get("Exception/Start", 0)
    made = exceptions(trace)
    assert made.count == thrown
    for table in (made.by_type, made.by_message, made.by_second):
        assert sum(table.values("count")) == thrown
    assert made.notes == (() if thrown else (NO_EVENTS,))
    if thrown and "Workload.WidgetException" in made.by_type.values("type"):
        # per round two of the first type, and one of each other
        counts = dict(zip(made.by_type.values("type"), made.by_type.values("count"), strict=True))
        assert {one: counts[one] / thrown for one in TYPES} == dict(zip(TYPES, (0.5, 0.25, 0.25), strict=True))


def test_messages_beyond_the_limit_count_by_type(monkeypatch: pytest.MonkeyPatch) -> None:
    name = next(one for one in recordings() if one.startswith("events-10"))
    monkeypatch.setattr(room, "MOST_MESSAGES", 3)
    made = exceptions(Trace(data_of(name), name=name))
    assert made.count == sum(made.by_type.values("count"))
    assert len({*made.by_message.values("message")} - {OTHERS}) == 3
    assert sum(made.by_message.values("count")) == made.count
    assert "beyond the limit" in made.notes[0]


def test_where_no_throw_has_a_stack_it_is_said() -> None:
    payload = z16("Lost") + z16("") + bytes(8) + bytes(4) + bytes(2) + bytes(2)
    one = Seen(ms=1, thread=1, stack=("Throw", "Main"), provider=RUNTIME, number=80, payload=payload, version=1)
    assert NO_STACKS not in exceptions(traced(one)).notes
    made = exceptions(traced(replace(one, stack=())))
    assert (made.count, made.by_method.values("method")) == (1, [None])
    assert NO_STACKS in made.notes
