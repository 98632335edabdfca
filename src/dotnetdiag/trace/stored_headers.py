"""Headers of events that wait in a file: what tables of them are made of, but for call stacks and ids of activities."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from dotnetdiag.nettrace import HeaderColumns

Array: TypeAlias = "np.ndarray[Any, Any]"
Headers: TypeAlias = HeaderColumns

_KEPT = ("time", "thread", "payload_offset", "metadata_id", "payload_length", "label_list")
STORED = np.dtype([
    ("time", "i8"), ("thread", "u8"), ("payload_offset", "i8"), ("metadata_id", "u4"), ("payload_length", "u4"), ("label_list", "u4"),
    ("is_there", "u4"),
])  # fmt: skip
"""40 bytes of each; ``is_there`` is 1, and 0 where there is none."""


def stored(headers: HeaderColumns) -> Array:
    """What is kept of them."""
    made = np.empty(len(headers), STORED)
    for name in _KEPT:
        made[name] = getattr(headers, name)
    made["is_there"] = 1
    return made


def headers_of(kept: Array) -> HeaderColumns:
    """Those that were kept; what is not, is 0."""
    made = HeaderColumns.allocate(len(kept))
    for name in ("sequence", "capture_thread", "processor", "stack"):
        getattr(made, name)[:] = 0
    for name in _KEPT:
        getattr(made, name)[:] = kept[name]
    return made


def no_headers() -> HeaderColumns:
    """Of no event."""
    return HeaderColumns.allocate(0)


def joined_headers(parts: Sequence[HeaderColumns]) -> HeaderColumns:
    """One behind the other."""
    return HeaderColumns.concatenate(parts)
