"""What goes into the container image still reads, and is small. The image itself needs docker or podman: ``make image``."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.packaging import smoke
from tests.packaging.building import PIP, Distributions, call
from tests.shared import CHECKOUT

pytestmark = pytest.mark.slow

PACKAGES_MB = 60.0
"""dotnetdiag, numpy, click and rich without bytecode. The image may have 100 MB: see docs/installation.md for the rest."""


def test_packages_of_the_image_read_recordings_and_take_their_share_of_its_size(
    distributions: Distributions, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    call([*PIP, "install", "--no-compile", "--target", str(packages), str(distributions.wheel)])
    call([sys.executable, str(CHECKOUT / "tools" / "slim_image.py"), str(packages)])
    size = sum(path.stat().st_size for path in packages.rglob("*") if path.is_file())
    assert size < PACKAGES_MB * 1e6
    run = "import sys, runpy; sys.path.insert(0, sys.argv.pop(1)); runpy.run_path(sys.argv.pop(1), run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-B", "-c", run, str(packages), smoke.__file__, "--compiled"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["package"].startswith(str(packages))
    verb = "import sys; sys.path.insert(0, sys.argv.pop(1)); from dotnetdiag.cli.main import main; main()"
    for arguments in (["--help"], ["doctor"], ["ps"]):
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-B", "-c", verb, str(packages), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Traceback" not in done.stderr
        assert done.stdout
    shutil.rmtree(packages)
