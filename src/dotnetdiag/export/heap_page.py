"""A heap as one HTML page: an icicle of what keeps what alive, the types, and why they are alive; nothing is loaded from anywhere.

See :mod:`dotnetdiag.export.pages` for what keeps it safe. Rows of the tree that keep little alive are left out, so that the page stays small::

    {"title": …, "facts": [...],
     "tree": {"type": [...], "parent": [...], "count": [...], "bytes": [...], "retained": [...]},     parents before what is below them
     "types": {"name": [...], "module": [...], "pseudo": [...], "count": [...], "bytes": [...], "retained": [...], "order": [...]},
     "paths": {type: [{"count": …, "bytes": …, "shortest": …, "path": [...]}]}}
"""

from __future__ import annotations

from typing import IO, Any

import numpy as np

from dotnetdiag.export.pages import Page
from dotnetdiag.export.texts import plain
from dotnetdiag.heap.advice import unreached_bytes
from dotnetdiag.heap.heap import Heap
from dotnetdiag.heap.holders import is_pseudo_node
from dotnetdiag.heap.paths import ways_to_types

MOST_BOXES = 12_000
"""Rows of the tree: those that keep most alive."""
_DEPTH, _SHARE = 60, 20_000
_MOST_TYPES = 2_000
_MOST_PATHS, _WAYS = 40, 4
"""Types whose ways from the roots are on the page, and how many of each."""


PAGE = Page(title="Heap", body="heap/heap.html", styles=["heap/heap.css"], scripts=["heap/heap.js"])


def write(heap: Heap, file: IO[bytes]) -> None:
    """Write the page."""
    PAGE.write(_data(heap), file)


def _data(heap: Heap) -> dict[str, Any]:
    numbers: dict[tuple[str | None, str | None], int] = {}
    tree = _tree(heap, numbers)
    types = heap.types[:_MOST_TYPES]
    keys = list(zip(types.values("type"), types.values("module"), strict=True))
    for key in keys:
        numbers.setdefault(key, len(numbers))
    figures = dict(zip(keys, zip(*(types.values(one) for one in _FIGURES), strict=True), strict=True))
    return {
        "title": plain(f"Heap of {heap.facts.process or 'a process'}"),
        "facts": [plain(fact) for fact in _facts(heap)],
        "tree": tree,
        "types": {
            "name": [plain(name or "-") for name, _ in numbers],
            "module": [plain((module or "").replace("\\", "/").rpartition("/")[2]) for _, module in numbers],
            "pseudo": [int(module is None and (name or "").startswith("[")) for name, module in numbers],
            **{
                called: [figures.get(key, (0, 0, 0))[place] for key in numbers]
                for place, called in enumerate(("count", "bytes", "retained"))
            },
            "order": [numbers[key] for key in keys if key[1] is not None or not is_pseudo_node(key[0])],
        },
        "paths": _paths(heap, numbers),
    }


_FIGURES = ("count", "bytes", "retained_bytes")


def _facts(heap: Heap) -> list[str]:
    facts = heap.facts
    made = [_counted(heap.bytes, "byte"), _counted(heap.objects, "object"), _counted(heap.edges, "reference")]
    made += [f"process {facts.pid}"] if facts.pid else []
    made += [f"collected {facts.collected:%Y-%m-%d %H:%M:%S} UTC"] if facts.collected is not None else []
    made += [f"stood still for {facts.pause_ms:,.1f} ms"] if facts.pause_ms is not None else []
    made += [facts.sample] if facts.sample is not None else []
    unreached = unreached_bytes(heap)
    if unreached:
        is_reached = f"{_counted(unreached, 'byte')} {'is' if unreached == 1 else 'are'} reached"
        made.append(f"{is_reached} from no root: {heap.means_unreached}")
    return made + [f"not complete: {problem}" for problem in heap.completeness.problems]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _tree(heap: Heap, numbers: dict[tuple[str | None, str | None], int]) -> dict[str, list[int]]:
    rows = heap.tree(_DEPTH, max(heap.bytes // _SHARE, 1))
    retained, parents = rows.numpy("retained_bytes"), rows.values("parent")
    is_kept = np.zeros(len(rows), np.bool_)
    is_kept[np.argsort(~retained, kind="stable")[:MOST_BOXES]] = True
    keys = list(zip(rows.values("type"), rows.values("module"), strict=True))
    columns = [rows.values(name) for name in _FIGURES]
    made: dict[str, list[int]] = {name: [] for name in ("type", "parent", "count", "bytes", "retained")}
    places: dict[int, int] = {}
    for row, parent in enumerate(parents):
        if not is_kept[row] or (parent is not None and parent not in places):
            continue
        places[row] = len(places)
        made["type"].append(numbers.setdefault(keys[row], len(numbers)))
        made["parent"].append(-1 if parent is None else places[parent])
        for name, column in zip(("count", "bytes", "retained"), columns, strict=True):
            made[name].append(int(column[row]))
    return made


def _paths(heap: Heap, numbers: dict[tuple[str | None, str | None], int]) -> dict[int, list[dict[str, Any]]]:
    made: dict[int, list[dict[str, Any]]] = {}
    kinds: dict[tuple[str | None, str | None], list[int]] = {}
    for number, key in enumerate(zip(heap.type_name.to_pylist(), heap.type_module.to_pylist(), strict=True)):
        kinds.setdefault(key, []).append(number)
    for row in heap.by_retained[:_MOST_PATHS].to_pylist() + heap.types[:_MOST_PATHS].to_pylist():
        key = row["type"], row["module"]
        if not all(key) or numbers.get(key) in made or key not in kinds:
            continue
        made[numbers.setdefault(key, len(numbers))] = [
            {
                "count": way["count"],
                "bytes": way["bytes"],
                "shortest": way["is_shortest"],
                "path": [plain(step) for step in way["path"]],
            }
            for way in ways_to_types(heap, kinds[key], _WAYS).to_pylist()
        ]
    return made
