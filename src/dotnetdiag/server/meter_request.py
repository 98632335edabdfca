"""What a session wants of meters: the arguments of ``System.Diagnostics.Metrics``, read as .NET 10 reads them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Mapping
from typing import Self, TypeVar

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.server.instruments import Instrument
from dotnetdiag.server.meter_events import format_number

SHARED = "SHARED"
LEAST_S, MOST_S = 0.1, 86_400.0
DEFAULT_S, DEFAULT_TIME_SERIES, DEFAULT_HISTOGRAMS = 1.0, 1000, 20
MOST_SPECS = 1000
"""As many instruments and meters are looked for."""
_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterSettings:
    """What all who share a session must agree on."""

    interval_s: float = DEFAULT_S
    time_series: int = DEFAULT_TIME_SERIES
    histograms: int = DEFAULT_HISTOGRAMS


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterSpec:
    """``Meter``, ``Meter\\instrument`` or ``Start*``; upper and lower case are the same."""

    text: str

    def selects(self, meter: str, instrument: str) -> bool:
        """Whether it names this one."""
        wanted, _, name = self.text.casefold().partition("\\")
        if name and name != instrument.casefold():
            return False
        if wanted.endswith("*"):
            return meter.casefold().startswith(wanted[:-1])
        return wanted == meter.casefold()

    def may_select_beside(self, meter: str) -> bool:
        """Whether it could name instruments of other meters than this one."""
        return self.text.casefold().partition("\\")[0] != meter.casefold()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeterRequest:
    """The arguments of one session. ``remarks``: what .NET says about them as it reads them."""

    session_id: str
    client_id: str
    settings: MeterSettings
    specs: tuple[MeterSpec, ...]
    remarks: tuple[str, ...]

    @property
    def is_shared(self) -> bool:
        """Whether it is one of many clients of one session."""
        return self.session_id == SHARED

    def selects(self, instrument: Instrument) -> bool:
        """Whether the values of this one are wanted."""
        return any(spec.selects(instrument.meter, instrument.name) for spec in self.specs)

    @classmethod
    def of(cls, arguments: Mapping[str, str], shared: MeterSettings | None = None) -> Self:
        """From a session's arguments. ``shared``: the settings of those who share a session already, for what this one does not say."""
        remarks: list[str] = []
        session_id = arguments.get("SessionId", "")
        if session_id:
            remarks.append(f"SessionId argument received: {session_id}")
        else:
            session_id = str(uuid.uuid4())
            remarks.append(f"New session started. SessionId auto-generated: {session_id}")
        client_id = arguments.get("ClientId", "")
        if session_id == SHARED and not client_id:
            remarks.append("ClientId not provided.")
        default = shared if shared is not None and session_id == SHARED else None
        settings = _settings(arguments, default or MeterSettings(), "shared value" if default else "default", remarks)
        metrics = arguments.get("Metrics")
        names = [part.strip() for part in (metrics or "").split(",")]
        specs = tuple(MeterSpec(text=name) for name in names if name)[:MOST_SPECS]
        remarks.append("No Metrics argument received" if metrics is None else f"Metrics argument received: {metrics}")
        remarks += [f"Parsed metric: {spec.text}" for spec in specs]
        return cls(session_id=session_id, client_id=client_id, settings=settings, specs=specs, remarks=tuple(remarks))


def _settings(arguments: Mapping[str, str], default: MeterSettings, called: str, remarks: list[str]) -> MeterSettings:
    def read(name: str, otherwise: _N, parse: Callable[[str], _N], unit: str = "") -> _N:
        using = f"Using {called} {format_number(otherwise)}{unit}"
        text = arguments.get(name)
        if text is None:
            remarks.append(f"No {name} argument received. {using}")
            return otherwise
        remarks.append(f"{name} argument received: {text}")
        try:
            return parse(text)
        except (ValueError, OverflowError):
            remarks.append(f"Failed to parse {name}. {using}")
            return otherwise

    interval_s = read("RefreshInterval", default.interval_s, _finite, "s.")
    if interval_s < LEAST_S:
        remarks.append(f"RefreshInterval too small. Using minimum interval {LEAST_S} seconds.")
    return MeterSettings(
        interval_s=min(max(interval_s, LEAST_S), MOST_S),
        time_series=read("MaxTimeSeries", default.time_series, _int32),
        histograms=read("MaxHistograms", default.histograms, _int32),
    )


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _int32(text: str) -> int:
    value = int(text)
    if not -(1 << 31) <= value < 1 << 31:
        raise OverflowError(text)
    return value
