"""Tests that ask for ``kernels_both_ways`` run on the compiled loops, the same as plain Python, and on numpy."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from dotnetdiag.events import kernels

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for ``tests.events.help``


@cache
def plain_kernels() -> ModuleType:
    """``_kernels.py`` as plain Python, as where Cython is missing, whatever is installed."""
    path = Path(kernels.__file__).with_name("_kernels.py")
    spec = importlib.util.spec_from_file_location("events_kernels_plain", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as context:
        context.setitem(sys.modules, "cython", None)
        spec.loader.exec_module(module)
    assert not module.compiled
    return module


@pytest.fixture(params=["installed", "uncompiled", "numpy"])
def kernels_both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Which loops run."""
    if request.param != "installed":
        monkeypatch.setattr(kernels, "_kernels", plain_kernels())
        monkeypatch.setattr(kernels, "COMPILED", False)
        monkeypatch.setattr(kernels, "NUMPY", request.param == "numpy")
    return str(request.param)
