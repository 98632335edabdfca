"""The public face."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tests.syntax import syntax_of

import dotnetdiag
import dotnetdiag.errors
import dotnetdiag.nettrace
import dotnetdiag.server
import dotnetdiag.testing


def test_every_public_name_is_there() -> None:
    for name in dotnetdiag.__all__:
        assert getattr(dotnetdiag, name) is not None


def test_import_loads_nothing_heavy() -> None:
    code = "import sys, dotnetdiag; print([m for m in ('numpy', 'click', 'rich', 'asyncio', 'socket') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(dotnetdiag, "nonsense")


def test_every_error_is_at_the_root() -> None:
    assert set(dotnetdiag.errors.__all__) <= set(dotnetdiag.__all__)


def test_every_public_name_says_what_it_gives_and_every_function_what_it_raises() -> None:
    for name in dotnetdiag.__all__:
        if name == "__version__":
            continue
        thing = getattr(dotnetdiag, name)
        text = inspect.getdoc(thing)
        assert text, name
        if not inspect.isclass(thing):
            assert "aises" in text, name
            continue
        for member, value in vars(thing).items():
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not member.startswith("_") and callable(function) and not inspect.isclass(function):
                assert inspect.getdoc(function), f"{name}.{member}"


def test_what_type_checkers_see_is_what_there_is() -> None:
    """They read the imports that are never run."""
    tree = syntax_of(Path(dotnetdiag.__file__))
    (block,) = [step for step in tree.body if isinstance(step, ast.If)]
    names = {
        alias.asname or alias.name for step in block.body if isinstance(step, ast.ImportFrom) for alias in step.names
    }
    names |= {
        target.id
        for step in block.body
        if isinstance(step, ast.Assign)
        for target in step.targets
        if isinstance(target, ast.Name)
    }
    assert {name for name in names if not name.startswith("_")} == set(dotnetdiag.__all__) - {"__version__"}


@pytest.mark.parametrize("package", [dotnetdiag, dotnetdiag.nettrace, dotnetdiag.server, dotnetdiag.testing])
def test_dir_tells_every_name_that_is_loaded_when_it_is_used(package: ModuleType) -> None:
    names = dir(package)
    assert len(names) >= 10
    assert not [name for name in names if not hasattr(package, name)]


def test_what_a_command_of_ones_own_needs_is_at_hand() -> None:
    assert {"Caller", "Command", "Handler", "HResult", "Refused", "Reply", "ResultReply"} <= set(dir(dotnetdiag.server))
