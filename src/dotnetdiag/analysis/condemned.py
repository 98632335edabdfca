"""Why a collection was of its generation: what the collector itself writes down (dotnet/runtime, gcrecord.h), in words.

Of CondemnReasons0 each two bits are a generation, which a reason wanted: the budget of allocations, or the time since the last one. Of
CondemnReasons1 each bit is a condition. Of a young generation that was asked for nothing is written down: the collection's own reason tells it.
"""

from __future__ import annotations

_WANTED = {2: "budget", 3: "time"}
"""By the place of two bits: which generation was over its budget, or had not been collected for long. (0 and 1: what came of it, before and
behind.)
"""
_CONDITIONS = (
    "induced", "heap had to grow", "high memory", "very high memory", "low on young space", "cards inefficient",
    "young fragmented", "gen2 fragmented",
    "gen2 fragmented", "gen2 fragmented, high memory", "gen2 fragmented, very high memory", "gen1 at most", "before out of memory", "gen2 too small",
    "induced, not forced", "before one in the background", "almost all allocated", "unproductive avoided", "provisional mode, induced",
    "provisional mode, large objects", "provisional mode, gen1", "hard limit, out of memory", "hard limit, large objects fragmented",
    "hard limit, large objects", "servo, initial", "servo", "servo, background", "servo, postponed", "stress", "stress", "aggressive",
)  # fmt: skip


INDUCED = (1, 7, 9, 10, 17)
"""Reasons of GC/Start of collections that somebody asked for."""


def condemned(reasons: int, conditions: int, *, is_induced: bool = False) -> str:
    """The words of both fields, joined by ``+``; where nothing was written down ``induced`` of a collection that was asked for, else empty."""
    words = [f"{name} of gen{reasons >> 2 * place & 3}" for place, name in _WANTED.items() if reasons >> 2 * place & 3]
    words += [name for bit, name in enumerate(_CONDITIONS) if conditions >> bit & 1]
    return " + ".join(dict.fromkeys(words)) or (_CONDITIONS[0] if is_induced else "")
