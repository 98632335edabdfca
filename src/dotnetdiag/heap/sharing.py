"""Work on pieces of a heap that several threads may share: who calls brings the threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

Shared: TypeAlias = Callable[[Iterable[int], Callable[[int], Any]], Iterable[tuple[int, Any]]]
"""Acts on each of some works, and gives (work, what came of it) in their order."""


def by_oneself(works: Iterable[int], act: Callable[[int], Any]) -> Iterator[tuple[int, Any]]:
    """Each and what it comes to, without any help."""
    return ((work, act(work)) for work in works)
