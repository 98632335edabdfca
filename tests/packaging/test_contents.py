"""What is in the sdist and in the wheel, and what is not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import PurePosixPath

import pytest
from tests.packaging.building import Distributions, Environment
from tests.shared import CHECKOUT

from dotnetdiag import __version__

pytestmark = pytest.mark.slow

KERNEL_MB = 0.5
TOLERANCE = 1.2
"""How much larger something may be than docs/installation.md says."""
INFO = f"dotnetdiag-{__version__}.dist-info"
GENERATED = {"PKG-INFO", "setup.cfg", "src/dotnetdiag.egg-info/SOURCES.txt"}
NOT_SHIPPED = {".gitignore"}


def stated_bytes(what: str) -> float:
    """The size of a distribution, as docs/installation.md says it."""
    text = (CHECKOUT / "docs" / "installation.md").read_text("utf-8")
    found = re.search(rf"^\| {what} \| ([\d.]+) MB", text, re.MULTILINE)
    assert found, what
    return float(found[1]) * 1e6


def names_in_wheel(distributions: Distributions) -> set[str]:
    with zipfile.ZipFile(distributions.wheel) as wheel:
        return set(wheel.namelist())


def names_in_sdist(distributions: Distributions) -> set[str]:
    with tarfile.open(distributions.sdist) as archive:
        return {str(PurePosixPath(*PurePosixPath(each.name).parts[1:])) for each in archive if each.isfile()}


@pytest.mark.skipif(not (CHECKOUT / ".git").exists() or not shutil.which("git"), reason="no checkout of git")
def test_the_sdist_has_every_file_of_the_checkout_and_no_other(distributions: Distributions) -> None:
    asking = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(asking, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout
    tracked = {name for name in said.split("\0") if (CHECKOUT / name).is_file()}
    assert names_in_sdist(distributions) - GENERATED == tracked - NOT_SHIPPED


def test_the_sdist_has_what_it_is_tested_with(distributions: Distributions) -> None:
    names = names_in_sdist(distributions)
    for name in ("Makefile", "mkdocs.yml", ".ci/run", "tests/conftest.py", "tests/data/README.md", "docs/index.md"):
        assert name in names
    for folder in ("tests/data/recordings", "examples", "tools", "benchmarks", "fuzz", "soak"):
        assert any(name.startswith(f"{folder}/") for name in names), folder
    assert distributions.sdist.stat().st_size < TOLERANCE * stated_bytes("source distribution")


def test_the_wheel_has_the_package_its_data_its_licences_and_its_kernels(distributions: Distributions) -> None:
    names = names_in_wheel(distributions)
    source = CHECKOUT / "src"
    package = {
        path.relative_to(source).as_posix()
        for path in (source / "dotnetdiag").rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".pyd", ".so", ".c", ".pyx", ".pxd"}
    }
    kernels = {name for name in names if name.endswith(".so")}
    assert {name.partition(".")[0] for name in kernels} == {
        f"dotnetdiag/{room}/_kernels" for room in ("nettrace", "events", "trace", "heap", "server", "transport")
    }
    info = {name for name in names if PurePosixPath(name).parts[0] == INFO}
    assert names == package | kernels | info
    licences = {name.partition("/licenses/")[2] for name in info if "/licenses/" in name}
    assets = "src/dotnetdiag/export/assets"
    assert licences == {"LICENSE", *(f"{assets}/{name}/LICENSE" for name in ("d3", "d3-flame-graph", "pprof"))}


def test_an_installation_of_the_checkout_has_the_files_of_the_wheel_made_of_the_sdist(
    distributions: Distributions, uncompiled: Environment
) -> None:
    packages = uncompiled.packages
    installed = {
        path.relative_to(packages).as_posix()
        for path in (packages / "dotnetdiag").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    in_wheel = {name for name in names_in_wheel(distributions) if name.startswith("dotnetdiag/")}
    assert installed == {name for name in in_wheel if not name.endswith(".so")}


def test_kernels_have_no_debug_information_and_suit_old_systems_and_the_wheel_is_small(
    distributions: Distributions,
) -> None:
    assert distributions.wheel.stat().st_size < TOLERANCE * stated_bytes("wheel, Linux x64")
    with zipfile.ZipFile(distributions.wheel) as wheel:
        for each in wheel.infolist():
            if each.filename.endswith(".so"):
                assert each.file_size < KERNEL_MB * 1e6, each.filename
                kernel = wheel.read(each)
                assert b".debug_info" not in kernel, each.filename
                # manylinux_2_17, which is what docs/installation.md says; nothing is named where the C library is musl
                assert max((int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", kernel)), default=0) <= 17


def test_the_wheel_says_which_python_and_platform_it_is_for(distributions: Distributions) -> None:
    version = f"cp{sys.version_info.major}{sys.version_info.minor}"
    assert distributions.wheel.name.startswith(f"dotnetdiag-{__version__}-{version}-{version}-")
    with zipfile.ZipFile(distributions.wheel) as wheel:
        metadata = Parser().parsestr(wheel.read(f"{INFO}/METADATA").decode())
    assert metadata["License-Expression"] == "MIT AND Apache-2.0 AND ISC"
    assert metadata["Requires-Python"] == ">=3.11"
    assert {"demo", "pandas", "arrow", "polars", "pprof", "websocket"} <= set(metadata.get_all("Provides-Extra", ()))
