"""What a collector says that it has not kept of a request which it took (OTLP 1.x, "Partial Success")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dotnetdiag.recipes.collector import Signal

_LONGEST = 300
"""Characters of what it says."""
_COUNTS: Mapping[Signal, str] = {
    Signal.METRICS: "rejected_data_points",
    Signal.LOGS: "rejected_log_records",
    Signal.TRACES: "rejected_spans",
}


def rejected_of(signal: Signal, answer: Any) -> tuple[int, str]:
    """How many records, and why, in one line; ``answer`` is an ``Export…ServiceResponse``, None where there was none."""
    if answer is None:
        return 0, ""
    partial = answer.partial_success
    said = " ".join(partial.error_message.split())[:_LONGEST]
    count = max(int(getattr(partial, _COUNTS[signal])), 0)
    return count, (said or "rejected") if count else ""
