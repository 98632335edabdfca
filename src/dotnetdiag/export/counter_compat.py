"""Values of counters as dotnet-counters writes them: one row for each percentile, rates for what is added up, names with units.

Its CSV has no quotes, and semicolons in the place of the commas of tags; here what needs quotes has them. Its times are those of the tool, in the
tool's own language; here they are those of the events, as the language for everybody writes them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from dotnetdiag.analysis.counters import Counters
from dotnetdiag.analysis.series import CounterKind, Series
from dotnetdiag.table import Table

CSV_COLUMNS = ("Timestamp", "Provider", "Counter Name", "Counter Type", "Mean/Increment")
JSON_COLUMNS = (
    "timestamp", "provider", "name", "tags", "counterType", "meterTags", "instrumentTags", "value",
)  # fmt: skip
JSON_TAIL = b"]}\n"
_RATES = (CounterKind.COUNTER, CounterKind.RATE)


def json_head(process: str, start_ns: int) -> bytes:
    """What stands before the events."""
    start = _iso(start_ns)
    return f'{{ "TargetProcess": {json.dumps(process)}, "StartTime": "{start}", "Events": ['.encode()


def csv_rows(counters: Counters) -> Table:
    """The rows of its CSV."""
    rows = [
        {
            "Timestamp": _local(one["time"]),
            "Provider": one["provider"],
            "Counter Name": one["name"] + (f"[{one['tags'].replace(',', ';')}]" if one["tags"] else ""),
            "Counter Type": one["counterType"],
            "Mean/Increment": one["value"],
        }
        for one in _values(counters)
    ]
    return Table.of_rows(rows, columns=CSV_COLUMNS, title="counters")


def json_rows(counters: Counters) -> Table:
    """The events of its JSON."""
    rows = [{**one, "timestamp": _iso(one["time"])} for one in _values(counters)]
    return Table.of_rows(
        [{name: row[name] for name in JSON_COLUMNS} for row in rows], columns=JSON_COLUMNS, title="counters"
    )


def _values(counters: Counters) -> Iterator[dict[str, Any]]:
    series = {one.number: one for one in counters.series}
    rows = counters.rows
    for number, row in zip(rows.values("series"), rows.to_pylist(), strict=True):
        one = series[number]
        common = {
            "time": row["time"],
            "provider": one.provider,
            "name": _name(one, row["interval_s"]),
            "counterType": "Rate" if one.kind in _RATES else "Metric",
            "meterTags": _tags(one.instrument.meter_tags),
            "instrumentTags": _tags(one.instrument.tags),
        }
        tags = _tags(one.tags, ":" if one.kind.is_event_counter else "=")
        if one.kind is CounterKind.HISTOGRAM:
            for quantile, value in (row["quantiles"] or {}).items():
                if value is not None:
                    percentile = f"Percentile={float(quantile) * 100:g}"
                    yield {**common, "tags": f"{tags},{percentile}" if tags else percentile, "value": value}
        else:
            value = row["delta"] if one.kind in _RATES else row["value"]
            if value is not None:
                yield {**common, "tags": tags, "value": value}


def _name(one: Series, interval_s: float | None) -> str:
    """As it is shown: the display name of an EventCounter, the unit behind it."""
    name = one.instrument.description or one.name if one.kind.is_event_counter else one.name
    if one.kind not in _RATES:
        return f"{name} ({one.unit})" if one.unit else name
    seconds = f"{round(interval_s) or 1 if interval_s else 1} sec"
    return f"{name} ({one.unit or 'Count'} / {seconds})"


def _tags(tags: Mapping[str, str], mark: str = "=") -> str:
    return ",".join(f"{key}{mark}{value}" for key, value in tags.items())


def _local(time_ns: int | None) -> str:
    return "" if time_ns is None else datetime.fromtimestamp(time_ns / 1e9).strftime("%m/%d/%Y %H:%M:%S")


def _iso(time_ns: int | None) -> str:
    if time_ns is None:
        return ""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 100:07}+00:00"
