"""The import table of the architecture, enforced over the syntax tree (imports inside functions too)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = "dotnetdiag"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

BELOW_RECIPES = {"errors", "wire", "ipc", "providers", "nettrace", "events", "trace", "analysis", "export"} | {
    "transport",
    "client",
    "server",
    "router",
    "live",
}

# room -> the rooms of ours that it may import (itself always)
ALLOWED: dict[str, set[str]] = {
    "_lazy": set(),  # how packages load their names; no room, and open to all
    "errors": set(),
    "wire": {"errors"},
    "ipc": {"errors", "wire"},
    "providers": {"errors", "ipc"},
    "nettrace": {"errors", "wire"},
    "events": {"errors", "wire", "nettrace"},
    "trace": {"errors", "nettrace", "events"},
    "analysis": {"errors", "events", "trace"},
    "export": {"errors", "trace", "analysis"},
    "transport": {"errors"},
    "client": {"errors", "ipc", "providers", "transport"},
    "server": {"errors", "ipc", "transport"},
    "router": {"errors", "ipc", "transport"},
    "live": {"errors", "providers", "client", "nettrace", "events", "trace"},
    "recipes": BELOW_RECIPES - {"wire", "ipc"},
    "testing": BELOW_RECIPES,
    # faces: recipes, the result types of three rooms, export's registry, errors to turn into exit codes
    "cli": {"errors", "recipes", "events", "trace", "analysis", "export"},
    "tui": {"errors", "recipes", "events", "trace", "analysis", "export"},
    "monitor": {"errors", "recipes", "events", "trace", "analysis", "export"},
}

PURE = {"errors", "wire", "ipc", "providers", "nettrace", "events", "trace", "analysis", "export"}
IMPURE_MODULES = {"socket", "asyncio", "threading", "time", "subprocess", "selectors", "select", "multiprocessing"}
# numpy is the one third party of the core; everything else is imported only where it stands here.
THIRD_PARTIES: dict[str, set[str]] = {
    "numpy": {"nettrace", "events", "trace", "analysis", "export", "live", "recipes", "testing"},
    "cython": {"nettrace", "events", "trace"},
    "click": {"cli"},
    "rich": {"cli"},
    "pandas": {"trace"},
    "pyarrow": {"trace", "export"},
    "polars": {"trace"},
    "google": {"export"},
}
FORBIDDEN_CALLS = {"eval", "exec"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve"}


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.stem if len(relative.parts) == 1 else relative.parts[0]


def imports_of(path: Path) -> list[tuple[int, str]]:
    """(line, dotted module) of every import in the file; relative ones are resolved."""
    package = [PACKAGE, *path.relative_to(SOURCE).parts[:-1]]
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module == PACKAGE:
                found += [(node.lineno, f"{PACKAGE}.{alias.name}") for alias in node.names]
            else:
                found.append((node.lineno, module))
    return found


FILES = sorted(SOURCE.rglob("*.py"))
STDLIB = __import__("sys").stdlib_module_names


def test_every_room_is_in_the_table() -> None:
    rooms = {room_of(path) for path in FILES} - {"__init__", "__main__"}
    assert rooms
    assert rooms <= set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_file_imports_only_what_its_room_may(path: Path) -> None:
    room = room_of(path)
    if room in {"__init__", "__main__"}:  # the root only re-exports, lazily
        return
    wrong = []
    for line, module in imports_of(path):
        top, _, rest = module.partition(".")
        if top == PACKAGE:
            other = rest.partition(".")[0]
            if other and other not in ("__version__", "_lazy") and other != room and other not in ALLOWED[room]:
                wrong.append(f"line {line}: {room} must not import {other}")
        elif top in FORBIDDEN_MODULES or (room in PURE and top in IMPURE_MODULES):
            wrong.append(f"line {line}: {room} must not import {top}")
        elif top not in STDLIB and room not in THIRD_PARTIES.get(top, set()):
            wrong.append(f"line {line}: {room} must not import the third party {top}")
    assert not wrong


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_file_runs_no_text_as_code(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            assert not (isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS), node.lineno
            assert not any(keyword.arg == "shell" for keyword in node.keywords), node.lineno


def test_rooms_do_not_import_in_a_circle() -> None:
    seen: dict[str, set[str]] = {}
    for path in FILES:
        room = room_of(path)
        if room not in {"__init__", "__main__"}:
            others = {m.split(".")[1] for _, m in imports_of(path) if m.startswith(PACKAGE + ".")}
            seen.setdefault(room, set()).update((others & set(ALLOWED)) - {room})

    def reaches(start: str, room: str, path: tuple[str, ...]) -> None:
        for other in sorted(seen.get(room, set())):
            assert other != start, f"circle: {' -> '.join((*path, other))}"
            if other not in path:
                reaches(start, other, (*path, other))

    for room in seen:
        reaches(room, room, (room,))
