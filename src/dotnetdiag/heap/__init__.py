"""The object graph of a .NET heap in columns: built from events, read from and written to ``.gcdump``; who holds what, and how much.

May import ``errors``, ``wire``, ``events``, ``trace``, ``table`` and numpy; opens no files by name, prints nothing, asks no clock. Its loops
are compiled (``_kernels.pyx``), with a fall-back in numpy (``fallback.py``).

``dd.heap`` is this package, and a function, ``recipes.heaps.heap``: ``dd.heap(pid)``,
``dd.heap("app.gcdump")``. Raises what that raises.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from dotnetdiag._lazy import loader

_PUBLIC = {
    "HeapDiff": "difference",
    "growing_types": "difference",
    "Completeness": "facts",
    "HeapFacts": "facts",
    "Segment": "facts",
    "HeapFold": "fold",
    "read_gcdump": "gcdump_reader",
    "write_gcdump": "gcdump_writer",
    "Heap": "heap",
}
__getattr__ = loader(globals(), _PUBLIC)


class _Room(ModuleType):
    """``dotnetdiag.heap`` is this package and, as ``dd.heap(pid)``, a function: whichever is asked for first, the other must work too."""

    def __call__(self, *args: Any, **options: Any) -> Heap:
        from dotnetdiag.recipes.heaps import heap

        return heap(*args, **options)


sys.modules[__name__].__class__ = _Room

if TYPE_CHECKING:
    from dotnetdiag.heap.difference import HeapDiff, growing_types
    from dotnetdiag.heap.facts import Completeness, HeapFacts, Segment
    from dotnetdiag.heap.fold import HeapFold
    from dotnetdiag.heap.gcdump_reader import read_gcdump
    from dotnetdiag.heap.gcdump_writer import write_gcdump
    from dotnetdiag.heap.heap import Heap

__all__ = [
    "Completeness",
    "Heap",
    "HeapDiff",
    "HeapFacts",
    "HeapFold",
    "Segment",
    "growing_types",
    "read_gcdump",
    "write_gcdump",
]
