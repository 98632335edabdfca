"""Modules that are found by their names are those that Python finds, and whatever is odd is left to Python."""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import py_compile
import subprocess
import sys
from collections.abc import Callable
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path

import numpy as np
import pytest

import dotnetdiag
from dotnetdiag.cli import quick_imports
from dotnetdiag.cli.quick_imports import _Finder, _names_in


def compiled(source: Path, text: str = "VALUE = 1\n") -> Path:
    """Such a module with bytecode of its own; where that is."""
    source.parent.mkdir(exist_ok=True)
    source.write_text(text)
    mode = py_compile.PycInvalidationMode.TIMESTAMP
    return Path(str(py_compile.compile(str(source), doraise=True, invalidation_mode=mode)))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a package ``pack``."""
    monkeypatch.setattr(quick_imports, "_PACKAGES", frozenset({"pack"}))
    _names_in.cache_clear()
    return tmp_path


def found(folder: Path, name: str = "one") -> ModuleSpec | None:
    _names_in.cache_clear()
    return _Finder.find_spec(f"pack.{name}", [str(folder)])


def run(*options: str, code: str) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    made = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, timeout=60, env=environment, check=True
    )
    return made.stdout.strip()


@pytest.mark.parametrize("package", [dotnetdiag, np], ids=["own", "numpy"])
def test_what_is_found_is_what_python_finds(package: object) -> None:
    path, name = list(package.__path__), package.__name__  # type: ignore[attr-defined]
    count = 0
    for one in pkgutil.iter_modules(path):
        full = f"{name}.{one.name}"
        wanted, made = PathFinder.find_spec(full, path), _Finder.find_spec(full, path)
        assert wanted is not None
        if made is None:
            continue  # compiled, or without bytecode that is as the source
        count += 1
        for told in ("name", "origin", "cached", "has_location", "parent", "submodule_search_locations"):
            assert getattr(made, told) == getattr(wanted, told)
        assert isinstance(made.loader, SourceFileLoader)
        assert made.loader.path == wanted.origin
        assert made.loader.is_package(full) == one.ispkg
    assert count > 5


def test_a_module_that_was_found_is_one_like_others(folder: Path) -> None:
    compiled(folder / "one.py", "VALUE = 7\ndef told():\n    return __file__\n")
    spec = found(folder)
    assert spec is not None
    assert spec.loader is not None
    for _ in range(2):  # who asks again has the same
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert module.VALUE == 7
        assert module.told() == str(folder / "one.py")
        assert module.told.__code__.co_filename == str(folder / "one.py")
    assert spec.loader.get_data(str(folder / "one.py")).startswith(b"VALUE = 7")  # type: ignore[attr-defined]


def test_a_package_is_before_a_module_of_its_name(folder: Path) -> None:
    compiled(folder / "one.py")
    compiled(folder / "one" / "__init__.py")
    spec = found(folder)
    assert spec is not None
    assert spec.submodule_search_locations == [str(folder / "one")]


def test_a_package_without_bytecode_is_before_a_module_of_its_name_too(folder: Path) -> None:
    compiled(folder / "one.py")
    (folder / "one").mkdir()
    (folder / "one" / "__init__.py").write_text("")
    assert found(folder) is None


def test_what_came_to_a_folder_later_is_left_to_python(folder: Path) -> None:
    compiled(folder / "one.py")
    assert found(folder) is not None
    compiled(folder / "two.py")
    assert _Finder.find_spec("pack.two", [str(folder)]) is None


def newer_source(folder: Path) -> None:
    compiled(folder / "one.py")
    os.utime(folder / "one.py", (1, 1))


def larger_source(folder: Path) -> None:
    compiled(folder / "one.py")
    told = (folder / "one.py").stat()
    (folder / "one.py").write_text("VALUE = 22\n")
    os.utime(folder / "one.py", ns=(told.st_atime_ns, told.st_mtime_ns))


def beside_an_extension(folder: Path) -> None:
    compiled(folder / "one.py")
    (folder / f"one{EXTENSION_SUFFIXES[0]}").write_bytes(b"")


def by_hash(folder: Path) -> None:
    (folder / "one.py").write_text("VALUE = 1\n")
    mode = py_compile.PycInvalidationMode.CHECKED_HASH
    py_compile.compile(str(folder / "one.py"), doraise=True, invalidation_mode=mode)


def without_bytecode(folder: Path) -> None:
    (folder / "one.py").write_text("VALUE = 1\n")


def without_source(folder: Path) -> None:
    compiled(folder / "one.py")
    (folder / "one.py").unlink()


def cut(folder: Path) -> None:
    bytecode = compiled(folder / "one.py")
    bytecode.write_bytes(bytecode.read_bytes()[:40])


def cut_in_its_header(folder: Path) -> None:
    bytecode = compiled(folder / "one.py")
    bytecode.write_bytes(bytecode.read_bytes()[:10])


def of_no_code(folder: Path) -> None:
    bytecode = compiled(folder / "one.py")
    bytecode.write_bytes(bytecode.read_bytes()[:16] + b"N")


def of_another_python(folder: Path) -> None:
    bytecode = compiled(folder / "one.py")
    bytecode.write_bytes(b"\0" + bytecode.read_bytes()[1:])


def compiled_elsewhere(folder: Path) -> None:
    source = folder / "one.py"
    compiled(source)
    py_compile.compile(str(source), dfile="elsewhere/one.py", doraise=True)


@pytest.mark.parametrize(
    "odd",
    [
        newer_source,
        larger_source,
        beside_an_extension,
        by_hash,
        without_bytecode,
        without_source,
        cut,
        cut_in_its_header,
        of_no_code,
        of_another_python,
        compiled_elsewhere,
    ],
)
def test_what_is_odd_is_left_to_python(odd: Callable[[Path], None], folder: Path) -> None:
    compiled(folder / "two.py")
    assert found(folder, "two") is not None
    odd(folder)
    assert found(folder) is None


def test_others_are_left_to_python(folder: Path) -> None:
    compiled(folder / "one.py")
    assert _Finder.find_spec("pack", None) is None
    assert _Finder.find_spec("other.one", [str(folder)]) is None
    assert _Finder.find_spec("pack.one", [str(folder), str(folder)]) is None
    for name in ("one\0", "\ud800", "", "..", "one.py"):
        assert _Finder.find_spec(f"pack.{name}", [str(folder)]) is None
    assert _Finder.find_spec("pack.one", [str(folder / "elsewhere")]) is None


@pytest.mark.parametrize(
    ("options", "is_there"), [((), True), (("-O",), False), (("-X", "pycache_prefix=elsewhere"), False)]
)
def test_where_bytecode_is_another_nothing_is_found(options: tuple[str, ...], is_there: bool) -> None:
    code = """
        import sys
        from dotnetdiag.cli.quick_imports import _Finder, find_quickly
        find_quickly(), find_quickly()
        print(sys.meta_path.count(_Finder))
    """
    assert run(*options, code="\n".join(line.strip() for line in code.splitlines())) == str(int(is_there))


def test_the_command_line_finds_its_modules_so() -> None:
    code = """
        import os, sys
        sys.argv = ["dotnetdiag", "--version"]
        def leave(code):
            print(type(sys.modules["dotnetdiag.cli.commands"].__loader__).__module__)
            sys.stdout.flush()
            left(code)
        left, os._exit = os._exit, leave
        from dotnetdiag.cli.main import main
        main()
    """
    lines = [line[8:] for line in code.splitlines()]
    assert run(code="\n".join(lines)).splitlines()[-1] == quick_imports.__name__
