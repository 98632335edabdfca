"""What verbs that only read files do before numpy is loaded."""

from __future__ import annotations

import os


def lean_numpy() -> None:
    """No threads for linear algebra, of which there is none here: they spin for a while when they are born, which was
    100 of the 500 ms of processor time of a report. Not for verbs that start programs, which would inherit it.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
