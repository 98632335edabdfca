"""Rows of COM objects, as they stand in a ``.gcdump``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from dotnetdiag.trace.distinct import distinct, is_among

if TYPE_CHECKING:
    from dotnetdiag.heap.facts import Interop

Array: TypeAlias = "np.ndarray[Any, Any]"

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


def without_interfaces(addresses: Array, interop: Interop | None) -> int:
    """How many of the addresses without a record are of objects, which are lost then: an interface of a COM object is native memory."""
    found = addresses[addresses != 0]
    if interop is not None:
        found = found[~is_among(found, distinct(interop.rcws["unknown"]))]
    return len(found)
