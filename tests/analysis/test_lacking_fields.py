"""Events that end before their fields, as in damaged blocks: what they lack has no value in any answer."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from tests.analysis.traces import said, traced
from tests.nettrace.recordings import data_of

import dotnetdiag as dd
from dotnetdiag.nettrace import Writer, read
from dotnetdiag.trace.trace import Trace

CLR, TPL, LOGGING = (
    "Microsoft-Windows-DotNETRuntime",
    "System.Threading.Tasks.TplEventSource",
    "Microsoft-Extensions-Logging",
)


def emptied(data: bytes, provider: str, number: int) -> bytes:
    """The same events, but that the first two of a type have no bytes."""
    whole, made, seen = read(data), io.BytesIO(), 0
    headers = whole.headers
    with Writer(made, process_id=1) as writer:
        for record in whole.metadata.values():
            writer.add_metadata(record)
        for row in headers.time.argsort(kind="stable").tolist():
            kind = whole.metadata[int(headers.metadata_id[row])]
            payload = whole.payload(row)
            if (kind.provider, kind.event_id) == (provider, number):
                payload, seen = payload if seen >= 2 else b"", seen + 1
            ms = int(headers.time[row] - headers.time.min())
            writer.write_event(kind.metadata_id, ms, payload, thread=int(headers.thread[row]), is_sorted=False)
    assert seen > 1
    return made.getvalue()


def below_nothing(report: Any) -> Iterator[tuple[str, str, float]]:
    """Numbers below 0 in any table of a report: no field that the answers tell has such."""
    for name, table in report.document().items():
        for row in table.to_pylist() if isinstance(table, dd.Table) else ():
            yield from (
                (name, key, value) for key, value in row.items() if isinstance(value, int | float) and value < 0
            )


@pytest.mark.parametrize(
    ("recording", "provider", "number", "kind"),
    [
        ("gccollect-10.nettrace", CLR, 1, "gc"),
        ("gccollect-10.nettrace", CLR, 4, "gc"),
        ("gccollect-10.nettrace", CLR, 204, "gc"),
        ("default-10.nettrace", CLR, 50, "threadpool"),
        ("default-10.nettrace", CLR, 55, "threadpool"),
        ("default-10.nettrace", CLR, 85, "threads"),
        ("startup-10.nettrace", CLR, 291, "loader"),
        ("web-10.nettrace", LOGGING, 23, "logs"),
    ],
)
def test_what_an_event_lacks_has_no_value(recording: str, provider: str, number: int, kind: str) -> None:
    report = getattr(dd, kind)(Trace(emptied(data_of(recording), provider, number)))
    assert not list(below_nothing(report))
    assert any(len(table) for table in report.document().values() if isinstance(table, dd.Table))


def test_an_await_that_lacks_its_task_is_of_none() -> None:
    trace = traced(
        said(0, 1, "App.Work", provider=TPL, number=10, name="TaskWaitBegin"),
        said(1, 1, "App.Work", provider=TPL, number=10, name="TaskWaitBegin"),
    )
    made = dd.tasks(trace)
    assert len(made.awaits) == 2
    assert not list(below_nothing(made))
