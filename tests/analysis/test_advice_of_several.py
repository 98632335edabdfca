"""Advice of a recording of several processes: of each what is said of it alone."""

from __future__ import annotations

import io
from collections.abc import Sequence
from itertools import pairwise

import pytest
from tests.analysis.test_advice import thrown
from tests.analysis.test_waits import late_circle
from tests.analysis.traces import traced
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.analysis.advice import MOST_APART, AdviceFold, advice
from dotnetdiag.analysis.advice_report import MOST_PROCESSES, AdviceReport
from dotnetdiag.analysis.everything import everything
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.waits import contention
from dotnetdiag.trace.merge import merge
from dotnetdiag.trace.recorded import Recorded, recorded_of
from dotnetdiag.trace.trace import Trace

WHOLE = [name for name in recordings() if ".nettrace" in name and "cut" not in name]


def merged(*traces: Trace, recorded: Sequence[Recorded] = ()) -> tuple[Trace, list[int]]:
    """They in one, and the number of each one's process."""
    out, told = io.BytesIO(), recorded or [recorded_of(trace) for trace in traces]
    numbers = merge([trace.raw.contents for trace in traces], out, told)
    return Trace(out.getvalue()), [own[trace.raw.process.pid or 0] for own, trace in zip(numbers, traces, strict=True)]


def told(report: AdviceReport, pid: int | None = None) -> list[tuple[str, str]]:
    """Questions and texts; of one process of several."""
    found = [(row["question"], row["text"]) for row in report.findings.to_pylist()]
    begin = "" if pid is None else f"process {pid}: "
    return sorted((question, text.removeprefix(begin)) for question, text in found if text.startswith(begin))


@pytest.mark.parametrize(("first", "second"), list(pairwise([*WHOLE, *WHOLE[:1]])))
def test_of_each_process_is_said_what_is_said_of_its_recording(first: str, second: str) -> None:
    alone = [Trace(data_of(name), name=name) for name in (first, second)]
    both, pids = merged(*alone)
    made = advice(both)
    for trace, pid in zip(alone, pids, strict=True):
        assert told(made, pid) == told(advice(trace))
    assert len(made.findings) == sum(len(told(made, pid)) for pid in pids)
    assert made.lacking.keys() == set.intersection(*(set(advice(trace).lacking) for trace in alone))
    assert told(everything(both).reports["advice"]) == told(made)


def busy() -> Trace:
    """A hundred exceptions in a second."""
    return traced(*(thrown(10.0 * at, "App.E", "no") for at in range(101)))


def test_how_often_is_of_the_time_of_the_process() -> None:
    """It was recorded for a second, and another one for an hour."""
    second, hour = Recorded(0.0, 1.0), Recorded(0.0, 3600.0)
    both, (pid, other) = merged(busy(), busy(), recorded=[second, hour])
    (alone,) = fold(busy(), AdviceFold(seconds=second))
    assert told(advice(both), pid) == told(alone) != []
    assert told(advice(both), other) == []


def test_what_one_has_lost_leaves_what_another_waits_for() -> None:
    """The end of the wait cannot be among it."""
    stuck = traced(*late_circle())
    lossy = Trace(data_of("lossy-10.nettrace"))
    assert lossy.lost.total
    both, (pid, _) = merged(stuck, lossy)
    assert both.lost.total
    (text,) = [text for question, text in told(advice(both), pid) if question == "contention"]
    assert "they wait for each other" in text
    assert any("they wait for each other" in note for note in contention(both).notes)


def test_of_many_processes_the_last_are_asked_together_and_each_question_names_three() -> None:
    both, pids = merged(*(busy() for _ in range(MOST_APART + 2)), recorded=[Recorded(0.0, 1.0)] * (MOST_APART + 2))
    made = advice(both)
    texts = [row["text"] for row in made.findings.to_pylist()]
    assert len(texts) == MOST_PROCESSES
    assert all("101 exceptions" in text or "202 exceptions" in text for text in texts)
    assert sum(text.startswith(tuple(f"process {pid}: " for pid in pids)) for text in texts) >= MOST_PROCESSES - 1
