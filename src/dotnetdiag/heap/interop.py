"""Rows of COM objects, as they stand in a ``.gcdump``."""

from __future__ import annotations

import numpy as np

RCW = np.dtype(
    [
        ("node", "<i4"), ("refcount", "<i4"), ("unknown", "<u8"), ("jupiter", "<u8"), ("vtable", "<u8"),
        ("first_interface", "<i4"), ("interfaces", "<i4"),
    ]
)  # fmt: skip
CCW = np.dtype(
    [
        ("node", "<i4"), ("refcount", "<i4"), ("unknown", "<u8"), ("handle", "<u8"),
        ("first_interface", "<i4"), ("interfaces", "<i4"),
    ]
)  # fmt: skip
INTERFACE = np.dtype(
    [
        ("is_rcw", "u1"), ("owner", "<i4"), ("type", "<i4"), ("interface", "<u8"), ("vtable", "<u8"),
        ("first_function", "<u8"),
    ]
)  # fmt: skip
"""Rows of InteropInfo as they stand in a ``.gcdump`` (gcdump.md §2)."""
