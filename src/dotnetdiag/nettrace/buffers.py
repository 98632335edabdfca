"""Bytes as callers hand them in."""

from __future__ import annotations

import mmap
import os
import weakref
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


class MappedFile(mmap.mmap):
    """A file in memory, which stays open: of what is looked at in few places these can be read, which takes less than pages that are mapped."""

    descriptor = -1

    @classmethod
    def of(cls, file: int, **options: Any) -> MappedFile:
        """All of an open file. Its descriptor stays the caller's."""
        made = cls(file, 0, **options)
        made.descriptor = os.dup(file)
        weakref.finalize(made, os.close, made.descriptor).atexit = False
        return made


def descriptor_of(view: memoryview) -> int:
    """That of the file which these bytes are from its begin on; -1 where they are anything else."""
    mapped = view.obj
    return mapped.descriptor if isinstance(mapped, MappedFile) and len(view) == len(mapped) else -1
