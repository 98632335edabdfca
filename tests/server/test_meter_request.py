from __future__ import annotations

import uuid

import pytest

from dotnetdiag.server.instruments import Instrument, InstrumentKind
from dotnetdiag.server.meter_request import SHARED, MeterRequest, MeterSettings
from dotnetdiag.server.subscription import parse_arguments


def parsed(text: str) -> MeterRequest:
    return MeterRequest.of(parse_arguments(text))


def test_everything_that_is_said_counts() -> None:
    found = parsed("SessionId=abc;Metrics=a,b\\c;RefreshInterval=0.5;MaxTimeSeries=7;MaxHistograms=3;ClientId=me")
    assert (found.session_id, found.client_id, found.is_shared) == ("abc", "me", False)
    assert found.settings == MeterSettings(interval_s=0.5, time_series=7, histograms=3)
    assert [spec.text for spec in found.specs] == ["a", "b\\c"]
    # word for word what .NET 10.0.14 said
    assert found.remarks == (
        "SessionId argument received: abc",
        "RefreshInterval argument received: 0.5",
        "MaxTimeSeries argument received: 7",
        "MaxHistograms argument received: 3",
        "Metrics argument received: a,b\\c",
        "Parsed metric: a",
        "Parsed metric: b\\c",
    )


def test_what_is_not_said_has_defaults() -> None:
    found = parsed("")
    assert str(uuid.UUID(found.session_id)) == found.session_id
    assert found.settings == MeterSettings(interval_s=1, time_series=1000, histograms=20)
    assert not found.specs
    assert found.remarks == (
        f"New session started. SessionId auto-generated: {found.session_id}",
        "No RefreshInterval argument received. Using default 1s.",
        "No MaxTimeSeries argument received. Using default 1000",
        "No MaxHistograms argument received. Using default 20",
        "No Metrics argument received",
    )


@pytest.mark.parametrize("text", ["x", "", "nan", "inf", "1e999"])
def test_an_interval_that_is_no_number_has_the_default(text: str) -> None:
    found = parsed(f"SessionId=a;RefreshInterval={text}")
    assert found.settings.interval_s == 1
    assert "Failed to parse RefreshInterval. Using default 1s." in found.remarks


@pytest.mark.parametrize(("text", "interval_s"), [("0.01", 0.1), ("-5", 0.1), ("1e9", 86_400)])
def test_an_interval_has_limits(text: str, interval_s: float) -> None:
    assert parsed(f"RefreshInterval={text}").settings.interval_s == interval_s


def test_a_small_interval_is_remarked() -> None:
    assert "RefreshInterval too small. Using minimum interval 0.1 seconds." in parsed("RefreshInterval=0").remarks


@pytest.mark.parametrize("text", ["y", "2.5", "99999999999999", "9" * 5000])
def test_a_limit_that_is_no_number_has_the_default(text: str) -> None:
    found = parsed(f"MaxTimeSeries={text};MaxHistograms={text}")
    assert found.settings == MeterSettings()
    assert "Failed to parse MaxHistograms. Using default 20" in found.remarks


def test_who_shares_and_does_not_say_has_what_the_others_have() -> None:
    there = MeterSettings(interval_s=3, time_series=5, histograms=4)
    found = MeterRequest.of({"SessionId": SHARED, "ClientId": "x", "MaxHistograms": "9"}, there)
    assert found.settings == MeterSettings(interval_s=3, time_series=5, histograms=9)
    assert "No RefreshInterval argument received. Using shared value 3s." in found.remarks
    assert MeterRequest.of({"SessionId": "own"}, there).settings == MeterSettings()


@pytest.mark.parametrize(
    ("metrics", "selected"),
    [
        ("System.Runtime", True),
        ("system.RUNTIME", True),
        ("System.Runtime\\dotnet.process.cpu.time", True),
        ("System.Runtime\\DOTNET.process.cpu.time", True),
        ("System.Runtime\\dotnet.gc.collections", False),
        ("System*", True),
        ("*", True),
        ("Sys*time", False),
        ("Other", False),
        (" Other , System.Runtime ,", True),
        ("", False),
        ("*\\dotnet.process.cpu.time", True),
    ],
)
def test_meters_and_instruments_are_chosen_by_name(metrics: str, selected: bool) -> None:
    instrument = Instrument(
        meter="System.Runtime", name="dotnet.process.cpu.time", kind=InstrumentKind.OBSERVABLE_COUNTER
    )
    assert parsed(f"Metrics={metrics}").selects(instrument) is selected
