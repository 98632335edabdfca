"""What the library under dotnet-counters and dotnet-monitor (``oracle.dll counters``) says of a recording, beside what we say of it: value by
value. What differs on purpose stands in :data:`DIFFERENCES`, with the reason, and nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from dotnetdiag.analysis.counters import Counters
from dotnetdiag.analysis.series import CounterKind

DIFFERENCES: Mapping[str, str] = {
    "ended": "The first value of an observable counter has no rate. The library takes that for the end of the instrument, and its value is lost.",
    "rate of value": "The first value of an up-down counter has no rate either. There the library takes the value itself for the rate.",
    "per interval": "The library's rate is what was added in the interval, which dotnet-counters shows as `/ 1 sec` whatever the interval is. "
    "Ours is per second; what was added is `delta`.",
    "no interval": "The library does not read how long the interval of metrics was.",
    "no cumulative": "The library does not give the sum since the beginning, which .NET 8 and later tell.",
    "count": "Increments without a unit have the unit `count` there, which the program never said.",
    "quantiles only": "A histogram in whose interval nothing was measured has no quantiles there, and dotnet-counters then has no line: we have "
    "a row with the count 0.",
    "not a number": "A value that is no finite number is 0 there: JSON has no other.",
}
"""What differs, and why we do otherwise."""

_NO_VALUES = ("BeginInstrumentReportingPayload", "ErrorPayload")


def key_of(provider: str, name: str, tags: str, ms: float) -> tuple[Any, ...]:
    return round(ms, 3), provider, name, tags


def differences(told: list[dict[str, Any]], ours: Counters) -> Counter[str]:
    """How often each of the differences occurs. Raises AssertionError for one that is none of them."""
    met: Counter[str] = Counter()
    rows = {}
    for row in ours.rows.to_json():
        mark = ":" if CounterKind(row["kind"]).is_event_counter else "="
        tags = ",".join(f"{key}{mark}{value}" for key, value in row["tags"].items())
        rows[key_of(row["provider"], row["instrument"], tags, row["ms"])] = row
    assert len(rows) == len(ours)
    for line in told:
        if line["kind"] in _NO_VALUES:
            continue
        about = line["CounterMetadata"]
        place = key_of(about["ProviderName"], about["CounterName"], line["ValueTags"] or "", line["ms"])
        if line["kind"] == "CounterEndedPayload":  # which has no tags
            place = next(one for one in rows if one[:3] == place[:3])
        row = rows.pop(place)
        assert line["Timestamp"] == row["utc"]
        met.update(_CHECKS[line["kind"]](line, row))
        if about["CounterUnit"] != row["unit"]:
            assert (about["CounterUnit"], row["unit"], row["kind"]) == ("count", "", "rate")
            met["count"] += 1
    assert not rows, "values that the library does not have"
    assert set(met) <= set(DIFFERENCES)
    return met


def _event_counter(line: dict[str, Any], row: dict[str, Any]) -> list[str]:
    assert row["kind"] == {"Rate": "rate", "Metric": "mean"}[line["CounterType"]]
    assert (line["Interval"], line["DisplayName"]) == (row["interval_s"], line["DisplayName"])
    if row["kind"] == "rate":
        assert line["Value"] == row["value"] == row["delta"]
        assert row["rate"] == row["value"] / row["interval_s"]
        return ["per interval"]
    return _value(line["Value"], row["value"])


def _value(theirs: float, ours: object) -> list[str]:
    if ours in ("NaN", "Infinity", "-Infinity"):
        return ["not a number"]
    assert theirs == ours
    return []


def _gauge(line: dict[str, Any], row: dict[str, Any]) -> list[str]:
    assert row["kind"] == "gauge"
    return ["no interval", *_value(line["Value"], row["value"])]


def _rate(line: dict[str, Any], row: dict[str, Any]) -> list[str]:
    assert row["kind"] == "counter"
    assert line["Value"] == line["Rate"] == row["delta"]
    assert row["rate"] == row["delta"] / row["interval_s"]
    assert row["value"] >= row["delta"]
    return ["per interval", "no interval", "no cumulative"]


def _up_down(line: dict[str, Any], row: dict[str, Any]) -> list[str]:
    assert row["kind"] == "updowncounter"
    assert line["Value"] == row["value"]
    if row["delta"] is None:
        assert line["Rate"] == row["value"]
        return ["no interval", "rate of value"]
    assert line["Rate"] == row["delta"]
    return ["no interval", "per interval"]


def _histogram(line: dict[str, Any], row: dict[str, Any]) -> list[str]:
    assert row["kind"] == "histogram"
    assert (line["Count"], line["Sum"]) == (row["count"], row["sum"])
    told = dict(text.rpartition("}")[2].split() for text in line["Quantiles"])
    known = {name: value for name, value in (row["quantiles"] or {}).items() if value is not None}
    assert {float(name): float(value) for name, value in told.items()} == {
        float(name): value for name, value in known.items()
    }
    return ["no interval", *([] if known else ["quantiles only"])]


def _ended(_: dict[str, Any], row: dict[str, Any]) -> list[str]:
    assert (row["rate"], row["delta"]) == (None, None)
    return ["ended"]


_CHECKS = {
    "EventCounterPayload": _event_counter,
    "GaugePayload": _gauge,
    "RatePayload": _rate,
    "UpDownCounterPayload": _up_down,
    "AggregatePercentilePayload": _histogram,
    "CounterEndedPayload": _ended,
}
