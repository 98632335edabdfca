"""How providers write events into sessions."""

from __future__ import annotations

from typing import Protocol


class Write(Protocol):
    """Puts one event of one type into one session. From any thread, and while another is being written; never raises."""

    def __call__(
        self,
        payload: bytes,
        activity: bytes = b"",
        related: bytes = b"",
        stack: bytes = b"",
        thread: int = 0,
        /,
    ) -> None:
        """``activity`` and ``related`` are 16 bytes in .NET order, ``stack`` addresses of 8 bytes (leaf first), ``thread`` the OS thread that
        the event is about where that is not the one that writes.
        """
