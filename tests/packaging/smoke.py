"""Does an installation read? On any platform, with nothing but the installation: ``python tests/packaging/smoke.py [--compiled]``.

Reads the small recordings of tests/data, and compares how many events there are with what the reference reader saw. Prints
what it has read as JSON. ``--compiled``: an installation without its compiled kernels is an error.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import tempfile
from pathlib import Path

import dotnetdiag as dd
from dotnetdiag.events import kernels as payloads
from dotnetdiag.heap import kernels as heaps
from dotnetdiag.nettrace import kernels as headers
from dotnetdiag.server import kernels as frames
from dotnetdiag.trace import kernels as stacks
from dotnetdiag.transport import kernels as sockets

RECORDINGS = Path(__file__).resolve().parents[1] / "data" / "recordings"


def smoke() -> dict[str, object]:
    """Where the package is, what of it is compiled, and for each recording the events of each type and the busiest methods."""
    read: dict[str, object] = {}
    for path in sorted(RECORDINGS.glob("*.nettrace.xz")):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.stem
            copy.write_bytes(lzma.decompress(path.read_bytes()))
            with dd.open(copy) as trace:
                counts = trace.counts()
                rows = sum(len(trace[f"{provider}/{name}"]) for provider, names in counts.items() for name in names)
                busiest = [(row.name(), row.exclusive) for row in dd.cpu(trace).top(5)]
        listing = path.with_name(path.name.removesuffix(".nettrace.xz") + ".events.jsonl.gz")
        with gzip.open(listing, "rt", encoding="utf-8") as seen:
            expected = sum('"provider":' in line for line in seen)
        found = sum(count for names in counts.values() for count in names.values())
        if (found, rows) != (expected, expected):
            raise SystemExit(f"{path.name}: {expected} events, counted {found}, with payloads {rows}")
        read[path.stem] = {"counts": counts, "busiest": busiest}
    if not read:
        raise SystemExit(f"no recordings in {RECORDINGS}")
    compiled = {room.__name__: room.KERNELS is not None for room in (headers, payloads, stacks, heaps, frames, sockets)}
    return {"package": dd.__file__, "compiled": compiled, "read": read}


if __name__ == "__main__":
    answer = smoke()
    print(json.dumps(answer, indent=1))
    if "--compiled" in sys.argv and not all(answer["compiled"].values()):  # type: ignore[attr-defined]
        raise SystemExit("the kernels are not compiled")
