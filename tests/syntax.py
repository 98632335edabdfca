"""The syntax trees of source files."""

from __future__ import annotations

import ast
import gc
from pathlib import Path


def syntax_of(path: Path) -> ast.Module:
    """No garbage is collected meanwhile: in Python 3.11 (gh-106905) a finalizer that reports a traceback, which parses too, makes a
    SystemError of this.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(path.read_text(encoding="utf-8"), str(path))
    finally:
        if enabled:
            gc.enable()
