"""Which files of the tests import which others, read from their text."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.shared import CHECKOUT

SHARED = "tests.shared"
"""The only file that knows where ../shared is: a test that does not import it, itself or through another, cannot tell whether it is there."""


@cache
def files() -> dict[str, Path]:
    """Those of the tests by the name of their module."""
    return {module_of(path): path for path in (CHECKOUT / "tests").rglob("*.py")}


def module_of(path: Path) -> str:
    """The name under which others import a file."""
    return ".".join(path.relative_to(CHECKOUT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imported(module: str) -> frozenset[str]:
    """Those that a module imports, and those that they import."""
    seen, new = set[str](), {module}
    while new:
        new = {name for one in new for name in _imports(one)} - seen
        seen |= new
    return frozenset(seen)


@cache
def _imports(module: str) -> frozenset[str]:
    names = set[str]()
    for node in ast.walk(ast.parse(files()[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names & files().keys())
