"""The names of a runtime's methods while a session goes on: from a second, short session, whose end tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.nettrace import Contents, read
from dotnetdiag.nettrace.appending import appended_blocks
from dotnetdiag.nettrace.part import Part
from dotnetdiag.providers.keywords import CLR_PROVIDER
from dotnetdiag.recipes.live_names import end_of, short_session

if TYPE_CHECKING:
    from dotnetdiag.client import Client, TraceSession

PROVIDER = f"{CLR_PROVIDER}:0x8:1"
"""A session records something; of this there are hardly any events."""


class Rundown:
    """Takes rundowns of one runtime, one at a time; ``end`` ends the one that is taken and all later ones."""

    def __init__(self, client: Client, *, keyword: int, fallback: int | None) -> None:
        self._client, self._keyword, self._fallback = client, keyword, fallback
        self._session: TraceSession | None = None
        self._has_ended = False

    @property
    def is_wanted(self) -> bool:
        """Whether there is anything to take."""
        return self._keyword != 0

    def take(self) -> Contents | None:
        """What the runtime tells now; None when none is wanted. Raises DiagnosticsError, as when the runtime has gone."""
        if not self.is_wanted or self._has_ended:
            return None
        with short_session(
            self._client, PROVIDER, rundown_keyword=self._keyword, rundown_fallback=self._fallback
        ) as session:
            self._session = session
            try:
                return read(end_of(session))
            finally:
                self._session = None

    def end(self) -> None:
        """From any thread."""
        self._has_ended = True
        if (session := self._session) is not None:
            session.abort()


def append_names(part: Part, contents: Contents, *, largest_id: int) -> None:
    """Write a rundown behind a part of the session of the same runtime. Raises DiagnosticsError."""
    numbers = part.last_numbers()
    for block in appended_blocks(contents, largest_id=largest_id, numbers={} if numbers is None else numbers.live):
        part.write(block)


def take_or_problem(rundown: Rundown) -> tuple[Contents | None, str | None]:
    """A rundown, or why there is none, in one line."""
    try:
        contents = rundown.take()
    except DiagnosticsError as error:
        return None, str(error)
    if contents is None:
        return None, None
    return contents, None if contents.complete else contents.damage
