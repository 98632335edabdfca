"""What a recording of some runtimes has nothing of, whatever is recorded: NativeAOT, and .NET 9 of what its sampler does not tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass, replace

if TYPE_CHECKING:
    from dotnetdiag.analysis.profile import Array
    from dotnetdiag.trace.process import ProcessDetails
    from dotnetdiag.trace.trace import Trace

NO_SAMPLER = "NativeAOT has no sample profiler, which takes the stacks"
NO_COMPILER = "NativeAOT compiles nothing at run time"
NO_LOADER = "NativeAOT tells nothing of its start: it loads no assemblies and compiles nothing at run time"
NO_STATES = "the sampler of .NET 9 does not tell which threads ran and which waited"
NEVER = frozenset({NO_SAMPLER, NO_COMPILER, NO_LOADER, NO_STATES})
"""Why there is nothing that could be recorded."""
FEW_RAN, SO_FEW = 0.05, 20
"""A sampler that tells no states says of as few that they ran: of 200 samples it was seen to say it of two."""
_RAN = 1
"""``State.CPU``."""
UNTOLD_VERSION = "9."
"""The sampler of .NET 9 says of nearly all threads that they are in native code, whatever they do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuntimeFacts:
    """What is known of the runtime that was recorded."""

    is_native: bool = False
    tells_states: bool = True
    """Whether its sampler says which threads run; of several runtimes, whether that of one does."""
    untold: frozenset[int | None] = frozenset()
    """Of several the processes whose sampler does not."""
    native: frozenset[int | None] = frozenset()
    """Of several those that are NativeAOT's."""
    major: int = 0
    """Of its version; 0: not known."""
    keywords: int = 0
    """Of its provider those that are known to have been recorded; others may have been, of which nothing came, and not all events of these."""
    level: int = 0
    """Up to which its events are known to have been."""
    processors: int = 0
    """Of the machine, of several the most; 0: not known."""

    def of(self, pid: int) -> RuntimeFacts:
        """Of one of several processes."""
        states, native = self.tells_states and pid not in self.untold, self.is_native or pid in self.native
        if (states, native) == (self.tells_states, self.is_native):
            return self
        return replace(self, tells_states=states, is_native=native)


def is_of_native(trace: Trace) -> bool:
    """Whether it says of its process what NativeAOT says: who it is, but neither its runtime nor the number of processors."""
    found = trace.processes
    return bool(found) and all(map(_is_native, found))


def _is_native(process: ProcessDetails) -> bool:
    return bool(process.os) and process.runtime is None and process.processors is None


def are_states_told(states: Array, count: Array, runtime: RuntimeFacts) -> bool:
    """Whether samples, so many in each of these states, say which threads ran: of what the sampler of .NET 9 tells hardly any did, of a kernel's
    samples some did there too.
    """
    return runtime.tells_states or not have_few_run(states, count)


def have_few_run(states: Array, count: Array) -> bool:
    """Whether so few ran by samples as where their sampler does not tell it."""
    return float(count[states == _RAN].sum()) < max(FEW_RAN * float(count.sum()), SO_FEW)


def native_of(trace: Trace) -> Callable[[], bool]:
    """The same, for a fold that asks when all has been read."""
    return lambda: is_of_native(trace)


def facts_of(trace: Trace) -> Callable[[], RuntimeFacts]:
    """What a recording tells of it, for a fold that asks when all has been read."""

    def facts() -> RuntimeFacts:
        from dotnetdiag.analysis.recorded_keywords import recorded_keywords  # numpy, of which who records has no need

        untold = frozenset(untold_processes(trace))
        some = bool(untold) and untold < {one.pid for one in trace.processes}
        keywords, level = recorded_keywords(trace)
        return RuntimeFacts(
            is_native=is_of_native(trace),
            tells_states=some or not untold,
            untold=untold if some else frozenset(),
            native=frozenset(one.pid for one in trace.processes if _is_native(one)),
            keywords=keywords,
            level=level,
            processors=max((one.processors or 0 for one in trace.processes), default=0),
        )

    return facts


def untold_processes(trace: Trace) -> set[int | None]:
    """Those whose sampler does not say which threads run."""
    return {one.pid for one in trace.processes if (one.runtime or "").startswith(f".NET {UNTOLD_VERSION}")}
