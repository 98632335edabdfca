"""What services processes are: the name that OpenTelemetry's libraries would take, asked of each process beside the others.

That of the variable ``OTEL_SERVICE_NAME``, else ``service.name`` of ``OTEL_RESOURCE_ATTRIBUTES``; where there is none, or nobody answers, the
entry assembly.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self
from urllib.parse import unquote

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.recipes.counter_watch import CounterProcess

ASKING = 4
"""So many are asked at once."""
LONGEST = 1000
"""Characters of a name; what is behind them is cut off."""


def service_in(environment: Mapping[str, str]) -> str:
    """The service that an environment names; empty where it names none."""
    own = environment.get("OTEL_SERVICE_NAME", "").strip()
    if own:
        return own[:LONGEST]
    for pair in environment.get("OTEL_RESOURCE_ATTRIBUTES", "").split(","):
        key, _, value = pair.partition("=")
        if key.strip() == "service.name" and value.strip():
            return unquote(value.strip())[:LONGEST]
    return ""


def service_of(process: CounterProcess, client: Client) -> str:
    """The service of a process, asked at once, over a client that somebody has. Waits for the answer."""
    try:
        return service_in(client.environment()) or process.name
    except DiagnosticsError:
        return process.name


class ServiceNames:
    """Asks in threads beside; nobody waits for an answer. Leaving the ``with`` block lets go of who has not answered."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(ASKING, thread_name_prefix="dotnetdiag services")
        self._asked: dict[int, Future[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def of(self, process: CounterProcess) -> str | None:
        """Its service; None: it is still being asked."""
        asked = self._asked.get(process.number)
        if asked is None:
            asked = self._asked[process.number] = self._pool.submit(_asked, process)
        return asked.result() if asked.done() else None

    def forget(self, number: int) -> None:
        """Nobody asks for this process any more."""
        asked = self._asked.pop(number, None)
        if asked is not None:
            asked.cancel()


def _asked(process: CounterProcess) -> str:
    if process.client is None:
        return process.name
    try:
        return service_of(process, process.client)
    except DiagnosticsError:
        return process.name
