"""``CC=/bin/false pip install .``: an installation without a C compiler is whole, and slower."""

from __future__ import annotations

import json
import os

import pytest
from tests.packaging import smoke
from tests.packaging.building import Environment

pytestmark = pytest.mark.slow


def test_doctor_says_that_the_decoders_are_not_compiled_and_how_to_compile_them(uncompiled: Environment) -> None:
    done = uncompiled.run("dotnetdiag", "doctor")
    others = [line for line in done.stdout.splitlines() if line.startswith("FAIL")]  # programs of other tests, stopped
    assert done.returncode == bool(others), done.stderr
    line = next(line for line in done.stdout.splitlines() if "decoders" in line)
    assert line.startswith("warn  the decoders are not compiled")
    source = uncompiled.folder.parent / "source"
    assert line.endswith(f"pip install --force-reinstall --no-deps --no-cache-dir {source}")


def test_recordings_are_read_as_with_compiled_decoders(uncompiled: Environment) -> None:
    done = uncompiled.run("python", smoke.__file__)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["package"].startswith(str(uncompiled.packages))
    assert not any(answer["compiled"].values())
    assert answer["read"] == json.loads(json.dumps(smoke.smoke()["read"]))


def test_no_half_built_file_is_left(uncompiled: Environment) -> None:
    def built(folder: os.PathLike[str]) -> list[str]:
        names = (name for _, _, names in os.walk(folder) for name in names)
        return [name for name in names if name.endswith((".c", ".o", ".so", ".pyx", ".pxd"))]

    assert not built(uncompiled.packages / "dotnetdiag")
    assert sorted(built(uncompiled.folder.parent / "source" / "src")) == [
        "_kernels.c",  # both of before: see copy_checkout
        "_kernels.cpython-39-x86_64-linux-gnu.so",
        *["_kernels.pyx"] * 6,
        "prefetch.pxd",
    ]
