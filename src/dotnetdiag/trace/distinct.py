"""Different values of an array."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


def distinct(values: Array) -> Array:
    """They, ascending. ``numpy.unique`` of numpy 2.3 loads ``numpy.ma`` for this, which takes 11 ms of a report's 400."""
    ordered: Array = np.sort(values, axis=None)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) > 1 else ordered
