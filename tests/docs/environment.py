"""A new user's environment: the wheel, what it requires with all of its extras, and nothing else."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path
from zipfile import ZipFile

from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.version import Version

_CLEAN = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""With it pip would take the checkout for what is installed already."""
CHECKOUT = Path(__file__).resolve().parents[2]
BESIDE = ("duckdb",)
"""What pages use that no extra brings."""


def environment(folder: Path) -> Path:
    """The environment in ``folder``, made once: ``bin`` has its programs. ``DOTNETDIAG_WHEEL`` names a wheel that is there already.

    What the wheel requires is linked from the environment that runs the tests, so that nothing is fetched; what it does not require is not
    there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "made").exists():
            _make(folder)
            (folder / "made").touch()
    return folder / "env"


def _make(folder: Path) -> None:
    wheel = Path(os.environ.get("DOTNETDIAG_WHEEL") or _build(folder / "wheel")).resolve()
    python = folder / "env" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--python", python]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", wheel], check=True, env=_CLEAN)
    (site,) = (folder / "env" / "lib").glob("python*/site-packages")
    for name in sorted({*_required(wheel), *BESIDE}):
        _link(name, site)


def _build(folder: Path) -> Path:
    """Of a copy: what a build leaves behind is not put into the checkout, and what another one has left there not into the wheel."""
    source = folder / "source"
    shutil.copytree(
        CHECKOUT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "*.c", "*.egg-info", "__pycache__")
    )
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, source)
    build: list[str | Path] = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder]
    (folder / "two-at-a-time.cfg").write_text("[build_ext]\nparallel = 2\n", encoding="utf-8")
    if _has("setuptools", "77") and _has("cython", "3.1"):  # otherwise from PyPI
        build.append("--no-build-isolation")
    subprocess.run([*build, source], check=True, env={**_CLEAN, "DIST_EXTRA_CONFIG": str(folder / "two-at-a-time.cfg")})
    (wheel,) = folder.glob("*.whl")
    return wheel


def _has(name: str, at_least: str) -> bool:
    try:
        return Version(version(name)) >= Version(at_least)
    except PackageNotFoundError:
        return False


def _required(wheel: Path) -> set[str]:
    """Names of all distributions that ``pip install WHEEL[every extra that users have]`` brings."""
    with ZipFile(wheel) as file:
        (metadata,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
        raw = parse_email(file.read(metadata))[0]
    extras = set(raw["provides_extra"]) - {"test", "docs", "mutants", "bench"}
    found: set[tuple[str, str]] = set()
    left = [(text, extra) for text in raw["requires_dist"] for extra in ("", *extras)]
    left += [(name, "") for name in BESIDE]
    while left:
        text, extra = left.pop()
        wanted = Requirement(text)
        if wanted.marker and not wanted.marker.evaluate({"extra": extra}):
            continue
        for of in ("", *wanted.extras):
            if (wanted.name, of) not in found:
                found.add((wanted.name, of))
                left += [(below, of) for below in distribution(wanted.name).requires or ()]
    return {name for name, _ in found}


def _link(name: str, site: Path) -> None:
    files = distribution(name).files
    assert files is not None
    for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
        place = site / top
        if not place.exists():
            place.symlink_to(Path(str(distribution(name).locate_file(top))).resolve())
