"""The room must load fast: `dotnetdiag ps` goes through it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dotnetdiag.transport as room

HEAVY = {"asyncio", "subprocess", "concurrent", "concurrent.futures", "tempfile", "logging", "email", "numpy"}


@pytest.mark.parametrize("module", ["", ".discovery", ".attempts", ".diagnosis", ".listening", ".pipes", ".suspension"])
def test_importing_brings_nothing_heavy(module: str) -> None:
    path = str(Path(room.__file__).parents[2])
    code = (
        f"import sys; sys.path.insert(0, {path!r}); before = set(sys.modules);"
        f" import dotnetdiag.transport{module}; print(*set(sys.modules) - before)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())


def test_every_public_name_can_be_loaded_and_is_listed() -> None:
    public = {name for names in room._PUBLIC.values() for name in names.split()}
    assert set(re.findall(r"import (\w+) as \1\n", Path(str(room.__file__)).read_text())) == public
    for name in public:
        assert getattr(room, name) is not None
    with pytest.raises(AttributeError, match="nothing_such"):
        room.nothing_such  # noqa: B018 - it is the asking
