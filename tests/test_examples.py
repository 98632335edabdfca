"""Every file in examples/ runs, and so does what README shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.live.runtimes import DEMO, command, major, names, workload
from tests.shared import skip_without

import dotnetdiag

CHECKOUT = Path(__file__).resolve().parents[1]
LIVE = sorted((CHECKOUT / "examples").glob("*.py"))
OFFLINE = sorted((CHECKOUT / "examples" / "offline").glob("*.py"))
SHOWN = re.findall(r"^```python\n(.*?)^```$", (CHECKOUT / "README.md").read_text("utf-8"), re.MULTILINE | re.DOTALL)
NEWEST = "10" if "10" in names() else (names() or ("none",))[-1]

pytestmark = [pytest.mark.live, pytest.mark.skipif(not names(), reason="no .NET runtime was found")]


def run(folder: Path, path: Path, *arguments: object, **environment: str) -> str:
    """What a program prints that runs in ``folder``."""
    done = subprocess.run(
        [sys.executable, str(path), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(dotnetdiag.__file__).parents[1]), **environment},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the program of `dotnetdiag demo`."""
    path = tmp_path_factory.mktemp("examples") / "demo.nettrace"
    with workload(NEWEST, DEMO) as target:
        dotnetdiag.collect(target.pid, path, duration="2s")
    return path


@pytest.mark.parametrize("path", LIVE, ids=lambda path: path.stem)
def test_example_runs(path: Path, tmp_path: Path) -> None:
    if path.stem in ("start_and_record", "let_programs_connect", "follow_a_build"):
        if major(NEWEST) == "3.1":
            skip_without("a program that is recorded from its first instruction (.NET 5)")
        words, environment = command(NEWEST, DEMO)
        if path.stem == "start_and_record":
            assert "demo" in run(tmp_path, path, *words, **environment)
            return
        if path.stem == "follow_a_build":
            assert "demo_" in run(tmp_path, path, "timeout", 3, *words, **environment)
            return
        address = str(tmp_path / "port")
        with subprocess.Popen(words, env={**os.environ, **environment, "DOTNET_DiagnosticPorts": address}) as process:
            try:
                assert "demo has loaded" in run(tmp_path, path, address, 1)
            finally:
                process.kill()
        return
    if path.stem == "orders":  # the program that is looked at, and not one that looks
        assert " orders" in run(tmp_path, path, 0.2)
        return
    if path.stem == "route" and major(NEWEST) == "3.1":
        skip_without("a program that tells who it is (.NET 5)")
    with workload(NEWEST, DEMO) as target:
        assert run(tmp_path, path, target.pid)


@pytest.mark.parametrize("path", OFFLINE, ids=lambda path: path.stem)
def test_example_runs_on_a_recording(path: Path, recording: Path, tmp_path: Path) -> None:
    assert run(tmp_path, path, *[recording] * (1 + (path.stem == "regression")))


def test_the_first_example_loses_nothing(tmp_path: Path) -> None:
    with workload(NEWEST, "gc", "gen0=200", "linger=stdin") as target:
        assert "lost: 0" in run(tmp_path, CHECKOUT / "examples" / "record_and_read.py", target.pid)


@pytest.mark.parametrize("program", SHOWN, ids=lambda program: program.split()[1])
@pytest.mark.parametrize(
    "mode", [("idle", "seconds=100"), ("cpu+alloc", "rounds=4000", "widgets=20000000")], ids=["idle", "busy"]
)
def test_what_readme_shows_runs_with_any_program(program: str, mode: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "shown.py"
    path.write_text(program, encoding="utf-8")
    with workload(NEWEST, *mode) as target:
        printed = run(tmp_path, path, target.pid)
    assert (tmp_path / "app.nettrace").stat().st_size
    if "dd.cpu" in program:
        assert "0 events lost" in printed
        assert re.search(r"^ *\d+\.\d\d%  \S", printed, re.MULTILINE)
