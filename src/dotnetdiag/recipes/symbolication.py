"""Lines of source for stack traces that have a method's token and an offset instead: of assemblies that ran without their PDB."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from dotnetdiag.assemblies.sequence_points import PortablePdb, SourceLine
from dotnetdiag.errors import InputError

LIMIT_BYTES = 1 << 30
"""PDBs have some megabytes; what is larger is not read."""
_PLACE = re.compile(
    r" in (?P<name>[^/\\:]+?)(\.ni)?\.(dll|exe):token (?P<token>0x[0-9a-fA-F]{1,8})\+(?P<offset>0x[0-9a-fA-F]{1,8})"
)


def symbolicate(lines: Iterable[str], folders: Sequence[Path]) -> Iterator[str]:
    """The lines, with ``in /src/App.cs:line 7`` for ``in App.dll:token 0x6000001+0x12`` where an ``App.pdb`` in one of the folders, or below
    one, says so. What is not found stays. Raises InputError for a folder that is none.
    """
    found: dict[str, Path] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(str(folder), "it is no folder")
        for path in sorted(folder.rglob("*.pdb")):
            found.setdefault(path.stem.lower(), path)
    known: dict[str, PortablePdb | None] = {}

    def replaced(place: re.Match[str]) -> str:
        name = place["name"].lower()
        if name not in known:
            known[name] = _opened(found.get(name))
        line = _line_of(known[name], int(place["token"], 16), int(place["offset"], 16))
        return place[0] if line is None else f" in {line.document}:line {line.line}"

    for line in lines:
        yield _PLACE.sub(replaced, line)


def _opened(path: Path | None) -> PortablePdb | None:
    try:
        return None if path is None or path.stat().st_size > LIMIT_BYTES else PortablePdb(path.read_bytes())
    except (OSError, ValueError):
        return None


def _line_of(pdb: PortablePdb | None, token: int, offset: int) -> SourceLine | None:
    try:
        return None if pdb is None else pdb.line(token, offset)
    except ValueError:
        return None
