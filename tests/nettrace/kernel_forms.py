"""The kernels in both forms: compiled, where they are, and the same file as the Python that it is."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import dotnetdiag.nettrace
from dotnetdiag.nettrace.kernels import KERNELS


def uncompiled() -> ModuleType:
    path = Path(dotnetdiag.nettrace.__file__).with_name("_kernels.py")
    spec = importlib.util.spec_from_file_location("uncompiled_kernels", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    assert not module.compiled
    return module


UNCOMPILED = uncompiled()
FORMS: list[ModuleType] = [UNCOMPILED, *([KERNELS] if KERNELS is not None else [])]
