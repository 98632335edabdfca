"""Heaps of recordings, and what the reference's reader finds in them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TypeAlias

from tests.live.test_reference_reader import oracle

from dotnetdiag.heap import Heap, HeapFold
from dotnetdiag.trace.trace import Trace

_SUFFIX = re.compile(r" \(Bytes > [0-9]+[KM]\)$")

Types: TypeAlias = "dict[tuple[str, str | None], tuple[int, int]]"


def heaps_of(recording: bytes | Path) -> tuple[Heap, ...]:
    """Every heap of a recording."""
    data = recording if isinstance(recording, bytes) else recording.read_bytes()
    fold, trace = HeapFold(), Trace(data, name="recording")
    for window in trace.windows(fold.wants):
        fold.feed(window)
    return fold.result()


def heap_of(recording: bytes | Path) -> Heap:
    """The only heap of a recording."""
    (heap,) = heaps_of(recording)
    return heap


def oracle_types(verb: str, path: Path) -> tuple[Types, dict[str, Any]]:
    """(count and bytes by type and module, without the suffix of size; the totals) of ``heap`` or ``gcdump``."""
    *rows, end = oracle(verb, path)
    types: Types = {}
    for row in rows:
        key = _SUFFIX.sub("", row["type"]), row["module"]
        count, size = types.get(key, (0, 0))
        types[key] = count + row["count"], size + row["bytes"]
    return types, end


def types_of(heap: Heap) -> Types:
    """The same of ours."""
    return {(row["type"], row["module"]): (row["count"], row["bytes"]) for row in heap.types}
