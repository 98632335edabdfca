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

_offered = False
"""Whether the process's registry has them; a forked child's has them too."""


def offer_runtime_providers() -> None:
    """Offer all of them in the registry of the process, once."""
    global _offered  # it is of the process
    if not _offered:
        _offered = True
        add_runtime_providers()


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
