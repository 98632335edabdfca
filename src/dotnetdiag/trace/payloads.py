"""Where the payloads of some events are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class Payloads(NamedTuple):
    """Where payloads are in the trace's buffer, and their bytes."""

    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.uint32]

    @classmethod
    def concatenate(cls, parts: Sequence[Payloads]) -> Payloads:
        """One after another."""
        return cls(*(np.concatenate(columns) for columns in zip(_NONE, *parts, strict=True)))


_NONE = Payloads(np.zeros(0, np.int64), np.zeros(0, np.uint32))
