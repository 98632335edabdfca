"""What a runtime does not tell, whatever is asked: of a process that runs."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from dotnetdiag.analysis.native import UNTOLD_VERSION, RuntimeFacts
from dotnetdiag.errors import UnsupportedCommand
from dotnetdiag.recipes.sampler import has_no_sampler

if TYPE_CHECKING:
    from dotnetdiag.client import Client


def runtime_facts(client: Client) -> RuntimeFacts:
    """As a recording tells of them. Raises what ``process_info`` does, but for a runtime that cannot say who it is."""
    version = ""
    with suppress(UnsupportedCommand):  # .NET Core 3.1
        version = client.process_info().runtime_version or ""
    major = version.partition(".")[0]
    return RuntimeFacts(
        is_native=has_no_sampler(client.target_pid()),
        tells_states=not version.startswith(UNTOLD_VERSION),
        major=int(major) if major.isdecimal() else 0,
    )
