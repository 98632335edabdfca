"""What a reader has to say of a file's health: damage, oddities, blocks that it does not know."""

from __future__ import annotations

from collections import Counter

from dotnetdiag.errors import FormatError
from dotnetdiag.nettrace.constants import WARNINGS_LIMIT


class Remarks:
    """``error`` is the first damage in the file; ``skipped`` counts blocks of unknown kinds by name."""

    def __init__(self) -> None:
        self.error: FormatError | None = None
        self.skipped: Counter[str] = Counter()
        self._oddities: dict[str, tuple[int, int, str]] = {}

    def stopped(self, error: FormatError) -> None:
        """The containers cannot be followed any more, or end too early."""
        error.__traceback__ = error.__context__ = None  # they hold the bytes that were read
        if self.error is None or (error.offset or 0) < (self.error.offset or 0):
            self.error = error

    def add_damage(self, error: FormatError) -> None:
        """Something in a block is broken; the first place in the file counts."""
        self.stopped(error)
        self.warn(f"damaged {error.where.split(' at ')[0]}" if error.where else "damaged", error.offset or 0)

    def warn(self, text: str, offset: int, count: int = 1, detail: str = "") -> None:
        """Something is odd: counted, with the first place and what is said of that first."""
        if text in self._oddities or len(self._oddities) < WARNINGS_LIMIT:
            seen, first, said = self._oddities.get(text, (0, offset, detail))
            at, told = (first, said or detail) if first == offset else min((first, said), (offset, detail))
            self._oddities[text] = seen + count, at, told

    def skip(self, name: str) -> None:
        """A block of that name was passed over."""
        named = name in self.skipped or len(self.skipped) < WARNINGS_LIMIT
        self.skipped[name if named else "others"] += 1

    @property
    def warnings(self) -> list[str]:
        """One line for each kind of oddity, with how often and where first."""
        found = sorted(self._oddities.items(), key=lambda item: (item[1][1], item[0]))
        return [f"{text}: {count}, first at 0x{first:x}{said}" for text, (count, first, said) in found]
