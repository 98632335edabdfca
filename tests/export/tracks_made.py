"""Tracks made by hand, with any texts there may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from tests.export.made import HOSTILE_NAMES, hostile

from dotnetdiag.analysis.tracks import CounterTrack, Labels, Slices, Tracks

PID = 77
Row = tuple[int, float, float, str, str, int]
"""Thread, begin and end in ms, label, detail, parent."""


def slices_of(kind: str, rows: Sequence[Row], *, of_threads: bool) -> Slices:
    number = np.arange(len(rows))
    return Slices(
        kind=kind,
        of_threads=of_threads,
        pid=np.full(len(rows), PID),
        tid=np.array([row[0] for row in rows]),
        start_ns=np.array([round(row[1] * 1e6) for row in rows]),
        end_ns=np.array([round(row[2] * 1e6) for row in rows]),
        label=Labels(texts=[row[3] for row in rows], number=number),
        detail=Labels(texts=[row[4] for row in rows], number=np.where([bool(row[4]) for row in rows], number, -1)),
        parent=np.array([row[5] for row in rows]),
    )


REQUESTS: tuple[Row, ...] = (
    (1, 0, 50, "server GET /", "", -1),
    (1, 5, 20, "client GET /a", "", 0),
    (1, 10, 30, "client GET /b", "refused", 0),  # beside the one before
    (2, 11, 19, "server GET /b", "", 1),
    (2, 40, 60, "server POST /", "", -1),
)


def tracks_made() -> Tracks:
    """Hostile names everywhere, requests beside and within each other, a thread without samples, a counter."""
    texts: list[Row] = [(1, at, at, name, name, -1) for at, name in enumerate(HOSTILE_NAMES)]
    return Tracks(
        samples=hostile(),
        slices=(
            slices_of("Requests", REQUESTS, of_threads=False),
            slices_of("JIT", [(9, 1, 4, "App.Run", "Tier0", -1), (9, 2, 3, "App.Go", "Tier1", -1)], of_threads=True),
            slices_of("Exceptions", texts, of_threads=True),
        ),
        counters=(
            CounterTrack(
                name="heap \ud800", unit="bytes", pid=PID, ns=np.array([0, 10]), values=np.array([5.0, 7.0e300])
            ),
        ),
        threads={(PID, 9): "worker </script>", (PID, 1): "lone \ud800"},
        end_ns=70_000_000,
    )
