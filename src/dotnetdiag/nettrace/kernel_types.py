"""What the kernels share with Python beside plain arrays: a call with other types raises ValueError. ``_kernels.pyx`` has the
same structs.
"""

from __future__ import annotations

import numpy as np


def _words(*names: str) -> np.dtype[np.void]:
    return np.dtype([(name, np.int64) for name in names])


BLOCK = _words(
    *("rows", "runs", "guids", "stop", "problem", "missing", "unknown_metadata", "unknown_stack", "unknown_labels"),
    "undefined_id",
    *("kept", "amounts", "marks", "earliest", "latest", "until"),
)
"""What was found in a block: events, rows where the sequence number is stated (the first always), GUIDs that are stated; the
position behind the last good event, what is wrong there, and for a payload that is cut the bytes that are missing; events
with ids that are not defined, and the first such id of metadata; and what ``sift`` made of it: rows that are kept, amounts, marks,
the earliest time and the latest, and that of an event that is sorted.
"""
FINDINGS = slice((BLOCK.names or ()).index("problem"), (BLOCK.names or ()).index("kept"))
"""The words of a row that are zero when nothing is wrong."""
UNKNOWN = ("unknown_metadata", "unknown_stack", "unknown_labels")

IDS = _words("start", "base", "near", "bits", "defined")
"""Where the entries of a block's ids begin in an array of several tables, and an ``ids.Snapshot``."""
MEANINGS = np.dtype([("stacks", IDS), ("labels", IDS), ("metadata", IDS)])

PROGRESS = _words("row", "run", "guid", "rows", "runs", "guids", "zeroed")
"""How far columns are filled, how many there may be of each, and whether those that are nearly always zero are so (1), or
were written to (2).
"""

SIFTED = _words("row", "run", "amount", "mark", "rows", "runs", "amounts", "marks", "zeroed")
"""The same of what ``sift`` fills."""
