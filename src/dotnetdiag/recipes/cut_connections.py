"""Connections of requests that somebody else can end: its own time limit is that of each piece which comes, so that a peer that drips holds a request
for as long as it likes.
"""

from __future__ import annotations

import socket
from contextlib import AbstractContextManager, suppress
from typing import Any
from weakref import WeakSet

from requests.adapters import HTTPAdapter

from dotnetdiag.recipes.timed import called_after


class CutAdapter(HTTPAdapter):
    """For one thread that sends; :meth:`cut` is for others."""

    def __init__(self) -> None:
        self._opened: WeakSet[Any] = WeakSet()
        self._is_over = False
        super().__init__()

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """As it says, with connections that are known here."""
        super().init_poolmanager(*args, **kwargs)
        self._know(self.poolmanager)

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """The same."""
        manager = super().proxy_manager_for(*args, **kwargs)
        self._know(manager)
        return manager

    def end(self) -> None:
        """Cut what is under way, and connect no more."""
        self._is_over = True
        self.cut()

    def cut(self) -> None:
        """End what is under way, in both directions. Who waits for it gets an error."""
        for connection in list(self._opened):
            sock = getattr(connection, "sock", None)
            if isinstance(sock, socket.socket):
                with suppress(OSError):
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)  # past TLS, of which another thread is in the middle

    def limited(self, seconds: float) -> AbstractContextManager[None]:
        """What is under way in the block for longer is cut."""
        return called_after(seconds, self.cut)

    def _know(self, manager: Any) -> None:
        adapter = self

        def known(pool: Any) -> Any:
            if getattr(pool.ConnectionCls, "is_known", False):
                return pool

            class Connection(pool.ConnectionCls):  # type: ignore[misc]
                is_known = True

                def connect(self) -> None:
                    adapter._opened.add(self)
                    if not adapter._is_over:  # else this is another try, of a request that was cut
                        super().connect()
                    if adapter._is_over:  # or the end has come meanwhile
                        self.close()
                        raise ConnectionAbortedError("closed")

            return type(pool.__name__, (pool,), {"ConnectionCls": Connection})

        manager.pool_classes_by_scheme = {
            scheme: known(pool) for scheme, pool in manager.pool_classes_by_scheme.items()
        }
