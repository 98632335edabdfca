"""What an installation starts from: a copy of the checkout, its sdist, the wheel, environments that have no compiler.

Everything is built once a run, in a folder that the workers of pytest-xdist share. Needs pip and a package index.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.shared import CHECKOUT

LEFTOVERS = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "*.egg-info", "__pycache__", "*.so", ".*cache", ".hypothesis", "_kernels.c"
)
"""Of a checkout that has been worked in."""
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Distributions:
    """``source`` is a copy of the checkout, ``unpacked`` the sdist's content, of which ``wheel`` was built."""

    source: Path
    sdist: Path
    unpacked: Path
    wheel: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """A virtual environment whose programs find no compiler, no git and nothing of ../shared."""

    folder: Path

    @property
    def packages(self) -> Path:
        """Its site-packages."""
        return next(self.folder.glob("lib/python*/site-packages"))

    def run(self, *command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """The output of one of its programs, ``bin/COMMAND``."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        variables = {
            "PATH": str(self.folder / "bin"),
            "HOME": str(home),
            "DOTNETDIAG_SHARED": "none",
            "LANG": "C.UTF-8",
        }
        return subprocess.run(
            [str(self.folder / "bin" / command[0]), *command[1:]],
            cwd=cwd or home,
            env=variables,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )


def once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, made by the first who asks, in this process or another; who comes later waits, and fails as it did."""
    failed = folder.with_suffix(".failed")
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if failed.exists():
            raise RuntimeError(failed.read_text("utf-8"))
        if not folder.exists():
            folder.mkdir()
            try:
                make(folder)
            except Exception as error:
                failed.write_text(f"{folder.name} could not be made: {error}", "utf-8")
                raise
    return folder


def call(command: list[str], *, cwd: Path | None = None, **variables: str) -> None:
    """Run it; its output is the error."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def copy_checkout(to: Path) -> None:
    """With what a build could take for its own: bytecode, kernels of another build, files of Cython."""
    shutil.copytree(CHECKOUT, to, ignore=LEFTOVERS)
    room = to / "src" / "dotnetdiag" / "nettrace"
    for rubbish in (room / "_kernels.c", room / "_kernels.cpython-39-x86_64-linux-gnu.so"):
        rubbish.write_bytes(b"")
    for folder in (room, to / "tests"):
        (folder / "__pycache__").mkdir()
        (folder / "__pycache__" / "old.cpython-311.pyc").write_bytes(b"")


def _build(backend: Path, cwd: Path, hook: str, to: Path) -> Path:
    """Of a distribution, as pip and ``build`` do it, with one installation of the backend for both hooks."""
    code = f"import setuptools.build_meta as backend; backend.{hook}({str(to)!r})"
    to.mkdir()
    call([sys.executable, "-c", code], cwd=cwd, PYTHONPATH=str(backend))
    return next(to.iterdir())


def make_distributions(folder: Path) -> None:
    """Copy, sdist, and the wheel of the sdist."""
    copy_checkout(folder / "source")
    requires = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    call([*PIP, "install", "--target", str(folder / "backend"), *requires])
    sdist = _build(folder / "backend", folder / "source", "build_sdist", folder / "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder / "unpacked", filter="data")
    _build(folder / "backend", next((folder / "unpacked").iterdir()), "build_wheel", folder / "wheel")


def distributions_in(folder: Path) -> Distributions:
    """Those that :func:`make_distributions` has made."""
    return Distributions(
        source=folder / "source",
        sdist=next((folder / "sdist").iterdir()),
        unpacked=next((folder / "unpacked").iterdir()),
        wheel=next((folder / "wheel").iterdir()),
    )


def make_environment(folder: Path, *packages: str) -> None:
    """A new virtual environment with these packages, ``venv``; pip stays outside."""
    call([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")])
    if packages:
        call([*PIP, "--python", str(folder / "venv" / "bin" / "python"), "install", *packages])
