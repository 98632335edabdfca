"""A virtual environment in which ``DOTNETDIAG_ENABLE`` counts, for tests of programs that do not know of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy

import dotnetdiag as dd

PACKAGES = (Path(dd.__file__).parents[1], Path(numpy.__file__).parents[1])


class Environment:
    """A virtual environment that has this package, and nothing else of its own."""

    def __init__(self, folder: Path) -> None:
        made = [sys.executable, "-m", "venv", "--without-pip", "--symlinks", str(folder)]
        subprocess.run(made, check=True, timeout=120)
        self.python = folder / "bin" / "python"
        (self.site,) = folder.glob("lib/python*/site-packages")
        (self.site / "a-packages.pth").write_text("".join(f"{path}\n" for path in PACKAGES))

    def words(self, *words: str, **environment: str) -> tuple[int, str, str]:
        """Exit code, stdout, stderr."""
        done = subprocess.run(
            [str(self.python), *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env=clean(environment),
        )
        return done.returncode, done.stdout, done.stderr

    @contextmanager
    def program(self, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [str(self.python), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean(environment),
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


def clean(environment: dict[str, str]) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "DOTNET", "COVERAGE", "TMP"))
    }
    return kept | environment
