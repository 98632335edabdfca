"""Sizes as people type them: ``100MB`` and ``1.5GB`` by thousands, as sizes are printed, ``100MiB`` by 1,024."""

from __future__ import annotations

import re

from dotnetdiag.errors import GrammarError, UsageError

_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)\s*$", re.IGNORECASE | re.ASCII)


def size_bytes_of(size: int | str, what: str = "size") -> int:
    """Bytes of a number of them or of a text. Raises GrammarError, UsageError for less than one; ``what`` it is stands in errors."""
    if isinstance(size, str):
        found = _SIZE.match(size)
        if found is None:
            raise GrammarError(what, size, 0, "write 100MB, 1.5GB or 64MiB")
        unit = found[2].lower()
        if unit not in _UNITS:
            raise GrammarError(what, size, found.start(2), f"no unit {found[2]!r}: write 100MB, 1.5GB or 64MiB")
        size_bytes = int(float(found[1]) * _UNITS[unit])
    else:
        size_bytes = size
    if size_bytes < 1:
        raise UsageError(
            f"a {what} of {size} bytes: must be 1 or more"
            if isinstance(size, int)
            else f"a {what} of {size}: must be more"
        )
    return size_bytes
