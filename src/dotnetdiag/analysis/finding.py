"""One thing that stands out in a recording, and what all that look for such things share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass

if TYPE_CHECKING:
    from dotnetdiag.table import Table

LEAST = 1.0
"""Per cent of the time."""
SOME = 5.0
"""The severity of what costs no time that can be told, and is wrong all the same."""
DEADLOCK = 100.0
"""The severity of threads that wait for each other: they will for ever."""
WAITED_MS = 20.0
_LONGEST = 80
"""Characters that are quoted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that stands out. ``severity``: per cent of the time of the recording that it costs, about; ``question``: the kind of report that has
    more of it; ``text``: a sentence.
    """

    severity: float
    question: str
    text: str


def begin_of(text: str) -> str:
    """What is quoted of a text that may have many lines, which says when it goes on."""
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[:_LONGEST].rstrip()}…"


def times(count: int) -> str:
    """So often."""
    return "once" if count == 1 else f"{count:,} times"


def share_of(ms: float, seconds: float) -> float:
    """Per cent of what was recorded; at most all of it."""
    return min(100.0, ms / seconds / 10) if seconds else 0.0


def of_all(rows: Table, method: str, name: str) -> float:
    """A column of the rows of one method together, of which several processes have one each."""
    values = zip(rows.values("method"), rows.values(name), strict=True)
    return float(sum(value for one, value in values if one == method))
