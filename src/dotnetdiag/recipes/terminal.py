"""What is typed at the terminal that standard input is."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator

LOOK_S = 0.2


def typed(ended: Callable[[], bool]) -> Iterator[bytes]:
    """What is typed, as it comes, until ``ended`` or the terminal has gone. Read without Python's lock on stdin, which would hang the
    interpreter's end. What is typed while we are in the background is left to whom it is meant for: to read it would stop us (SIGTTIN).
    """
    try:
        while not ended():
            if _is_in_background():
                time.sleep(LOOK_S)
            elif select.select([0], [], [], LOOK_S)[0]:
                if not (data := os.read(0, 4096)):
                    return
                yield data
    except OSError:
        pass  # the terminal has gone


def _is_in_background() -> bool:
    try:
        return os.tcgetpgrp(0) != os.getpgrp()
    except OSError:  # not the terminal that controls us: it may be read
        return False
