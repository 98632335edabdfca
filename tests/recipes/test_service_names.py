"""What services processes call themselves: of servers of our own, and of nobody."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest
from tests.recipes.test_counter_watch import served

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


def at(target: str, number: int = 0) -> CounterProcess:
    return CounterProcess(number=number, pid=os.getpid(), name="app.dll", runtime="", target=target)


def answer(names: ServiceNames, process: CounterProcess) -> str | None:
    """What it says once somebody has answered."""
    names.of(process)
    names._asked[process.number].result(PATIENCE_S)
    return names.of(process)


def test_processes_are_asked_for_their_services(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    with served(tmp_path, "a") as (port,), ServiceNames() as names:
        assert answer(names, at(port)) == "shop"
        names.forget(0)
        monkeypatch.delenv("OTEL_SERVICE_NAME")
        assert answer(names, at(port)) == "app.dll"
        names.forget(7)


@pytest.mark.parametrize(
    "target", ["/nobody/is/here,connect", "/mine,listen", f"process {os.getpid()}"], ids=["dialled", "awaited", "pid"]
)
def test_of_who_does_not_answer_the_assembly_is_the_service(target: str) -> None:
    with ServiceNames() as names:
        assert answer(names, at(target)) == "app.dll"


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
