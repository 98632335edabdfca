"""What verbs that only read files do before anything large is loaded."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_OBJECTS = 100_000
_DOCUMENTATION = frozenset({"numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars"})


def collect_seldom() -> None:
    """Python's collector looks for garbage after :data:`_OBJECTS` more objects, and not after 700: what is loaded and made here stays, and to look at
    it again and again was 8 of 150 ms of a short report.
    """
    gc.set_threshold(_OBJECTS)


def be_lean() -> None:
    """For verbs that load numpy. No threads for linear algebra, of which there is none here: they spin for a while when they are born, which was
    100 of the 500 ms of processor time of a report. Not for verbs that start programs, which would inherit it. And of 150 ms of a short report 6 were
    numpy's texts for ``help``, which are loaded when somebody asks for them, and nobody does.
    """
    collect_seldom()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if _Postponing not in sys.meta_path:
        sys.meta_path.insert(0, _Postponing)


class _Postponing:
    """Finds modules that are imported for what they do to others."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """As other finders do."""
        if name not in _DOCUMENTATION:
            return None
        found = PathFinder.find_spec(name, path, target)
        if found is not None and found.loader is not None:
            from importlib.util import LazyLoader

            found.loader = LazyLoader(found.loader)
        return found
