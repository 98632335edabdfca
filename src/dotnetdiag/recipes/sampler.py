"""Which runtimes have no sample profiler: NativeAOT, of a process or as a recording shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace

NO_SAMPLER = "NativeAOT has no sample profiler, which takes the stacks"


def has_no_sampler(pid: int | None) -> bool:
    """Whether the process is known to be NativeAOT."""
    from dotnetdiag.transport.diagnosis import kind_of  # a millisecond that others need not wait for

    return pid is not None and kind_of(pid).native


def is_of_native(trace: Trace) -> bool:
    """Whether it says of its process what NativeAOT says: who it is, but neither its runtime nor the number of processors."""
    found = trace.processes
    return bool(found) and all(one.os and one.runtime is None and one.processors is None for one in found)
