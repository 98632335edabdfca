"""Bytes as callers hand them in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Buffer: TypeAlias = "bytes | bytearray | memoryview | npt.NDArray[np.uint8]"


def flat_view(buffer: Any) -> memoryview:
    """The bytes of anything that supports the buffer protocol, whatever its items are; not copied.

    UsageError for what does not, and for bytes that do not follow each other.
    """
    try:
        view = memoryview(buffer)
    except TypeError:
        raise UsageError(f"bytes are needed, not {type(buffer).__name__}") from None
    if view.format == "B" and view.ndim == 1 and view.contiguous:
        return view
    if not view.c_contiguous:
        raise UsageError("the bytes of the buffer do not follow each other")
    return view.cast("B") if view.nbytes else memoryview(b"")  # what is empty cannot be cast
