"""Short sessions beside others, and the names of what a runtime compiled before: the rundown of such a session tells them."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from dotnetdiag.client.limits import SHORT_DRAIN_TIMEOUT_S, SHORT_SILENCE_S
from dotnetdiag.errors import DiagnosticsError, TimedOut
from dotnetdiag.providers.keywords import CLR_PROVIDER

if TYPE_CHECKING:
    from dotnetdiag.client import Client, TraceSession
    from dotnetdiag.live.symbols import LiveSymbols

RUNDOWN_KEYWORD = 0x38
RUNDOWN_FALLBACK = 0x80020139
"""Of runtimes that take no keyword of one's own."""
SHORT_SESSION_BYTES = 256 << 20
"""More than that no rundown needs: 1 million methods are about as much."""


def short_session(
    client: Client, providers: str, *, rundown_keyword: int, rundown_fallback: int | None = RUNDOWN_FALLBACK
) -> TraceSession:
    """A session that is stopped as soon as it has what is wanted: all that comes then has to come soon, see :func:`end_of`."""
    return client.trace(
        providers,
        rundown_keyword=rundown_keyword,
        rundown_fallback=rundown_fallback,
        drain_timeout_s=SHORT_DRAIN_TIMEOUT_S,
    )


def end_of(session: TraceSession) -> bytes:
    """Stop a short session: all that it sent. Raises TimedOut for one that does not end (``SHORT_SILENCE_S``, ``SHORT_DRAIN_TIMEOUT_S``),
    DiagnosticsError for one that sends more than ``SHORT_SESSION_BYTES``; it is left then, and to close it takes no time.
    """
    session.stop()
    kept = io.BytesIO()  # gives what it has without a copy
    try:
        while data := session.read(timeout_s=SHORT_SILENCE_S):
            if kept.tell() + len(data) > SHORT_SESSION_BYTES:
                raise DiagnosticsError(f"the target sends more than {SHORT_SESSION_BYTES >> 20} MB for a short session")
            kept.write(data)
    except DiagnosticsError as error:
        session.abort()
        if isinstance(error, TimedOut) and session.problem is None:
            raise TimedOut("the target did not end a short session: nothing came", timeout_s=SHORT_SILENCE_S) from error
        raise
    return kept.getvalue()


def read_names(client: Client, symbols: LiveSymbols) -> str | None:
    """Add to ``symbols`` what a short session tells at its end. Returns what went wrong, None when nothing did: then it is over soon, too, and
    ``symbols`` are as they were.
    """
    from dotnetdiag.trace.trace import Trace

    try:
        with short_session(client, f"{CLR_PROVIDER}:0x8:1", rundown_keyword=RUNDOWN_KEYWORD) as session:
            told = end_of(session)
        symbols.add_rundown(Trace(told))
    except DiagnosticsError as error:
        return str(error)
    return None
