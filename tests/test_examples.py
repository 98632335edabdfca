"""Every file in examples/ runs, and so does what README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.runtimes import names, workload

import dotnetdiag

CHECKOUT = Path(__file__).resolve().parents[1]
EXAMPLES = sorted((CHECKOUT / "examples").glob("*.py"))
SHOWN = re.findall(r"^```python\n(.*?)^```$", (CHECKOUT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
NEWEST = "10" if "10" in names() else (names() or ("none",))[-1]


@pytest.mark.live
@pytest.mark.skipif(not names(), reason="no .NET runtime was found")
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path: Path) -> None:
    with workload(NEWEST, "gc", "gen0=200", "linger=stdin") as target:
        done = subprocess.run(
            [sys.executable, str(path), str(target.pid)], capture_output=True, text=True, timeout=60, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "lost: 0" in done.stdout


@pytest.mark.live
@pytest.mark.skipif(not names(), reason="no .NET runtime was found")
@pytest.mark.parametrize("program", SHOWN, ids=lambda program: program.split()[1])
@pytest.mark.parametrize(
    "mode", [("idle", "seconds=100"), ("cpu+alloc", "rounds=4000", "widgets=20000000")], ids=["idle", "busy"]
)
def test_what_readme_shows_runs_with_any_program(program: str, mode: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "shown.py"
    path.write_text(program, encoding="utf-8")
    with workload(NEWEST, *mode) as target:
        done = subprocess.run(
            [sys.executable, str(path), str(target.pid)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(Path(dotnetdiag.__file__).parents[1])},
        )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "app.nettrace").stat().st_size
    if "dd.cpu" in program:
        assert "0 events lost" in done.stdout
        assert re.search(r"^ *\d+\.\d\d%  \S", done.stdout, re.MULTILINE)
