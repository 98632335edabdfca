"""What a recording lacks that a table was made of."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """``lost`` events, None where the format does not tell; ``damage`` says what was not read, None where nothing was wrong."""

    lost: int | None = 0
    damage: str | None = None

    def to_json(self) -> dict[str, int | str | None]:
        """By the names of the fields."""
        return {"lost": self.lost, "damage": self.damage}

    def __str__(self) -> str:
        lost = (
            "the format does not tell whether events were lost"
            if self.lost is None
            else f"{self.lost:,} events were lost"
        )
        return "; ".join([*([lost] if self.lost != 0 else []), *([self.damage] if self.damage else [])])


NONE = Losses()
