"""Portable PDBs at hand: in folders that somebody names, beside the module, or embedded in it.

Rule 1: a PDB is taken for a module when its id is the one that the recording says, else the one that the module's file says. One with another id is
of another build, whose lines would be wrong: it is refused, with a note.
Rule 2: which paths are opened, a recording says, which may be anybody's: only ``.pdb`` and the module itself, only regular files of this machine, up
to a limit; nothing that is wrong with them is more than a note.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import UUID

import numpy as np

from dotnetdiag.analysis.filters import is_of_framework
from dotnetdiag.assemblies.debug_directory import DebugDirectory
from dotnetdiag.assemblies.sequence_points import PortablePdb
from dotnetdiag.errors import InputError
from dotnetdiag.trace.frame import file_name, module_name
from dotnetdiag.trace.line_symbols import MethodLines

LIMIT_BYTES = 256 << 20
"""PDBs and assemblies have some megabytes; what is larger is not read."""
TOTAL_BYTES = 1 << 30
"""Of all PDBs that are held; a large program has some hundred megabytes."""
MOST_POINTS = 1 << 22
"""Sequence points of all methods that are asked for: 4,000 methods have some 100,000. They are read in Python, 1 million in a second."""
_NAMED = 4
"""Modules that a note names."""


class PdbFiles:
    """The lines of methods (``trace.line_symbols.LineSource``). What was refused, and what is missing, is in :attr:`notes`."""

    def __init__(self, folders: Sequence[Path | str] = ()) -> None:
        """``folders`` are searched with all that is below them, by file name. Raises InputError for one that is none."""
        self.folders = tuple(str(Path(folder).absolute()) for folder in folders)
        self._found: dict[str, list[Path]] = {}
        self._opened: dict[tuple[str, UUID | None], PortablePdb | None] = {}
        self._refused: list[str] = []
        self._missing: dict[str, None] = {}
        self._names: dict[tuple[UUID, int], str] = {}
        self._points = self._held = 0
        self.taken: dict[str, str] = {}
        """Which PDB is taken for which module, by their paths."""
        for folder in map(Path, folders):
            if not folder.is_dir():
                raise InputError(str(folder), "it is no folder")
            for path in sorted(folder.rglob("*")):
                if path.suffix.lower() in (".pdb", ".dll", ".exe"):
                    self._found.setdefault(path.name.lower(), []).append(path)

    @property
    def notes(self) -> tuple[str, ...]:
        """What was refused or damaged, a line each, and which modules have no PDB."""
        missing = sorted(self._missing, key=lambda name: (is_of_framework(name), name))
        if not missing:
            return tuple(self._refused)
        more = f" and {len(missing) - _NAMED:,} more" if len(missing) > _NAMED else ""
        return (*self._refused, f"no lines, for there is no PDB at hand: of {', '.join(missing[:_NAMED])}{more}")

    def lines(self, module_path: str, pdb_id: UUID | None, token: int) -> MethodLines | None:
        """The lines of a method; None where no PDB says them."""
        key = module_path, pdb_id
        if key not in self._opened:
            self._opened[key] = self._open(module_path, pdb_id)
            if self._opened[key] is None:
                self._missing.setdefault(module_name(module_path))
        pdb = self._opened[key]
        if pdb is None:
            return None
        if self._points > MOST_POINTS:
            self._refuse(f"lines of more than {MOST_POINTS:,} sequence points: the other methods are without")
            return None
        try:
            points = pdb.points(token)
        except ValueError as error:
            self._refuse(f"{self.taken[module_path]}: {error}")
            return None
        self._points += len(points)
        columns = np.array([(point.il_offset, point.document, point.line) for point in points], np.int64).reshape(-1, 3)
        il_offset, document, line = np.ascontiguousarray(columns.T)
        return MethodLines(il_offset, document, line, lambda number: self._name(module_path, pdb, number))

    def _name(self, module_path: str, pdb: PortablePdb, number: int) -> str:
        key = pdb.id, number
        if key not in self._names:
            try:
                self._names[key] = pdb.document(number)
            except ValueError as error:
                self._names[key] = ""
                self._refuse(f"{self.taken[module_path]}: {error}")
        return self._names[key]

    # files ------------------------------------------------------------------------------------------------------------

    def _open(self, module_path: str, pdb_id: UUID | None) -> PortablePdb | None:
        name = file_name(module_path)
        modules = [*self._found.get(name.lower(), ()), *_beside(module_path, name)]
        if pdb_id is None:  # an old runtime, or a recording without the events of modules
            pdb_id = next((found for one in modules if (found := self._id_of(one)) is not None), None)
        for path, data in self._candidates(module_path, name, modules):
            try:
                pdb = PortablePdb(data)
            except ValueError as error:
                self._refuse(f"{path}: {error}")
                continue
            if pdb_id is not None and pdb.id != pdb_id:
                self._refuse(f"{path} is of another build of {module_name(name)}, and not used")
                continue
            if pdb_id is None:
                self._refuse(f"{path} is used, but nothing says whether it is of this build of {module_name(name)}")
            if self._held + len(data) > TOTAL_BYTES:
                self._refuse(f"{path} is one too many: PDBs of {TOTAL_BYTES >> 20} MB are held")
                continue
            self._held += len(data)
            self.taken[module_path] = str(path)
            return pdb
        return None

    def _candidates(self, module_path: str, name: str, modules: Sequence[Path]) -> Iterator[tuple[Path, bytes]]:
        """PDBs with where they are, those that somebody named first, then those beside the module, then embedded ones."""
        wanted = f"{module_name(name)}.pdb"
        for path in (*self._found.get(wanted.lower(), ()), *_beside(module_path, wanted)):
            data = self._read(path)
            if data is not None:
                yield path, data
        for path in modules:
            directory = self._directory(path)
            try:
                data = None if directory is None else directory.embedded_pdb()
            except ValueError as error:
                self._refuse(f"{path}: {error}")
                continue
            if data is not None:
                yield path, data

    def _id_of(self, path: Path) -> UUID | None:
        directory = self._directory(path)
        return None if directory is None else directory.pdb_id

    def _directory(self, path: Path) -> DebugDirectory | None:
        data = self._read(path)
        try:
            return None if data is None else DebugDirectory(data)
        except ValueError:
            return None  # an executable of another system, for one

    def _read(self, path: Path) -> bytes | None:
        """None for what is not there."""
        try:
            return _contents(path)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._refuse(f"{path}: {getattr(error, 'strerror', None) or error}")
            return None

    def _refuse(self, note: str) -> None:
        if note not in self._refused:
            self._refused.append(note)


def _beside(module_path: str, name: str) -> tuple[Path, ...]:
    """The file of that name in the folder of a module, if that is an absolute path of this machine: those of Windows that begin with two
    separators name another one, which would be asked.
    """
    path = Path(module_path)
    if not path.is_absolute() or module_path[:2] in ("\\\\", "//", "\\/", "/\\") or "\0" in module_path:
        return ()
    return (path.with_name(name),) if path.name else ()


def _contents(path: Path) -> bytes:
    """Raises OSError, ValueError. Does not wait for a FIFO's writer."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    with os.fdopen(os.open(path, flags), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_size > LIMIT_BYTES:
            raise ValueError(f"it is larger than {LIMIT_BYTES >> 20} MB")
        return file.read(LIMIT_BYTES)
