"""What a process counts: a server of our own, whose counters are those of this process."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.recipes.test_counter_watch import served

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, TransportError
from dotnetdiag.recipes.counter_list import COLUMNS, list_counters
from dotnetdiag.testing import Runtime

OBSERVE_S = 3.0
"""The values of EventCounters come after a second, on a quiet machine."""


def test_meters_and_event_counters_are_told_apart(tmp_path: Path) -> None:
    with served(tmp_path, "a") as (port,), Client.connect(port) as client:
        found = list_counters(client, sources=["No-Such-Source"], observe_s=OBSERVE_S)
    told = {(one.kind, one.instrument): one for one in found}
    cpu = told["meter", "dotnet.process.cpu.time"]
    assert (cpu.provider, cpu.type, cpu.unit) == ("System.Runtime", "ObservableCounter", "s")
    assert cpu.description
    working_set = told["eventsource", "working-set"]
    assert (working_set.type, working_set.unit) == ("mean", "MB")
    assert "physical memory" in working_set.description
    assert [one.kind for one in found] == sorted((one.kind for one in found), key=lambda kind: kind != "meter")
    assert "No-Such-Source" in found.asked
    assert tuple(found.table().columns) == COLUMNS
    assert len(found.table()) == len(found)


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with Client.connect(f"{tmp_path}/nobody,connect") as client, pytest.raises(TransportError):
        list_counters(client)


def test_a_runtime_that_refuses_is_told(tmp_path: Path) -> None:
    with (
        Runtime("10", listen=tmp_path / "r", misbehave={"CollectTracing2": "error"}) as runtime,
        Client.connect(f"{runtime.address},connect") as client,
        pytest.raises(DiagnosticsError),
    ):
        list_counters(client)


def test_it_may_be_ended_meanwhile(tmp_path: Path) -> None:
    def end() -> None:
        raise KeyboardInterrupt

    with served(tmp_path, "a") as (port,), Client.connect(port) as client, pytest.raises(KeyboardInterrupt):
        list_counters(client, observe_s=3600, check=end)
