"""A new user walks through the documentation: every command gives what its page says, in an environment that is made of the wheel."""

from __future__ import annotations

import difflib
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from tests.docs.environment import environment
from tests.docs.pages import DOCS, PYPI, Step, normal, pages, steps
from tests.docs.walk import walk, walks, write
from tests.live.runtimes import available, names
from tests.shared import skip_without

linux = pytest.mark.skipif(sys.platform != "linux", reason="types into bash")


@pytest.fixture(scope="session")
def env(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once, also for several workers of pytest-xdist."""
    base = tmp_path_factory.getbasetemp()
    return environment((base.parent if base.name.startswith("popen-") else base) / "walk")


@linux
@pytest.mark.live
@pytest.mark.parametrize(("page", "version"), walks(), ids=lambda value: getattr(value, "stem", value))
def test_a_page_says_what_comes(page: Path, version: str, env: Path) -> None:
    if version == PYPI and not any("dotnetcore2" in name for name in names()):
        pytest.skip("the runtime of PyPI is not installed: pip install 'dotnetdiag[demo]'")
    if version != PYPI and not available():
        skip_without(f".NET {version}, which a page of the documentation needs")
    done = list(walk(page, version, env))
    for (step, output, code), (following, _, _) in pairwise([*done, done[-1]]):
        where = f"docs/{page.relative_to(DOCS)}:{step.line}: $ {step.command}"
        if not step.matches(output):
            diff = difflib.unified_diff(normal(step.output), normal(output), "page", "came", lineterm="")
            pytest.fail("\n".join([where, *diff, "---", output]), pytrace=False)
        assert code == 0 or following.command.startswith("echo $?"), f"{where} ended with {code}"


@linux
def test_the_environment_has_the_wheel_and_what_it_requires_and_nothing_else(env: Path) -> None:
    (site,) = (env / "lib").glob("python*/site-packages")
    there = {entry.name for entry in site.iterdir()}
    assert {"dotnetdiag", "numpy", "click", "rich", "pandas", "polars"} <= there
    assert not {"pytest", "mypy", "_pytest"} & there
    assert not (site / "dotnetdiag").is_symlink()


def test_the_documentation_has_pages_to_walk() -> None:
    assert DOCS / "tutorial.md" in pages()


def step(output: str, command: str = "x") -> Step:
    return Step(line=1, end=1, runtime=PYPI, command=command, output=output)


@pytest.mark.parametrize(
    ("page", "came"),
    [
        ("pid  12  3,254.5 ms 40.1%", "pid 7 12 ms 100.00%"),
        ("a\n…\nz", "a\nb\nc\nz"),
        ("a\n…\nz", "a\nz"),
        ("a\n…", "a\nb"),
        ("…", ""),
        ("in /…/demo.dll", "in /a/b/demo.dll"),
        ("0xB at 0x1A", "0x4 at 0xffe"),
        ("a\n", "a\n\n"),
        ("time method\n61% Primes\n35% Words\n…", "time method\n53% Words\n36% Primes\n9% Main"),
        ("3 rows\n\n2 a\n1 b", "3 rows\n\n2 b\n1 a"),
    ],
)
def test_what_may_differ(page: str, came: str) -> None:
    assert step(page).matches(came)


@pytest.mark.parametrize(
    ("page", "came"),
    [
        ("a", "b"),
        ("a", ""),
        ("", "a"),
        ("a\n…\nz", "a\nb"),
        ("a\nb", "a\nx\nb"),
        ("a …", "b c"),
        ("2 a\n1 b", "2 a\n1 c"),
        ("2 a\n1 b", "2 b\n1 b"),
        ("2 a\n\n1 b", "1 b\n\n2 a"),
        ("x\ny", "y\nx"),
    ],
)
def test_what_may_not_differ(page: str, came: str) -> None:
    assert not step(page).matches(came)


def test_what_a_page_lets_its_reader_type(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n```sh\n$ not this\n```\n\n```console\n$ a \\\n  --b\nout\n\n$ c &\n```\n"
        "\n1. In a list:\n\n    ```{ .console runtime=10 }\n    $ d\n      e\n    ```\n",
        encoding="utf-8",
    )
    assert [(one.line, one.end, one.runtime, one.command, one.output, one.in_background) for one in steps(page)] == [
        (8, 11, PYPI, "a \\\n  --b", "out", False),
        (12, 12, PYPI, "c &", "", True),
        (18, 19, "10", "d", "  e", False),
    ]
    write(page, [(one, "new\n") for one in steps(page)[:2]])
    assert page.read_text("utf-8").splitlines()[6:13] == [
        "```console", "$ a \\", "  --b", "new", "$ c &", "new", "```"
    ]  # fmt: skip


def test_an_output_that_no_command_gave_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\nout\n```\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="begins with a command"):
        steps(page)
