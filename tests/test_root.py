"""The public face."""

from __future__ import annotations

import subprocess
import sys

import dotnetdiag
import dotnetdiag.errors


def test_every_public_name_is_there() -> None:
    for name in dotnetdiag.__all__:
        assert getattr(dotnetdiag, name) is not None


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, dotnetdiag; print([m for m in ('numpy', 'click', 'rich', 'asyncio', 'socket') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(dotnetdiag, "nonsense")


def test_every_error_is_at_the_root() -> None:
    assert set(dotnetdiag.errors.__all__) <= set(dotnetdiag.__all__)
