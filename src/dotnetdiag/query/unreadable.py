"""Recordings that cannot be opened: an error, or passed over and told. What opens one does so in the block of :meth:`Unreadable.told`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import FormatError, InputError

SKIPPABLE = "skip_unreadable=True passes over it"
"""The note of the error that ends the reading of several recordings for one."""
NAMED = 10
"""Recordings that notes name: of thousands nobody reads more."""
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What a task gives instead of an answer where it has passed over its recording: the ``name`` of that, and what was wrong."""

    name: str
    reason: str


class Unreadable:
    """What becomes of recordings that cannot be opened. For several threads.

    ``skipped``: what was wrong with each that was passed over, by its name. It is passed over from then on, even if it can be opened again: what
    was asked before did not see it. Pickled, it goes without these: each process finds its own.
    """

    def __init__(self, asked: int = 1, skips: bool = False) -> None:
        """``asked`` is how many recordings there are. ``skips``: they are passed over."""
        self._asked, self._skips = asked, skips
        self.skipped: dict[str, str] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Unreadable, (self._asked, self._skips)

    @contextmanager
    def told(self, name: str) -> Iterator[None]:
        """A block that opens the recording of a name. Its InputError or FormatError goes no further where recordings are passed over; raises
        InputError where it was the last.
        """
        try:
            yield
        except (InputError, FormatError) as error:
            if not self._skips:
                if self._asked > 1:
                    error.add_note(SKIPPABLE)
                raise
            self.skipped[name] = str(error)
            self.require_some()

    def answers(self, found: Iterable[_T | Skipped]) -> list[_T]:
        """What tasks gave, wherever they ran, without the recordings that they have passed over, which are remembered. Raises as ``told``."""
        made: list[_T] = []
        for one in found:
            if isinstance(one, Skipped):
                self.skipped[one.name] = one.reason
            else:
                made.append(one)
        self.require_some()
        return made

    def require_some(self) -> None:
        """Raises InputError, of the first that was passed over, where all were."""
        if not self.skipped or len(self.skipped) < self._asked:
            return
        name, reason = next(iter(self.skipped.items()))
        more = f"; none of the {self._asked:,} recordings can be read" if self._asked > 1 else ""
        raise InputError(name, reason.removeprefix(f"{name}: ") + more)

    @property
    def notes(self) -> tuple[str, ...]:
        """A sentence for each of the first :data:`NAMED` that were passed over, and one that counts the others."""
        reasons = list(self.skipped.values())
        more = len(reasons) - NAMED
        named = [f"{reason}; it was skipped" for reason in reasons[:NAMED]]
        return (*named, *([f"and {more:,} more that cannot be read were skipped"] if more > 0 else ()))
