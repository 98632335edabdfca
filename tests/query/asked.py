"""Recordings that are asked, and what the tables of this package say of the same."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.trace.trace import Trace


@lru_cache(maxsize=4)
def opened(name: str) -> Trace:
    """One of the recordings."""
    return Trace(data_of(name), name=name)


def named(begin: str) -> str:
    """The name of the recording that begins so."""
    return next(name for name in recordings() if name.startswith(begin))


def saved(folder: Path, *begins: str) -> list[str]:
    """Copies of recordings as files; their paths."""
    paths = []
    for begin in begins:
        path = folder / f"{begin}.nettrace"
        path.write_bytes(data_of(named(begin)))
        paths.append(str(path))
    return paths
