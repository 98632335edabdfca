"""The import table of the architecture, enforced over the syntax tree (imports inside functions too)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.syntax import syntax_of

from dotnetdiag.cli.commands import COMMANDS

PACKAGE = "dotnetdiag"
SOURCE = Path(__file__).resolve().parents[1] / "src" / PACKAGE

DATA_ROOMS = {"wire", "table", "nettrace", "events", "trace", "analysis", "heap", "query", "export"}
SESSION_ROOMS = {"wire", "assemblies", "ipc", "providers", "transport", "client", "server", "router", "live"}
BELOW_RECIPES = {"errors", "durations"} | DATA_ROOMS | SESSION_ROOMS
FACES = {"cli", "tui", "service"}
# What faces see beside recipes: errors, which they turn into exit codes; types of results; export's registry.
SEEN_BY_FACES = {"errors", "durations", "recipes", "events", "table", "trace", "analysis", "heap", "export"}

# room -> the rooms of ours that it may import (itself always)
ALLOWED: dict[str, set[str]] = {
    "_lazy": set(),  # how packages load their names; no room, and open to all
    "_dataclasses": set(),  # how classes of values are made; likewise
    "_temporary": set(),  # where files lie for a while; likewise
    "_patterns": set(),  # how regular expressions are compiled; likewise
    "errors": set(),
    "durations": {
        "errors"
    },  # as people type them: one file, which has no room above errors that fits all who take them
    "wire": {"errors"},
    "assemblies": set(),  # what the files of an assembly say: is it a startup hook? which lines has it?
    "ipc": {"errors", "wire"},
    "providers": {"errors", "ipc"},
    "table": {"errors", "events"},  # its columns are those that events decodes into
    "nettrace": {"errors", "wire"},
    "events": {"errors", "wire", "nettrace"},
    "trace": {"errors", "durations", "nettrace", "events", "table"},
    "analysis": {"errors", "durations", "events", "trace", "table"},
    "heap": {"errors", "wire", "events", "trace", "table"},
    "query": {"errors", "events", "trace", "analysis", "heap", "table"},  # answers become columns of events
    "export": {"errors", "table", "trace", "analysis", "heap"},
    "transport": {"errors"},
    "client": {"errors", "durations", "assemblies", "ipc", "providers", "transport"},
    "server": {"errors", "ipc", "transport", "nettrace"},
    "router": {"errors", "ipc", "transport"},
    "live": {"errors", "durations", "providers", "client", "nettrace", "events", "table", "trace"},
    "recipes": BELOW_RECIPES - {"wire", "ipc"},
    "testing": BELOW_RECIPES,
    **dict.fromkeys(FACES, SEEN_BY_FACES),
    # its verbs `fake` and `conformance` are the face of testing; it opens the screens of the face tui and starts what the face service serves,
    # neither of which knows of it
    "cli": SEEN_BY_FACES | {"testing", "tui", "service"},
}

# (file, room above it): what it asks that room for when it is called; nothing of it is loaded before.
WAYS_UP = {
    ("nettrace/batch.py", "events"): "EventBatch.tables: who holds a batch finds its columns there",
    ("trace/trace.py", "query"): "Trace.sql: who holds a trace asks it",
    ("heap/heap.py", "query"): "Heap.sql: who holds a heap asks it",
    ("heap/__init__.py", "recipes"): "dd.heap is this package and a function: it calls that",
}

PURE = {
    "errors",
    "durations",
    "wire",
    "assemblies",
    "ipc",
    "providers",
    "nettrace",
    "events",
    "table",
    "trace",
    "analysis",
    "heap",
    "export",
}
IMPURE_MODULES = {"socket", "asyncio", "threading", "time", "subprocess", "selectors", "select", "multiprocessing"}
# numpy is the one third party of the core; everything else is imported only where it stands here.
THIRD_PARTIES: dict[str, set[str]] = {
    "numpy": {
        "table",
        "nettrace",
        "events",
        "trace",
        "analysis",
        "heap",
        "query",
        "export",
        "live",
        "server",  # makes the columns that the writer takes
        "recipes",
        "testing",
    },
    "click": {"cli"},
    "rich": {"cli", "tui"},
    "textual": {"tui"},
    "starlette": {"service"},
    "prometheus_client": {"service"},
    "pandas": {"table", "trace", "query"},  # partitions of Dask are its frames
    "pyarrow": {"table", "query"},
    "polars": {"table", "query"},
    "duckdb": {"query"},
    "fsspec": {"query"},
    "dask": {"query"},
    "ray": {"query"},
    "google": {
        "export",
        "recipes",  # collector_http.py: what the exporters bring along
    },
    "urllib3": {"recipes"},  # the same
    "matplotlib": {"export"},
    "networkx": {"heap"},
    "igraph": {"heap"},
    "websockets": {"router"},
    "dpkt": {"recipes"},
    "opentelemetry": {
        "server",  # reads the meters of a program
        "export",
        "recipes",  # its exporters: collector_http.py, collector_grpc.py
    },
    "grpc": {"recipes"},
    "requests": {"recipes"},
}
FORBIDDEN_CALLS = {"eval", "exec"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve"}

OPTION_NAME = re.compile(rf"(?<![-\w])--[a-z][a-z-]+|\bdotnetdiag (?:{'|'.join(COMMANDS)})\b")
INSTALLING = re.compile(r"pip install .*")  # has options of its own


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.stem if len(relative.parts) == 1 else relative.parts[0]


def imports_of(path: Path) -> list[tuple[int, str]]:
    """(line, dotted module) of every import in the file; relative ones are resolved."""
    package = [PACKAGE, *path.relative_to(SOURCE).parts[:-1]]
    found = []
    for node in ast.walk(syntax_of(path)):
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


def ways_up(path: Path) -> set[str]:
    return {room for file, room in WAYS_UP if SOURCE / file == path}


FILES = sorted(SOURCE.rglob("*.py"))
STDLIB = sys.stdlib_module_names


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
            known = (
                {"", "__version__", "_lazy", "_dataclasses", "_patterns", "_temporary", room}
                | ALLOWED[room]
                | ways_up(path)
            )
            if other not in known:
                wrong.append(f"line {line}: {room} must not import {other}")
        elif top in FORBIDDEN_MODULES or (room in PURE and top in IMPURE_MODULES):
            wrong.append(f"line {line}: {room} must not import {top}")
        elif top not in STDLIB and room not in THIRD_PARTIES.get(top, set()):
            wrong.append(f"line {line}: {room} must not import the third party {top}")
    assert not wrong


@pytest.mark.parametrize(("file", "room"), WAYS_UP)
def test_a_way_up_is_gone_when_somebody_asks(file: str, room: str) -> None:
    asked = f"import sys, {PACKAGE}.{file[:-3].replace('/', '.')}; print('{PACKAGE}.{room}' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
    assert room in {module.split(".")[1] for _, module in imports_of(SOURCE / file) if module.startswith(f"{PACKAGE}.")}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_file_runs_no_text_as_code(path: Path) -> None:
    for node in ast.walk(syntax_of(path)):
        if isinstance(node, ast.Call):
            assert not (isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS), node.lineno
            assert not any(keyword.arg == "shell" for keyword in node.keywords), node.lineno


def test_rooms_do_not_import_in_a_circle() -> None:
    seen: dict[str, set[str]] = {}
    for path in FILES:
        room = room_of(path)
        if room not in {"__init__", "__main__"}:
            others = {m.split(".")[1] for _, m in imports_of(path) if m.startswith(PACKAGE + ".")}
            seen.setdefault(room, set()).update((others & set(ALLOWED)) - {room} - ways_up(path))

    def reaches(start: str, room: str, path: tuple[str, ...]) -> None:
        for other in sorted(seen.get(room, set())):
            assert other != start, f"circle: {' -> '.join((*path, other))}"
            if other not in path:
                reaches(start, other, (*path, other))

    for room in seen:
        reaches(room, room, (room,))


# files of one room ----------------------------------------------------------------------------------------------------


def module_of(path: Path) -> str:
    parts = [PACKAGE, *path.relative_to(SOURCE).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def files_imported_by(path: Path) -> set[str]:
    """Modules of ours; ``from package import name`` means the module of that name where there is one."""
    package = [PACKAGE, *path.relative_to(SOURCE).parts[:-1]]
    found = set()
    for node in ast.walk(syntax_of(path)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            inner = {f"{module}.{alias.name}" for alias in node.names}
            found |= (inner & MODULES.keys()) | ({module} if inner - MODULES.keys() - KERNELS else set())
    return (found & MODULES.keys()) - {module_of(path)}


MODULES = {module_of(path): path for path in FILES}
KERNELS = {module_of(path) for path in SOURCE.rglob("*.pyx")}  # they import nothing of ours


def imports_in_circles(room: str) -> set[str]:
    """``file -> file`` for every import between two files that can reach each other."""
    below = {
        module: {other for other in files_imported_by(path) if room_of(MODULES[other]) == room}
        for module, path in MODULES.items()
        if room_of(path) == room
    }

    def reached_from(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in below[waiting.pop()] - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reached = {module: reached_from(module) for module in below}
    short = len(f"{PACKAGE}.{room}.")
    return {
        f"{module[short:] or '__init__'} -> {other[short:] or '__init__'}"
        for module, others in below.items()
        for other in others
        if module in reached[other]
    }


ROOMS = sorted({room_of(path) for path in FILES} - {"__init__", "__main__"})


@pytest.mark.parametrize("room", ROOMS)
def test_files_of_a_room_do_not_import_in_a_circle(room: str) -> None:
    """For types alone and inside of functions too."""
    assert imports_in_circles(room) == set()


# words ----------------------------------------------------------------------------------------------------------------


def option_names_in(path: Path) -> set[str]:
    """Names of options and verbs in texts that are no docstrings."""
    tree = syntax_of(path)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    ]
    return {match for text in texts for match in OPTION_NAME.findall(INSTALLING.sub("", text))}


RECORDING = {"--clrevents", "--clreventlevel", "--providers", "--profile", "--no-stacks", "--rundown"}
"""What the notes of questions say how to record with."""


def test_only_faces_name_options() -> None:
    found = {
        str(path.relative_to(SOURCE)): names
        for path in FILES
        if room_of(path) not in FACES
        and path.name != "__main__.py"
        and (names := option_names_in(path) - (RECORDING if room_of(path) == "analysis" else set()))
    }
    assert found == {}


def test_values_are_made_the_quick_way() -> None:
    """The standard library's ``dataclass`` takes 0.4 to 0.8 ms for each class, at every start."""
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in FILES
        for node in ast.walk(syntax_of(path))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses" and path.name != "_dataclasses.py"
        if {alias.name for alias in node.names} & {"dataclass", "field", "replace"}
    ]
    assert not found
