"""The recordings: where they are, their bytes, what the reference reader saw in them.

They are those of ../shared/fixtures; without it, the few small ones of tests/data/recordings, which are copies of them.
"""

from __future__ import annotations

import atexit
import gzip
import json
import lzma
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from tests.shared import CHECKOUT, shared_part, skip_without

SMALL_FOLDER = CHECKOUT / "tests" / "data" / "recordings"


@cache
def small_unpacked() -> Path:
    """The recordings of tests/data under the names that they have in ../shared, in a folder for this run.

    ``.nettrace`` files are packed only here; the ``.netperf`` file is packed there too, and stays so.
    """
    folder = Path(tempfile.mkdtemp(prefix="dotnetdiag-recordings-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for path in SMALL_FOLDER.iterdir():
        if path.name.endswith(".nettrace.xz"):
            (folder / path.stem).write_bytes(lzma.decompress(path.read_bytes()))
        else:
            shutil.copy(path, folder)
    return folder


FOLDER = shared_part("fixtures") or small_unpacked()


def recordings() -> list[str]:
    """Names of all trace files in the folder."""
    return sorted(
        path.name for path in FOLDER.iterdir() if path.name.removesuffix(".xz").endswith((".nettrace", ".netperf"))
    )


def recording(name: str) -> Path:
    """The file of that name, of a recording or beside one; a test that asks for one that is not here is skipped."""
    if not (FOLDER / name).exists():
        skip_without(f"the recording {name.partition('.')[0]}")
    return FOLDER / name


@lru_cache(maxsize=4)
def data_of(name: str) -> bytes:
    raw = recording(name).read_bytes()
    return lzma.decompress(raw) if name.endswith(".xz") else raw


@dataclass(frozen=True)
class Listing:
    """What TraceEvent printed: one dict per event in its order; ``end`` is its last line, None when it threw before."""

    events: list[dict[str, Any]]
    end: dict[str, Any] | None


def _lines(name: str) -> Iterator[dict[str, Any]]:
    packed = name.endswith(".xz")
    path = recording(f"{name[:-3]}.events.jsonl.xz" if packed else f"{name.rpartition('.')[0]}.events.jsonl.gz")
    with (lzma.open if packed else gzip.open)(path, "rt", encoding="utf-8") as file:
        for line in file:
            yield json.loads(line)


@lru_cache(maxsize=2)
def listing_of(name: str) -> Listing:
    events = list(_lines(name))
    end = events.pop() if events and events[-1].get("end") else None
    return Listing(events, end)
