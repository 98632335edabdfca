"""Talk to a runtime: one method per operation, one connection each; sessions as byte streams.

May import ``errors``, ``ipc`` and ``transport``. Never ``nettrace`` or ``events``. ``client.aio`` has the asyncio twins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dotnetdiag.client.client import Client

if TYPE_CHECKING:
    from dotnetdiag.client.session import TraceSession

__all__ = ["Client", "TraceSession"]


def __getattr__(name: str) -> Any:
    if name == "TraceSession":  # a list of processes needs no sessions
        from dotnetdiag.client.session import TraceSession

        return TraceSession
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
