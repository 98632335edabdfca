"""Both forms of loops over values: compiled, and plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from dotnetdiag.events import kernels

FORMS = ("compiled", "plain")
KERNELS: Any = kernels.KERNELS


@contextmanager
def in_form(form: str) -> Iterator[None]:
    """One of them; a test of what is not compiled is skipped (``make test`` compiles, and tests/packaging sees that it did)."""
    if form == "compiled" and KERNELS is None:
        pytest.skip("the kernels are not compiled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "KERNELS", KERNELS if form == "compiled" else None)
        yield
