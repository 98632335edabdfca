"""Providers that are probably misspelled."""

from __future__ import annotations

import pytest

from dotnetdiag.events import catalogue, well_known
from dotnetdiag.providers.names import NAMES, misspelled

CLR = "Microsoft-Windows-DotNETRuntime"


def test_every_provider_whose_events_are_known_is_one() -> None:
    of_kernels = {well_known.UNIVERSAL_SYSTEM, well_known.UNIVERSAL_EVENTS}
    assert {*catalogue.providers(), *well_known.PROVIDERS} - of_kernels <= {*NAMES}


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("Microsoft-Windows-DotNETRuntme", CLR),
        ("system.net.htp", "System.Net.Http"),
        (CLR.lower(), None),
        (f"{CLR}Private", None),
        ("My-Source", None),
        ("System.Net", None),
    ],
)
def test_a_provider_that_is_probably_misspelled_has_the_one_that_is_meant(name: str, meant: str | None) -> None:
    assert misspelled(name) == meant
