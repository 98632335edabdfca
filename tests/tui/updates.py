"""A watch whose updates a test gives, and values of counters to put into them."""

from __future__ import annotations

import queue
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dotnetdiag.analysis.counters import Counters
from dotnetdiag.analysis.series import CounterKind, Instrument, InstrumentKey, Series
from dotnetdiag.recipes.counter_watch import (
    CounterChange,
    CounterNotice,
    CounterOptions,
    CounterProcess,
    CounterSilence,
    CounterUpdate,
)
from dotnetdiag.table import Table

LIMIT_S = 60.0


@dataclass
class FakeWatch:
    """Gives what is put into it, until it is stopped or fails."""

    options: CounterOptions = field(default_factory=CounterOptions)
    given: queue.SimpleQueue[CounterUpdate | Exception | None] = field(default_factory=queue.SimpleQueue)
    stopped: bool = False
    until_s: float | None = None

    def put(self, *updates: CounterUpdate) -> None:
        """The next ones."""
        for one in updates:
            self.given.put(one)

    def end(self, error: Exception | None = None) -> None:
        """No more; with an error it is raised."""
        self.given.put(error)

    def updates(self, until_s: float | None = None) -> Iterator[CounterUpdate]:
        self.until_s = until_s
        while (one := self.given.get(timeout=LIMIT_S)) is not None:
            if isinstance(one, Exception):
                raise one
            yield one

    def stop(self) -> None:
        self.stopped = True
        self.given.put(None)


def process(number: int, name: str = "orders", pid: int | None = None) -> CounterProcess:
    pid = 1000 + number if pid is None else pid
    return CounterProcess(number=number, pid=pid, name=name, runtime=".NET 10.0", target=f"process {pid}")


def joined(one: CounterProcess) -> CounterChange:
    return CounterChange(process=one, joined=True)


def gone(one: CounterProcess, why: str = "") -> CounterChange:
    return CounterChange(process=one, joined=False, why=why)


def series(
    number: int,
    name: str,
    kind: str = "gauge",
    *,
    unit: str = "",
    tags: Mapping[str, str] | None = None,
    provider: str = "System.Runtime",
    of: int = 0,
    ended: bool = False,
) -> Series:
    key = InstrumentKey(pid=of, session="s", provider=provider, version="", name=name, number=0)
    return Series(
        number=number,
        kind=CounterKind(kind),
        unit=unit,
        tags=tags or {},
        instrument=Instrument(key=key, unit=unit, ended_ms=5.0 if ended else None),
    )


def row(one: Series, shown_value: float | None = None, /, **figures: Any) -> dict[str, Any]:
    """One value; of what is added up it is the rate."""
    shown = {"rate": shown_value} if one.kind in ("counter", "rate") else {"value": shown_value}
    return {
        "series": one,
        "value": None,
        "rate": None,
        "count": None,
        "interval_s": 1.0,
        "quantiles": None,
        "sum": None,
        **shown,
        **figures,
    }


def counters(rows: Sequence[dict[str, Any]]) -> Counters:
    known = {one["series"].number: one["series"] for one in rows}
    columns = {
        name: [one[name] for one in rows] for name in ("value", "rate", "count", "sum", "interval_s", "quantiles")
    }
    columns["series"] = [one["series"].number for one in rows]
    return Counters(
        rows=Table(columns),
        series=tuple(known.values()),
        instruments=tuple({one.instrument.key: one.instrument for one in known.values()}.values()),
        notices=(),
        damaged=0,
        foreign=0,
        refused=0,
    )


def update(
    rows: Sequence[dict[str, Any]] = (),
    *changes: CounterChange,
    processes: Sequence[CounterProcess] = (),
    notices: Sequence[CounterNotice] = (),
    silences: Sequence[CounterSilence] = (),
) -> CounterUpdate:
    return CounterUpdate(
        counters=counters(rows),
        changes=changes,
        processes=tuple(processes),
        silences=tuple(silences),
        notices=tuple(notices),
    )
