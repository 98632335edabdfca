"""What a series is, where the runtime announces it as something else."""

from __future__ import annotations

from dotnetdiag.analysis.series import CounterKind, Series

UP_AND_DOWN = frozenset(
    {
        ("System.Runtime", "dotnet.thread_pool.thread.count"),
        ("System.Runtime", "dotnet.thread_pool.queue.length"),
    }
)
"""What .NET 9 and 10 announce as counters, and is none: it falls too. (Their documentation has it as up-down counters.)"""


def meant_kind(series: Series) -> CounterKind:
    """The kind, by its documentation."""
    if series.kind is CounterKind.COUNTER and (series.provider, series.name) in UP_AND_DOWN:
        return CounterKind.UP_DOWN_COUNTER
    return series.kind
