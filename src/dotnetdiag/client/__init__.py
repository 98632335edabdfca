"""Talk to a runtime: one method per operation, one connection each; sessions as byte streams.

May import ``errors``, ``ipc`` and ``transport``. Never ``nettrace`` or ``events``. ``client.aio`` has the asyncio twins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dotnetdiag._lazy import loader
from dotnetdiag.client.client import Client

__getattr__ = loader(globals(), {"TraceSession": "session"})  # a list of processes needs no sessions

if TYPE_CHECKING:
    from dotnetdiag.client.session import TraceSession

__all__ = ["Client", "TraceSession"]
