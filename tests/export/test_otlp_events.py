"""Messages and activities as OpenTelemetry's log records and spans: what its own encoders make of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from opentelemetry.exporter.otlp.proto.common._log_encoder import encode_logs
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from tests.recipes.collectors import Received, attributes_of

from dotnetdiag.analysis.activity_spans import ActivitySpan
from dotnetdiag.analysis.log_entries import LogEntry, LoggedException
from dotnetdiag.export.otlp_logs import build_logs
from dotnetdiag.export.otlp_spans import build_spans

APP: dict[str, str | int] = {"service.name": "shop", "process.pid": 77}
ENTRY = LogEntry(
    pid=7,
    time_ns=5,
    level=3,
    logger="Shop.Orders",
    text="order 7, \ud800",
    event_id=4,
    event_name="Ordered",
    arguments={'a,"b': "=ż🐍", "{OriginalFormat}": "order {Id}"},
    exception=LoggedException(type="T", message="M", text="T: M"),
    trace_id="1ac56d1782cadcad3d55f8542322eda4",
    span_id="35805bc6258e3d1c",
    trace_flags=1,
)
SPAN = ActivitySpan(
    pid=7,
    source="Shop",
    source_version="1.0",
    name="GET /",
    trace_id=0x1AC5,
    span_id=0x3580,
    parent_id=0x495D,
    is_recorded=True,
    trace_state="a=b,c=d",
    kind="Server",
    begin_ns=10,
    end_ns=30,
    status="Error",
    status_text="it failed",
    tags={"x,y": "=ż"},
)


def test_a_message_is_a_log_record() -> None:
    (one,) = Received(requests=[encode_logs(build_logs([(APP, [ENTRY])]))]).logs()
    resource, scope, record = one
    assert (resource, scope) == (APP, "Shop.Orders")
    assert (record.time_unix_nano, record.severity_number, record.severity_text) == (5, 13, "Warning")
    assert record.body.string_value == "order 7, \ufffd"
    assert record.event_name == "Ordered"
    assert attributes_of(record) == {
        **ENTRY.arguments,
        "logrecord.event.id": 4,
        "exception.type": "T",
        "exception.message": "M",
        "exception.stacktrace": "T: M",
    }
    assert (record.trace_id.hex(), record.span_id.hex(), record.flags) == (ENTRY.trace_id, ENTRY.span_id, 1)


@pytest.mark.parametrize(("level", "number"), list(enumerate([1, 5, 9, 13, 17, 21])))
def test_levels_are_severities(level: int, number: int) -> None:
    (record,) = build_logs([(APP, [replace(ENTRY, level=level)])])
    assert record.log_record.severity_number is not None
    assert record.log_record.severity_number.value == number


@pytest.mark.parametrize("ids", [("", ""), ("zz", "1"), ("0" * 32, "0" * 16), ("1", ""), ("f" * 40, "1")])
def test_a_message_outside_of_activities_has_no_ids(ids: tuple[str, str]) -> None:
    plain = replace(ENTRY, trace_id=ids[0], span_id=ids[1], level=99, event_id=0, event_name="", exception=None)
    ((_, _, record),) = Received(requests=[encode_logs(build_logs([(APP, [plain])]))]).logs()
    assert (record.trace_id, record.span_id, record.severity_number, record.severity_text) == (b"", b"", 0, "99")
    assert attributes_of(record) == ENTRY.arguments


def test_an_activity_is_a_span_with_its_parent() -> None:
    ((resource, scope, span),) = Received(requests=[encode_spans(build_spans([(APP, [SPAN])]))]).spans()
    assert (resource, scope, span.name, span.kind) == (APP, "Shop", "GET /", 2)
    assert (int(span.trace_id.hex(), 16), int(span.span_id.hex(), 16)) == (0x1AC5, 0x3580)
    assert int(span.parent_span_id.hex(), 16) == 0x495D
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (10, 30)
    assert (span.status.code, span.status.message, span.trace_state) == (2, "it failed", "a=b,c=d")
    assert attributes_of(span) == {"x,y": "=ż"}


def test_what_an_activity_does_not_say_a_span_does_not_have() -> None:
    plain = replace(SPAN, parent_id=0, kind="", status="", status_text="x", trace_state="", tags={}, source_version="")
    ((_, _, span),) = Received(requests=[encode_spans(build_spans([(APP, [plain])]))]).spans()
    assert (span.parent_span_id, span.kind, span.status.code, span.status.message) == (b"", 1, 0, "")


def test_times_before_1970_are_1970() -> None:
    log = replace(ENTRY, time_ns=-5)
    ((_, _, record),) = Received(requests=[encode_logs(build_logs([(APP, [log])]))]).logs()
    span = replace(SPAN, begin_ns=-5, end_ns=3)
    ((_, _, made),) = Received(requests=[encode_spans(build_spans([(APP, [span])]))]).spans()
    assert (record.time_unix_nano, made.start_time_unix_nano, made.end_time_unix_nano) == (0, 0, 3)
