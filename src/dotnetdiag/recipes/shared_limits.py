"""What limits the shared session of meters has that a runtime serves: ours, or those of who came first."""

from __future__ import annotations

import re

from dotnetdiag.analysis.metrics import Notice
from dotnetdiag.providers.counters import SharedLimits

OTHER_LIMITS = "MultipleSessionsConfiguredIncorrectlyError"
_EXPECTED = re.compile(r"expected(\w+)=([0-9.]{1,20})", re.ASCII)


def limits_of_others(notice: Notice) -> SharedLimits | None:
    """Those that a session must ask for to share it, of a notice that says that ours asked for others; None of any other."""
    if notice.event != OTHER_LIMITS:
        return None
    said = dict(_EXPECTED.findall(notice.text))
    try:
        return SharedLimits(
            max_time_series=int(said["MaxTimeSeries"]),
            max_histograms=int(said["MaxHistograms"]),
            interval_s=float(said["RefreshInterval"]),
        )
    except (KeyError, ValueError):
        return None
