"""The events of ``System.Diagnostics.Metrics``, as .NET 10 writes them (nettrace.md §10.4): numbers, versions, fields and their order."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.nettrace import Metadata, TypeCode
from dotnetdiag.server.event_fields import EventFields
from dotnetdiag.server.instruments import plain_number

PROVIDER = "System.Diagnostics.Metrics"
MESSAGES, TIME_SERIES_VALUES, INSTRUMENT_PUBLISHING = 1, 2, 4
_LEVEL = 4
_START, _STOP = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterEvent:
    """One type of event: its metadata, and what packs its fields."""

    kind: Metadata
    fields: EventFields


def _event(
    event_id: int,
    name: str,
    keywords: int,
    fields: Mapping[str, object],
    *,
    version: int = 0,
    opcode: int | None = None,
) -> MeterEvent:
    declared = EventFields.of(fields)
    kind = Metadata(
        metadata_id=0,
        provider=PROVIDER,
        event_id=event_id,
        name=name,
        keywords=keywords,
        version=version,
        level=_LEVEL,
        opcode=opcode,
        fields=declared.types,
    )
    return MeterEvent(kind=kind, fields=declared)


_SESSION: dict[str, object] = {"sessionId": str}
_INTERVAL: dict[str, object] = {**_SESSION, "intervalStartTime": datetime, "intervalEndTime": datetime}
_NAMES: dict[str, object] = {**_SESSION, "meterName": str, "meterVersion": str, "instrumentName": str}
_SERIES: dict[str, object] = {**_NAMES, "unit": str, "tags": str}
_RATE: dict[str, object] = {**_SERIES, "rate": str, "value": str, "instrumentId": TypeCode.INT32}
_INSTRUMENT: dict[str, object] = {
    **_NAMES,
    "instrumentType": str,
    "unit": str,
    "description": str,
    "instrumentTags": str,
    "meterTags": str,
    "meterScopeHash": str,
    "instrumentId": TypeCode.INT32,
    "meterTelemetrySchemaUrl": str,
}

MESSAGE = _event(1, "Message", MESSAGES, {"Message": str})
COLLECTION_START = _event(2, "CollectionStart", TIME_SERIES_VALUES, _INTERVAL, opcode=_START)
COLLECTION_STOP = _event(3, "CollectionStop", TIME_SERIES_VALUES, _INTERVAL, opcode=_STOP)
COUNTER_RATE = _event(4, "CounterRateValuePublished", TIME_SERIES_VALUES, _RATE, version=2)
GAUGE_VALUE = _event(
    5,
    "GaugeValuePublished",
    TIME_SERIES_VALUES,
    {**_SERIES, "lastValue": str, "instrumentId": TypeCode.INT32},
    version=2,
)
HISTOGRAM_VALUE = _event(
    6,
    "HistogramValuePublished",
    TIME_SERIES_VALUES,
    {**_SERIES, "quantiles": str, "count": TypeCode.INT32, "sum": float, "instrumentId": TypeCode.INT32},
    version=2,
)
BEGIN_REPORTING = _event(7, "BeginInstrumentReporting", TIME_SERIES_VALUES, _INSTRUMENT, version=3)
END_REPORTING = _event(8, "EndInstrumentReporting", TIME_SERIES_VALUES, _INSTRUMENT, version=3)
ENUMERATION_COMPLETE = _event(
    10, "InitialInstrumentEnumerationComplete", TIME_SERIES_VALUES | INSTRUMENT_PUBLISHING, _SESSION
)
INSTRUMENT_PUBLISHED = _event(11, "InstrumentPublished", INSTRUMENT_PUBLISHING, _INSTRUMENT, version=3)
TIME_SERIES_LIMIT = _event(12, "TimeSeriesLimitReached", TIME_SERIES_VALUES, _SESSION)
HISTOGRAM_LIMIT = _event(13, "HistogramLimitReached", TIME_SERIES_VALUES, _SESSION)
CALLBACK_ERROR = _event(14, "ObservableInstrumentCallbackError", TIME_SERIES_VALUES, {**_SESSION, "errorMessage": str})
UP_DOWN_RATE = _event(16, "UpDownCounterRateValuePublished", TIME_SERIES_VALUES, _RATE, version=2)
CONFIGURED_INCORRECTLY = _event(
    17,
    "MultipleSessionsConfiguredIncorrectlyError",
    TIME_SERIES_VALUES,
    {
        "clientId": str,
        "expectedMaxHistograms": str,
        "actualMaxHistograms": str,
        "expectedMaxTimeSeries": str,
        "actualMaxTimeSeries": str,
        "expectedRefreshInterval": str,
        "actualRefreshInterval": str,
    },
)
VERSION = _event(18, "Version", MESSAGES, {"Major": TypeCode.INT32, "Minor": TypeCode.INT32, "Patch": TypeCode.INT32})
METER_EVENTS = (
    MESSAGE,
    COLLECTION_START,
    COLLECTION_STOP,
    COUNTER_RATE,
    GAUGE_VALUE,
    HISTOGRAM_VALUE,
    BEGIN_REPORTING,
    END_REPORTING,
    ENUMERATION_COMPLETE,
    INSTRUMENT_PUBLISHED,
    TIME_SERIES_LIMIT,
    HISTOGRAM_LIMIT,
    CALLBACK_ERROR,
    UP_DOWN_RATE,
    CONFIGURED_INCORRECTLY,
    VERSION,
)
"""All that are written. Error (9), MultipleSessionsNotSupportedError (15) and what .NET 11 has (19) never happen here."""


def format_number(value: float | None) -> str:
    """As .NET writes it, whatever the culture; nothing for None. Of any kind of number: those of numpy are written as Python's are."""
    if value is None:
        return ""
    value = plain_number(value)
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        if math.isinf(value):
            return "Infinity" if value > 0 else "-Infinity"
        if value != int(value) or abs(value) >= 1e15:
            return repr(value).upper()
    return str(int(value))
