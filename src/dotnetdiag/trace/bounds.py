"""Whose events and addresses are, and when: what stands for all processes, for the kernel, for all of the time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from dotnetdiag.nettrace import ThreadInfo

Array: TypeAlias = "np.ndarray[Any, Any]"

ALWAYS = -1 << 63
"""Begins before the trace."""
FOREVER = (1 << 63) - 1
"""Does not end within the trace."""

KERNEL_START = 1 << 63
"""Addresses from here on are the kernel's, the same in every process."""
KERNEL = -1
"""Whose the kernel's addresses are."""
ANY_PROCESS = 0
"""The process of a file that has but one."""


def process_ids(threads: Mapping[int, ThreadInfo], thread: Array) -> Array | None:
    """The process of each event (i64, 0 where it is not known) from its ``thread`` column; None in files that have but
    one process, which are those without thread rows.
    """
    if not threads:
        return None
    infos = sorted(threads.values(), key=lambda info: info.index)
    indices = np.array([info.index for info in infos], np.uint64)
    processes = np.array([min(info.process_id or 0, FOREVER) for info in infos], np.int64)
    place = np.minimum(np.searchsorted(indices, thread), len(indices) - 1)
    found: Array = np.where(indices[place] == thread, processes[place], 0)
    return found
