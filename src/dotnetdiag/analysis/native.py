"""What a recording of NativeAOT has nothing of, whatever is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotnetdiag.trace.trace import Trace

NO_SAMPLER = "NativeAOT has no sample profiler, which takes the stacks"
NO_COMPILER = "NativeAOT compiles nothing at run time"
NO_LOADER = "NativeAOT tells nothing of its start: it loads no assemblies and compiles nothing at run time"
NEVER = frozenset({NO_SAMPLER, NO_COMPILER, NO_LOADER})
"""Why there is nothing that could be recorded."""


def is_of_native(trace: Trace) -> bool:
    """Whether it says of its process what NativeAOT says: who it is, but neither its runtime nor the number of processors."""
    found = trace.processes
    return bool(found) and all(one.os and one.runtime is None and one.processors is None for one in found)


def native_of(trace: Trace) -> Callable[[], bool]:
    """The same, for a fold that asks when all has been read."""
    return lambda: is_of_native(trace)
