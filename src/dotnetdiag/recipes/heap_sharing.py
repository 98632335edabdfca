"""Work on large heaps, shared by the caller's thread and another."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from dotnetdiag.heap.sharing import Shared, by_oneself

MANY_OBJECTS = 1 << 18
"""So many are worth a thread."""


@contextmanager
def shared_by_two(objects: int) -> Iterator[Shared]:
    """What shares the work on a heap of so many objects, within the block: by two threads, where there are many and another processor."""
    if objects < MANY_OBJECTS or (os.cpu_count() or 1) < 2:
        yield by_oneself
        return
    from concurrent.futures import ThreadPoolExecutor

    from dotnetdiag.nettrace.parallel import in_order

    with ThreadPoolExecutor(1) as pool:
        shared: Shared = partial(in_order, executor=pool)
        try:
            pool.submit(int)  # makes the thread
        except RuntimeError:  # the system gives this program no more of them
            shared = by_oneself
        yield shared
