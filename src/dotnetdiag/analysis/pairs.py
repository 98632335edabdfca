"""What begins and ends: which stop is of which start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"


def pairs(start_ms: Array, start_keys: Sequence[Array], stop_ms: Array, stop_keys: Sequence[Array]) -> Array:
    """Of each start the row of its stop, -1 where there is none: of those with equal keys (columns of numbers), a stop ends the start that came
    last and is still open. Where a start and a stop have one time, the start is first.
    """
    codes = np.zeros(len(start_ms) + len(stop_ms), np.int64)
    for columns in zip(start_keys, stop_keys, strict=True):
        codes = combined_codes(codes, np.concatenate(columns))
    is_stop = np.arange(len(codes)) >= len(start_ms)
    return nested(codes, np.lexsort((is_stop, np.concatenate([start_ms, stop_ms]), codes)), len(start_ms))


def combined_codes(codes: Array, column: Array) -> Array:
    """A number for each combination of a code and a value of the column."""
    which = np.unique(column, return_inverse=True)[1].reshape(-1)
    both = codes * (int(which.max(initial=0)) + 1) + which
    return np.unique(both, return_inverse=True)[1].reshape(-1).astype(np.int64)


def nested(codes: Array, order: Array, starts: int) -> Array:
    """The same, of codes of starts and the stops behind them, and their order: by code and then by time.

    Of one code, a stop ends what is open at its depth: sorted by code, depth and time, a start stands in front of its stop.
    """
    made = np.full(starts, -1)
    if not starts or starts == len(codes):
        return made
    code, is_stop = codes[order], order >= starts
    # a stop that nothing is open for goes below all depths before it: no start is in front of it at its own
    level = np.cumsum(np.where(is_stop, -1, 1)) + is_stop
    by = np.lexsort((np.arange(len(code)), level, code))
    code, level, is_stop, rows = code[by], level[by], is_stop[by], order[by]
    follows = ~is_stop[:-1] & is_stop[1:] & (code[1:] == code[:-1]) & (level[1:] == level[:-1])
    at = np.flatnonzero(follows)
    made[rows[at]] = rows[at + 1] - starts
    return made
