"""Recordings of counters made by hand: ``MadeCounters(runtime="8").counter("orders", rate="5", tags="a=b").trace()``."""

from __future__ import annotations

import io
import struct
from collections.abc import Mapping
from typing import Any, Self

from dotnetdiag.analysis.metrics import METRICS
from dotnetdiag.nettrace import Field, FieldType, Metadata, ThreadInfo, TypeCode, Writer
from dotnetdiag.trace.trace import Trace

MS = 1_000_000
START_NS = 1_700_000_000_000_000_000
TEXT, INT, LONG, DOUBLE, DATE = TypeCode.STRING, TypeCode.INT32, TypeCode.INT64, TypeCode.DOUBLE, TypeCode.DATETIME
FILETIME_1970 = 116_444_736_000_000_000

_INSTRUMENT = ("sessionId", "meterName", "meterVersion", "instrumentName")
_SERIES = (*_INSTRUMENT, "unit", "tags")
_TYPES: Mapping[str, TypeCode] = {
    "instrumentId": INT, "count": INT, "sum": DOUBLE, "intervalStartTime": DATE, "intervalEndTime": DATE, "scale": INT,
    "zeroCount": LONG, "minimum": DOUBLE, "maximum": DOUBLE,
}  # fmt: skip
_PACKED = {INT: "<i", LONG: "<q", DOUBLE: "<d", DATE: "<q", TypeCode.SINGLE: "<f"}
_ANNOUNCED = (*_INSTRUMENT, "instrumentType", "unit", "description")
_SCOPED = ("instrumentTags", "meterTags", "meterScopeHash")

VERSIONS: Mapping[str, Mapping[int, tuple[int, tuple[str, ...]]]] = {
    "6": {
        4: (0, (*_SERIES, "rate")),
        5: (0, (*_SERIES, "lastValue")),
        6: (0, (*_SERIES, "quantiles")),
        7: (0, _ANNOUNCED),
        8: (0, _ANNOUNCED),
    },
    "8": {
        4: (1, (*_SERIES, "rate", "value")),
        5: (0, (*_SERIES, "lastValue")),
        6: (1, (*_SERIES, "quantiles", "count", "sum")),
        7: (1, (*_ANNOUNCED, *_SCOPED)),
        8: (1, (*_ANNOUNCED, *_SCOPED)),
        16: (1, (*_SERIES, "rate", "value")),
    },
    "10": {
        4: (2, (*_SERIES, "rate", "value", "instrumentId")),
        5: (2, (*_SERIES, "lastValue", "instrumentId")),
        6: (2, (*_SERIES, "quantiles", "count", "sum", "instrumentId")),
        7: (3, (*_ANNOUNCED, *_SCOPED, "instrumentId", "meterTelemetrySchemaUrl")),
        8: (3, (*_ANNOUNCED, *_SCOPED, "instrumentId", "meterTelemetrySchemaUrl")),
        16: (2, (*_SERIES, "rate", "value", "instrumentId")),
    },
}
"""Runtime → event id → its version, and its fields."""
COMMON: Mapping[int, tuple[int, tuple[str, ...]]] = {
    2: (0, ("sessionId", "intervalStartTime", "intervalEndTime")),
    3: (0, ("sessionId", "intervalStartTime", "intervalEndTime")),
    9: (0, ("sessionId", "errorMessage")),
    12: (0, ("sessionId",)),
    13: (0, ("sessionId",)),
    14: (0, ("sessionId", "errorMessage")),
    15: (0, ("runningSessionId",)),
    17: (0, ("clientId", "expectedMaxHistograms", "actualMaxHistograms")),
    19: (1, (*_INSTRUMENT, "instrumentId", "unit", "tags", "scale", "sum", "count", "zeroCount", "minimum", "maximum", "buckets")),
}  # fmt: skip
"""Those that are the same everywhere; 19 has a count of 64 bits."""
_DEFAULTS: Mapping[str, Any] = {"sessionId": "me", "meterName": "Meter", "instrumentName": "one"}


def z16(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass") + b"\0\0"


class MadeCounters:
    """Events in the order in which they are added, so many ms after the start as was said last."""

    def __init__(self, runtime: str = "10", *, version: int = 5) -> None:
        self._versions = {**COMMON, **VERSIONS[runtime]}
        self._out = io.BytesIO()
        self._version = version
        self.writer = Writer(self._out, version=version, process_id=77, start_ns=START_NS)
        if version == 6:
            for index in (1, 2):
                self.writer.add_thread(ThreadInfo(index=index, os_thread_id=500 + index, process_id=76 + index))
        self._known: dict[tuple[Any, ...], int] = {}
        self.ms = 0.0
        self.thread = 1

    def at(self, ms: float, *, thread: int = 1) -> Self:
        self.ms, self.thread = ms, thread
        return self

    def _write(self, key: tuple[Any, ...], metadata: Mapping[str, Any], payload: bytes) -> Self:
        if key not in self._known:
            self._known[key] = len(self._known) + 1
            self.writer.add_metadata(Metadata(metadata_id=self._known[key], **metadata))
        self.writer.write_event(self._known[key], round(self.ms * MS), payload, thread=self.thread, is_sorted=True)
        return self

    def metric(self, number: int, *, cut: int | None = None, **values: Any) -> Self:
        """One event of the provider of metrics; ``cut``: so many bytes of its payload."""
        version, names = self._versions[number]
        fields, payload = [], b""
        for name in names:
            code = LONG if (number, name) == (19, "count") else _TYPES.get(name, TEXT)
            value = values.get(name, _DEFAULTS.get(name, "" if code is TEXT else 0))
            fields.append(Field(name=name, type=FieldType(code=code)))
            payload += z16(value) if code is TEXT else struct.pack(_PACKED[code], value)
        metadata = {"provider": METRICS, "event_id": number, "version": version, "level": 4, "fields": tuple(fields)}
        return self._write((METRICS, number), metadata, payload[:cut])

    def interval(self, seconds: float, **values: Any) -> Self:
        end = FILETIME_1970 + (START_NS + round(self.ms * MS)) // 100
        return self.metric(2, intervalStartTime=end - round(seconds * 1e7), intervalEndTime=end, **values)

    def counter(self, name: str = "one", **values: Any) -> Self:
        return self.metric(4, instrumentName=name, **values)

    def gauge(self, name: str = "one", **values: Any) -> Self:
        return self.metric(5, instrumentName=name, **values)

    def event_counter(self, provider: str = "Source", **members: Any) -> Self:
        """Members of ``Payload``: texts, floats (doubles), ints; ``IntervalSec`` is a single."""
        fields, payload = [], b""
        for name, value in members.items():
            code = (
                TypeCode.SINGLE if name == "IntervalSec" else TEXT if isinstance(value, str)
                else DOUBLE if isinstance(value, float) else INT
            )  # fmt: skip
            fields.append(Field(name=name, type=FieldType(code=code)))
            payload += z16(value) if code is TEXT else struct.pack(_PACKED[code], value)
        inner = Field(name="Payload", type=FieldType(code=TypeCode.OBJECT, fields=tuple(fields)))
        outer = Field(name="", type=FieldType(code=TypeCode.OBJECT, fields=(inner,)))
        metadata = {"provider": provider, "event_id": 21, "name": "EventCounters", "level": 0, "fields": (outer,)}
        return self._write((provider, *members), metadata, payload)

    def data(self) -> bytes:
        self.writer.close()
        return self._out.getvalue()

    def trace(self) -> Trace:
        return Trace(self.data(), name="made")
