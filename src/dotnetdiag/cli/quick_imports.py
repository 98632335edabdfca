"""Modules of packages that are loaded by the dozen are found by their names.

Python's own way is for any module anywhere: it asks what each folder has, makes the name of the bytecode from the parts of a path twice, and looks at
each file several times. That was 70 µs for each of the 230 modules of a report, 5 to 8 % of its time. Whatever is not as it nearly always is goes
that way: no bytecode, or one of another source, a module that is compiled, a package in an archive, what came to a folder later.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, SourceFileLoader, SourcelessFileLoader
from importlib.util import MAGIC_NUMBER
from io import open_code
from os import listdir, sep, stat
from types import CodeType, ModuleType

_PACKAGES = frozenset({"dotnetdiag", "numpy"})
_BY_TIME = MAGIC_NUMBER + bytes(4)
"""What begins bytecode of this Python that has the time and the size of its source behind it (PEP 552)."""
_HEADER_BYTES = 16


def find_quickly() -> None:
    """From now on, in a process of our own. Nothing where bytecode is of another kind, or elsewhere."""
    is_usual = sys.flags.optimize == 0 and sys.pycache_prefix is None and sys.implementation.cache_tag is not None
    if is_usual and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Bytecode(SourcelessFileLoader):
    """What reads it, of what was read of its file."""

    data = b""

    def get_data(self, path: str) -> bytes:
        """All of it."""
        return self.data if path == self.path else super().get_data(path)


class _Loader(SourceFileLoader):
    """The usual one, which has the code already when it is asked first."""

    code: CodeType | None = None

    def get_code(self, fullname: str) -> CodeType | None:
        """That of the module."""
        code, self.code = self.code, None
        return super().get_code(fullname) if code is None else code


class _Finder:
    """Finds those of :data:`_PACKAGES`, but for these themselves."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, *_: ModuleType | None) -> ModuleSpec | None:
        """As other finders do."""
        own = name.rpartition(".")[2]
        if path is None or len(path) != 1 or own == name or name.partition(".")[0] not in _PACKAGES:
            return None
        (folder,) = path
        there = _names_in(folder)
        if own in there:
            inner = f"{folder}{sep}{own}"
            found = _found(name, inner, "__init__")
            if found is not None:
                found.submodule_search_locations = [inner]
            return found
        is_compiled = any(f"{own}{suffix}" in there for suffix in EXTENSION_SUFFIXES)
        return None if is_compiled or f"{own}.py" not in there else _found(name, folder, own)


@cache
def _names_in(folder: str) -> frozenset[str]:
    """What a folder has, as it was when it was first asked: what came later Python finds."""
    try:
        return frozenset(listdir(folder))
    except OSError:
        return frozenset()


def _found(name: str, folder: str, own: str) -> ModuleSpec | None:
    """A module of a folder, whose bytecode is that of its source as it is now."""
    source = f"{folder}{sep}{own}.py"
    bytecode = f"{folder}{sep}__pycache__{sep}{own}.{sys.implementation.cache_tag}.pyc"
    try:
        told = stat(source)
        with open_code(bytecode) as file:
            data = file.read()
    except OSError:
        return None
    of_source = b"".join((one & 0xFFFFFFFF).to_bytes(4, "little") for one in (int(told.st_mtime), told.st_size))
    if data[:_HEADER_BYTES] != _BY_TIME + of_source:
        return None
    reads = _Bytecode(name, bytecode)
    reads.data = data
    try:
        code = reads.get_code(name)
    except (EOFError, ImportError, TypeError, ValueError):
        return None
    if code is None or code.co_filename != source:
        return None
    loader = _Loader(name, source)
    loader.code = code
    spec = ModuleSpec(name, loader, origin=source)
    spec.has_location, spec.cached = True, bytecode
    return spec
