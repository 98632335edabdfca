"""Tests that ask for ``kernels_both_ways`` run on the compiled loops and on the fall-back."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dotnetdiag.events import kernels

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for ``tests.events.help``


@pytest.fixture(params=["compiled", "fall-back"])
def kernels_both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which loops run."""
    if request.param == "fall-back":
        monkeypatch.setattr(kernels, "KERNELS", None)
    elif kernels.KERNELS is None:
        pytest.skip("the kernels are not compiled")
    return str(request.param)
