"""What tests of heaps share."""

from __future__ import annotations

import pytest

from dotnetdiag.heap import kernels


@pytest.fixture(params=["compiled", "numpy"])
def form(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kernels of heaps, compiled and not."""
    if request.param == "numpy":
        monkeypatch.setattr(kernels, "KERNELS", None)
    elif kernels.KERNELS is None:
        pytest.skip("the kernels are not compiled here")
    return str(request.param)
