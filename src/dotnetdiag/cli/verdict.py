"""What a verb ends with that judges, also where nobody reads what it says: ``… --fail-above 5% | head -1``."""

from __future__ import annotations

_settled = 0


def settle(code: int) -> None:
    """From now on the verb ends with this code when its output is not taken any more."""
    global _settled
    _settled = code


def settled() -> int:
    """The code, 0 where nothing was judged."""
    return _settled
