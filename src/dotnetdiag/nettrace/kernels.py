"""Which form of the loops over events is in use: compiled (``_kernels.pyx``), or numpy and Python (``fallback.py``).

``COMPILED`` says it.
"""

from __future__ import annotations

import sys
from types import ModuleType

NO_PROBLEM, BROKEN_HEADER, CUT_PAYLOAD, BAD_SIZE = range(4)
"""What can be wrong with an event."""


def _compiled() -> ModuleType | None:
    try:
        from dotnetdiag.nettrace import _kernels
    except ImportError:
        return None
    return _kernels if sys.byteorder == "little" else None


KERNELS: ModuleType | None = _compiled()
"""The compiled module, or None."""
COMPILED = KERNELS is not None
FREED_BYTES, MOST_FREED_BYTES = 32 << 20, 96 << 20
MUCH_BYTES = 80 << 20


def say_when_cut(path: str, code: int) -> None:
    """From now on it is said when a mapped file, of which this is the latest, is cut while it is read, and the process ends with a code: the system
    sends SIGBUS then, of which Python's own handlers never hear. Only the compiled module can.
    """
    if KERNELS is not None:
        text = f"error: {path}: it was cut while it was read, or its disk failed; read a copy of it\n"
        KERNELS.say_on_bus_error(text.encode("utf-8", "backslashreplace"), code)


def keep_freed() -> None:
    """Memory up to :data:`FREED_BYTES` apiece that was freed is used again, for processes of which the next array is as large as the last. By itself
    the C library gives each back to the system, which has it filled with zeros again, page by page: a fifth of the pages of a report on 80 MB, and 2
    to 7 % of its time, for 0.6 MB more at its peak. Of glibc alone, and only by the compiled module.
    """
    if KERNELS is not None:
        KERNELS.keep_freed(FREED_BYTES, MOST_FREED_BYTES)


def let_go(data: memoryview, start: int, end: int) -> bool:
    """Take pages of a mapped file, of nothing else, out of this process, from where one begins on: false where nothing does. Others go on meanwhile,
    which they do not beside ``mmap.madvise``.
    """
    if KERNELS is None:
        return False
    KERNELS.let_go(data, start, end)
    return True


def give_back_freed() -> None:
    """What was freed goes back to the system: for who has made something large, and goes on to the next. The C library keeps pages that were freed
    between others which are not: 80 of the 187 MB of a report on 30,000 requests, when it was made. Of glibc alone; others give back by themselves,
    or have no such function. Only the compiled module can. Nothing while :data:`MUCH_BYTES` are not resident: what is given back comes again page by
    page, 2,500 of 17,000 of a report on 20,000 collections.
    """
    if KERNELS is not None:
        KERNELS.give_back_freed(MUCH_BYTES)
