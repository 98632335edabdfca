"""What sends to a collector: OpenTelemetry's exporters (the extra ``otlp``), which are loaded when one is connected.

They try again for ten seconds by themselves; whether it makes sense to send it once more after that is what a
:class:`~dotnetdiag.recipes.collector.Delivery` says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dotnetdiag.recipes.collector import CollectorOptions, Delivery, Signal


class Exporters(Protocol):
    """What sends, by one protocol. For one thread; ``close`` may be called by another, and ends what is being sent."""

    def send(self, signal: Signal, payload: Any) -> Delivery:
        """``payload`` is what the library's exporter of the signal takes."""

    def close(self) -> None:
        """Send no more."""


def connect_collector(options: CollectorOptions, on_trouble: Callable[[str], None] | None = None) -> Exporters:
    """What sends to it; nothing is sent yet. ``on_trouble`` is called with a line when a try fails, and is tried again.
    MissingDependency without the libraries.
    """
    if options.grpc:
        from dotnetdiag.recipes.collector_grpc import GrpcExporters

        return GrpcExporters(options, on_trouble)
    from dotnetdiag.recipes.collector_http import HttpExporters

    return HttpExporters(options, on_trouble)
