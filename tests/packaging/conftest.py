"""The distributions and the environments, built once a run."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]  # the environments are those of POSIX
else:
    import fcntl

    from tests.packaging.building import (
        PIP,
        Distributions,
        Environment,
        call,
        copy_checkout,
        distributions_in,
        make_distributions,
        make_environment,
        once,
    )


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One for all workers; the last one removes it, for it has hundreds of megabytes, and pytest would keep three of them."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "packaging"
    with folder.with_suffix(".users").open("w") as users:
        fcntl.flock(users, fcntl.LOCK_SH)
        folder.mkdir(exist_ok=True)
        yield folder
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def distributions(shared_folder: Path) -> Distributions:
    return distributions_in(once(shared_folder / "distributions", make_distributions))


@pytest.fixture(scope="session")
def bare(distributions: Distributions, shared_folder: Path) -> Environment:
    """The wheel with its demo in an environment without compiler and git, and what the smallest tests need."""

    def make(folder: Path) -> None:
        make_environment(folder, f"{distributions.wheel}[demo]", "pytest", "pytest-timeout", "hypothesis")

    return Environment(folder=once(shared_folder / "bare", make) / "venv")


@pytest.fixture(scope="session")
def uncompiled(shared_folder: Path) -> Environment:
    """``CC=/bin/false pip install .`` in a copy of the checkout, which is ``source`` beside the environment."""

    def make(folder: Path) -> None:
        copy_checkout(folder / "source")
        make_environment(folder)
        python = str(folder / "venv" / "bin" / "python")
        call([*PIP, "--python", python, "install", "."], cwd=folder / "source", CC="/bin/false")

    return Environment(folder=once(shared_folder / "uncompiled", make) / "venv")
