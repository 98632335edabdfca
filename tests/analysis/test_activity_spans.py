"""Activities, from the arguments of their events."""

from __future__ import annotations

from typing import Any

import pytest

from dotnetdiag.analysis.activity_spans import ActivitySpan, _span

ARGUMENTS = {
    "TraceId": "1ac56d1782cadcad3d55f8542322eda4",
    "SpanId": "35805bc6258e3d1c",
    "ParentSpanId": "495dae439dbf5461",
    "ActivityTraceFlags": "Recorded",
    "TraceStateString": "a=b",
    "Kind": "Server",
    "DisplayName": "GET /",
    "StartTimeTicks": "639310547327679736",
    "DurationTicks": "537358",
    "Status": "Error",
    "StatusDescription": "it failed",
    "Tags": "[http.method, GET],[with, a, comma = 'x'],[array, System.String[]],[empty, ]",
    "ActivitySourceVersion": "1.0",
}


def span(**arguments: str) -> ActivitySpan | None:
    told = [{"Key": key, "Value": value} for key, value in {**ARGUMENTS, **arguments}.items()]
    return _span({"SourceName": "Shop", "ActivityName": "In", "Arguments": told}, 7)


def test_an_activity_is_a_span() -> None:
    assert span() == ActivitySpan(
        pid=7,
        source="Shop",
        source_version="1.0",
        name="GET /",
        trace_id=0x1AC56D1782CADCAD3D55F8542322EDA4,
        span_id=0x35805BC6258E3D1C,
        parent_id=0x495DAE439DBF5461,
        is_recorded=True,
        trace_state="a=b",
        kind="Server",
        begin_ns=1795457932767973600,
        end_ns=1795457932767973600 + 53735800,
        status="Error",
        status_text="it failed",
        tags={"http.method": "GET", "with": "a, comma = 'x'", "array": "System.String[]", "empty": ""},
    )


def test_one_without_a_display_name_has_its_own() -> None:
    made = span(DisplayName="", ParentSpanId="0000000000000000", Tags="", ActivityTraceFlags="None")
    assert made is not None
    assert (made.name, made.parent_id, made.tags, made.is_recorded) == ("In", 0, {}, False)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TraceId", "|hierarchical.1."),
        ("TraceId", "0" * 32),
        ("SpanId", "35805bc6258e3d1"),
        ("SpanId", "+5805bc6258e3d1c"),
        ("StartTimeTicks", ""),
        ("StartTimeTicks", "1"),
        ("DurationTicks", "-1"),
        ("DurationTicks", "9" * 30),
        ("DurationTicks", "9" * 5000),
        ("StartTimeTicks", "²"),
    ],
)
def test_one_without_ids_or_times_is_none(name: str, value: str) -> None:
    assert span(**{name: value}) is None


@pytest.mark.parametrize("arguments", [None, "text", 7, ["text"], [{"Value": "x"}], {"Key": "x"}])
def test_arguments_that_are_no_pairs_are_none(arguments: Any) -> None:
    assert _span({"SourceName": "Shop", "ActivityName": "In", "Arguments": arguments}, 7) is None
