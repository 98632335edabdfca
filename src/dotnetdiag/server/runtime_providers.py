"""What a Python process offers under the names of .NET's own providers, so that tools made for .NET find it."""

from __future__ import annotations

from dotnetdiag.server.counters import RuntimeCounters
from dotnetdiag.server.logs import LoggingEvents
from dotnetdiag.server.meters import Meters
from dotnetdiag.server.method_rundown import MethodRundown
from dotnetdiag.server.registry import REGISTRY, Provider, Registry
from dotnetdiag.server.runtime_events import RuntimeEvents
from dotnetdiag.server.runtime_rundown import RuntimeRundown
from dotnetdiag.server.sampling import SampleProfiler


def add_runtime_providers(registry: Registry = REGISTRY) -> tuple[Provider, ...]:
    """Offer all of them. Until a session asks for one, it costs nothing: no thread, no callback, nothing patched."""
    providers: tuple[Provider, ...] = (
        SampleProfiler(),
        RuntimeEvents(),
        RuntimeCounters(),
        Meters(),
        LoggingEvents(),
        RuntimeRundown(),
        MethodRundown(),
    )
    for provider in providers:
        registry.add(provider)
    return providers
