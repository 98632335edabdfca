"""The wheel where there is no compiler, no git and no ../shared: the demo, and tests that ship with the sdist."""

from __future__ import annotations

import json
import platform
import sys

import pytest
from tests.packaging.building import Distributions, Environment

pytestmark = pytest.mark.slow

SELECTION = (
    "tests/test_errors.py",
    "tests/test_wire.py",
    "tests/nettrace/test_kernels.py",
    "tests/nettrace/test_writer.py",
    "tests/events/test_kernels.py",
    "tests/trace/test_source.py",
    "tests/analysis/test_cpu.py",
)
"""Of every room that reads files a little, without pandas and pyarrow; the whole suite takes minutes."""


def test_there_is_no_compiler_and_no_git_and_the_decoders_are_compiled(bare: Environment) -> None:
    done = bare.run("python", "-c", "import shutil; print(*map(shutil.which, ('cc', 'gcc', 'clang', 'git')))")
    assert done.stdout.split() == ["None"] * 4, done.stderr
    assert "ok    the decoders are compiled" in bare.run("dotnetdiag", "doctor").stdout


def test_recordings_of_the_sdist_are_read(bare: Environment, distributions: Distributions) -> None:
    done = bare.run("python", str(distributions.unpacked / "tests" / "packaging" / "smoke.py"), "--compiled")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["package"].startswith(str(bare.packages))


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="PyPI has a .NET runtime for Linux x64 only"
)
def test_the_demo_records_and_explains_a_program(bare: Environment) -> None:
    done = bare.run("dotnetdiag", "demo", "--seconds", "1")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "(dotnetcore2)" in done.stdout
    assert "Recorded  demo.nettrace" in done.stdout
    assert (bare.folder / "home" / "demo.nettrace").stat().st_size


def test_tests_of_the_sdist_pass_on_the_installed_package(bare: Environment, distributions: Distributions) -> None:
    command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *SELECTION]
    done = bare.run(*command, cwd=distributions.unpacked)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    where = "import dotnetdiag; print(dotnetdiag.__file__)"
    assert bare.run("python", "-c", where, cwd=distributions.unpacked).stdout.startswith(str(bare.packages))
