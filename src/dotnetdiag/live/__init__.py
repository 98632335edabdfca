"""The one joint of the two towers: the bytes of a running session → events, while they arrive.

A thread reads and decodes, and keeps up with the runtime; whoever looks at the events takes his time, and is told what
he missed. May import ``errors``, ``client``, ``nettrace``, ``events`` and ``trace``; never ``analysis`` or ``export``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader

_PUBLIC = {"Account": "account", "LiveEvents": "events", "LiveSymbols": "symbols"}
__getattr__ = loader(globals(), _PUBLIC)

if TYPE_CHECKING:
    from dotnetdiag.live.account import Account
    from dotnetdiag.live.events import LiveEvents
    from dotnetdiag.live.symbols import LiveSymbols

__all__ = ["Account", "LiveEvents", "LiveSymbols"]
