"""What verbs that only read files do before numpy is loaded."""

from __future__ import annotations

import gc
import os

_OBJECTS = 100_000


def be_lean() -> None:
    """No threads for linear algebra, of which there is none here: they spin for a while when they are born, which was
    100 of the 500 ms of processor time of a report. Not for verbs that start programs, which would inherit it.

    And Python's collector looks for garbage after :data:`_OBJECTS` more objects, not after 700: what is loaded and made here stays, and to look at
    all of it again and again was 8 of a short report's 150 ms.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(_OBJECTS)
