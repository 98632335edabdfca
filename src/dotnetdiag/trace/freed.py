"""What was freed goes back to the system."""

from __future__ import annotations

import sys


def give_back_freed() -> None:
    """For who has made something large, and goes on to the next. The C library keeps pages that were freed between others which are not: 80 of the
    187 MB of a report on 30,000 requests, when it was made. With glibc alone; others give back by themselves, or have no such function.
    """
    if sys.platform != "linux":
        return
    import ctypes  # which numpy has loaded

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
