"""A summary of a recorded file."""

from __future__ import annotations

from pathlib import Path

from dotnetdiag.events import resolve
from dotnetdiag.nettrace import read


def summarize(path: Path, *, top: int = 8) -> list[str]:
    """Lines for people: format, blocks, events, what was lost, the most frequent events."""
    contents = read(path.read_bytes())
    lines = [
        f"Format    {contents.format}, {len(contents.blocks)} blocks, {len(contents.headers)} events, "
        f"{contents.lost.total} lost, {'complete' if contents.complete else contents.broke}"
    ]
    counts: dict[str, int] = {}
    import numpy as np

    ids, numbers = np.unique(contents.headers.metadata_id, return_counts=True)
    for metadata_id, number in zip(ids.tolist(), numbers.tolist(), strict=True):
        known = contents.metadata.get(metadata_id)
        name = f"{known.provider} {resolve(known).name}" if known is not None else f"metadata {metadata_id}"
        counts[name] = counts.get(name, 0) + number
    lines += [f"  {count:>10}  {name}" for name, count in sorted(counts.items(), key=lambda row: -row[1])[:top]]
    return lines
