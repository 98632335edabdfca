"""Where every event of a session went."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """Of the events that threads of the target wrote to the session so far: ``shown`` passed all filters and were given
    out, ``filtered`` did not pass, ``missed_here`` came and were dropped because nobody took them in time, ``left`` came
    when the caller had enough (a limit, or he closed the session), ``naming`` ones, of the runtime's rundown, gave methods their names.

    ``missed_in_target`` never came: the runtime's buffers were full (from sequence numbers; None where the format has
    none). When the stream has ended, all together are those that were written. One case the stream does not tell: a
    thread that ends while its events are being lost may take the count of its last ones with it (seen in one of 80
    floods on .NET 10).
    """

    shown: int = 0
    filtered: int = 0
    missed_here: int = 0
    missed_in_target: int | None = 0
    left: int = 0
    naming: int = 0

    @property
    def written(self) -> int | None:
        """All of them together; None where it is not known."""
        if self.missed_in_target is None:
            return None
        return self.shown + self.filtered + self.missed_here + self.missed_in_target + self.left + self.naming
