"""How much more something may be than it was."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much more is allowed: in the unit of what is compared, or in percent of the first one's total."""

    amount: float
    percent: bool

    def of(self, total: float) -> float:
        """The amount in the unit."""
        return total * self.amount / 100 if self.percent else self.amount
