"""Which runtimes have no sample profiler: NativeAOT, of a process or as a recording shows it."""

from __future__ import annotations

from dotnetdiag.analysis.native import NO_SAMPLER, is_of_native

__all__ = ["NO_SAMPLER", "has_no_sampler", "is_of_native"]


def has_no_sampler(pid: int | None) -> bool:
    """Whether the process is known to be NativeAOT."""
    from dotnetdiag.transport.diagnosis import kind_of  # a millisecond that others need not wait for

    return pid is not None and kind_of(pid).native
