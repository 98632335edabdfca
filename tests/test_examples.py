"""Every file in examples/ runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.runtimes import names, workload

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))


@pytest.mark.live
@pytest.mark.skipif(not names(), reason="no .NET runtime was found")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path) -> None:
    with workload(names()[-1] if "10" not in names() else "10", "gc", "gen0=200", "linger=stdin") as target:
        done = subprocess.run(
            [sys.executable, str(path), str(target.pid)], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "lost: 0" in done.stdout
