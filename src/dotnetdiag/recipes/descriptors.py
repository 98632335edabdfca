"""As many descriptors as this process may have: each runtime that is waited for, recorded or routed takes some."""

from __future__ import annotations

import sys
from contextlib import suppress


def raise_limit() -> None:
    """The soft limit of open files becomes the hard one, as a .NET runtime does it at its start. For programs, not for a library's caller."""
    if sys.platform == "win32":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):  # macOS has another limit below that
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
