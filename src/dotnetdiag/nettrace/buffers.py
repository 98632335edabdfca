"""Bytes as callers hand them in."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Callable
from contextlib import suppress
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
    """A file in memory. Of what is looked at in few places these can be read from it, which takes less than pages that are mapped: ``opening`` gives
    a descriptor for that, and raises OSError where the file is not there any more.
    """

    opening: Callable[[], int] | None = None
    _descriptor = -1
    _closing: weakref.finalize[Any, Any] | None = None

    @property
    def descriptor(self) -> int:
        """Of the file, open until it is :meth:`looked_through`: a program may have a thousand recordings open. -1 where there is none."""
        if self.opening is not None:
            opening, self.opening = self.opening, None
            with suppress(OSError):
                self._descriptor = opening()
                self._closing = weakref.finalize(self, os.close, self._descriptor)
                self._closing.atexit = False
        return self._descriptor

    def looked_through(self) -> None:
        """The places are known."""
        self.opening, self._descriptor = None, -1
        if self._closing is not None:
            self._closing()


def descriptor_of(view: memoryview) -> int:
    """That of the file which these bytes are from its begin on; -1 where they are anything else."""
    mapped = view.obj
    return mapped.descriptor if isinstance(mapped, MappedFile) and len(view) == len(mapped) else -1
