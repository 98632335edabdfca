"""The names of what a runtime compiled before a session: from a second, short one, whose rundown tells them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.providers.keywords import CLR_PROVIDER
from dotnetdiag.trace.trace import Trace

if TYPE_CHECKING:
    from dotnetdiag.client import Client
    from dotnetdiag.live.symbols import LiveSymbols

RUNDOWN_KEYWORD = 0x38
RUNDOWN_FALLBACK = 0x80020139
"""Of runtimes that take no keyword of one's own."""
RUNDOWN_BYTES = 1 << 30


def read_names(client: Client, symbols: LiveSymbols) -> str | None:
    """Add to ``symbols`` what a short session tells at its end. Returns what went wrong, None when nothing did."""
    kept = bytearray()
    try:
        with client.trace(
            f"{CLR_PROVIDER}:0x8:1", rundown_keyword=RUNDOWN_KEYWORD, rundown_fallback=RUNDOWN_FALLBACK
        ) as session:
            session.stop()
            for data in session:
                kept += data
                if len(kept) > RUNDOWN_BYTES:
                    return f"the runtime tells more than {RUNDOWN_BYTES} bytes of them"
        symbols.add_rundown(Trace(bytes(kept)))
    except DiagnosticsError as error:
        return str(error)
    return None
