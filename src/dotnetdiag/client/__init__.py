"""Talk to a runtime: one method per operation, one connection each; sessions as byte streams.

May import ``errors``, ``ipc`` and ``transport``. Never ``nettrace`` or ``events``.
"""

from dotnetdiag.client.client import Client
from dotnetdiag.client.session import TraceSession

__all__ = ["Client", "TraceSession"]
