"""Series and processes made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dotnetdiag.analysis.running_totals import RunningSeries
from dotnetdiag.analysis.series import CounterKind, Instrument, InstrumentKey, Series
from dotnetdiag.client import Client
from dotnetdiag.recipes.counter_watch import CounterProcess
from dotnetdiag.service.fleet_state import FleetSnapshot, ServedProcess

NOW_NS = 1_700_000_000_000_000_000


def process(number: int = 0, pid: int | None = 77, name: str = "app", target: str = "") -> CounterProcess:
    client = Client.connect(target) if target.endswith(",connect") else None
    return CounterProcess(
        number=number, pid=pid, name=name, runtime="10.0", target=target or f"process {pid}", client=client
    )


def served(number: int = 0, *, service: str = "shop", is_up: bool = True, **of_process: Any) -> ServedProcess:
    return ServedProcess(process=process(number, **of_process), service=service, is_up=is_up)


def running(
    name: str = "orders",
    kind: CounterKind = CounterKind.COUNTER,
    *,
    number: int = 0,
    pid: int = 0,
    provider: str = "Meter",
    version: str = "",
    unit: str = "",
    tags: Mapping[str, str] | None = None,
    description: str = "",
    meter_tags: Mapping[str, str] | None = None,
    instrument_tags: Mapping[str, str] | None = None,
    **figures: Any,
) -> RunningSeries:
    """One series; ``pid`` is the number of its process."""
    instrument = Instrument(
        key=InstrumentKey(pid, "SHARED", provider, version, name, number),
        unit=unit,
        description=description,
        tags=instrument_tags or {},
        meter_tags=meter_tags or {},
    )
    series = Series(number=number, kind=kind, unit=unit, tags=tags or {}, instrument=instrument)
    nothing: dict[str, Any] = dict.fromkeys(("value", "rate", "interval_s", "total", "count", "sum"))
    said = {**nothing, "begin_ns": NOW_NS, "utc_ns": NOW_NS, "quantiles": {}, **figures}
    return RunningSeries(series=series, **said)


def snapshot(*series: RunningSeries, processes: tuple[ServedProcess, ...] | None = None) -> FleetSnapshot:
    return FleetSnapshot(processes=(served(),) if processes is None else processes, series=list(series))
