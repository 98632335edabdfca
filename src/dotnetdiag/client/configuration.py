"""What a session is to record, from the options that people know: for rooms above that do not import ``ipc``."""

from __future__ import annotations

from dataclasses import replace

from dotnetdiag.ipc.eventpipe import Provider, Tracepoints
from dotnetdiag.ipc.profiles import DEFAULT_PROFILES, PROFILES, Composition, Profile, compose
from dotnetdiag.ipc.providers import parse_providers

__all__ = ["DEFAULT_PROFILES", "PROFILES", "Composition", "Profile", "compose", "with_tracepoint"]


def with_tracepoint(providers: str, tracepoint: str) -> tuple[Provider, ...]:
    """The providers of a text, all of whose events go to one tracepoint of the kernel."""
    return tuple(replace(one, tracepoints=Tracepoints(default=tracepoint)) for one in parse_providers(providers))
