"""The recordings of the project: where they are, their bytes, what the reference reader saw in them."""

from __future__ import annotations

import gzip
import json
import lzma
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

FOLDER = Path(os.environ.get("DOTNETDIAG_FIXTURES") or Path(__file__).resolve().parents[3] / "shared" / "fixtures")


def recordings() -> list[str]:
    """Names of all trace files in the folder. Where CI says so, a missing folder is a failure."""
    found = sorted(
        path.name
        for path in (FOLDER.iterdir() if FOLDER.is_dir() else ())
        if path.name.removesuffix(".xz").endswith((".nettrace", ".netperf"))
    )
    if not found and os.environ.get("CI") == "true":
        raise RuntimeError(f"no recordings in {FOLDER}; set DOTNETDIAG_FIXTURES")
    return found


@lru_cache(maxsize=4)
def data_of(name: str) -> bytes:
    raw = (FOLDER / name).read_bytes()
    return lzma.decompress(raw) if name.endswith(".xz") else raw


@dataclass(frozen=True)
class Listing:
    """What TraceEvent printed: one dict per event in its order; ``end`` is its last line, None when it threw before."""

    events: list[dict[str, Any]]
    end: dict[str, Any] | None


def _lines(name: str) -> Iterator[dict[str, Any]]:
    packed = name.endswith(".xz")
    path = FOLDER / (f"{name[:-3]}.events.jsonl.xz" if packed else f"{name.rpartition('.')[0]}.events.jsonl.gz")
    with (lzma.open if packed else gzip.open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@lru_cache(maxsize=2)
def listing_of(name: str) -> Listing:
    events = list(_lines(name))
    end = events.pop() if events and events[-1].get("end") else None
    return Listing(events, end)
