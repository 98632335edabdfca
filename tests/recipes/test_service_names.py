"""What services processes call themselves: of servers of our own, and of nobody."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.recipes.test_counter_watch import served

from dotnetdiag.client import Client
from dotnetdiag.recipes import service_names
from dotnetdiag.recipes.counter_watch import CounterProcess
from dotnetdiag.recipes.service_names import ServiceNames, service_in

PATIENCE_S = 30.0


@pytest.mark.parametrize(
    ("environment", "service"),
    [
        ({}, ""),
        ({"OTEL_SERVICE_NAME": "shop"}, "shop"),
        ({"OTEL_SERVICE_NAME": " "}, ""),
        ({"OTEL_RESOURCE_ATTRIBUTES": "a=b, service.name = my%20shop,service.names=x"}, "my shop"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=,service.name"}, ""),
        ({"OTEL_SERVICE_NAME": "shop", "OTEL_RESOURCE_ATTRIBUTES": "service.name=x"}, "shop"),
        ({"OTEL_SERVICE_NAME": "x" * 5000}, "x" * 1000),
    ],
)
def test_a_service_is_named_as_opentelemetry_takes_it(environment: dict[str, str], service: str) -> None:
    assert service_in(environment) == service


def at(target: str, number: int = 0, client: Client | None = None) -> CounterProcess:
    return CounterProcess(number=number, pid=os.getpid(), name="app.dll", runtime="", target=target, client=client)


def answer(names: ServiceNames, process: CounterProcess) -> str | None:
    """What it says once somebody has answered."""
    names.of(process)
    names._asked[process.number].result(PATIENCE_S)
    return names.of(process)


def test_processes_are_asked_for_their_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    with served(tmp_path, "a") as (port,), Client.connect(port) as client, ServiceNames() as names:
        assert answer(names, at(port, client=client)) == "shop"
        names.forget(0)
        monkeypatch.delenv("OTEL_SERVICE_NAME")
        assert answer(names, at(port, client=client)) == "app.dll"
        names.forget(7)


def test_of_who_does_not_answer_the_assembly_is_the_service(tmp_path: Path) -> None:
    nobody = str(tmp_path / "nobody") + ",connect"
    with Client.connect(nobody, timeout_s=0.2) as client, ServiceNames() as names:
        assert answer(names, at(nobody, client=client)) == "app.dll"


def test_of_whom_nobody_has_a_client_the_assembly_is_the_service() -> None:
    with ServiceNames() as names:
        assert answer(names, at(f"process {os.getpid()}")) == "app.dll"


def test_nobody_waits_for_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()

    def slow(process: CounterProcess) -> str:
        answered.wait(PATIENCE_S)
        return "late"

    monkeypatch.setattr(service_names, "_asked", slow)
    with ServiceNames() as names:
        assert [names.of(at("x", number)) for number in range(10)] == [None] * 10
        answered.set()
        assert answer(names, at("x", 9)) == "late"
