"""What is asked of a runtime for its logs and its distributed traces."""

from __future__ import annotations

from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.eventpipe import Provider

LOG_LEVELS = ("Trace", "Debug", "Information", "Warning", "Error", "Critical")
"""Those of Microsoft.Extensions.Logging."""
_LOGGING = "Microsoft-Extensions-Logging"
_JSON_MESSAGES = 0x8
_EVENTS = 0x2
_VERBOSE = 5
_EVENT_LEVELS = {"Trace": 5, "Debug": 5, "Information": 4, "Warning": 3, "Error": 2, "Critical": 1}
"""What the library takes a session's own level for, where its filter says none; Trace is not among them."""
_FIELDS = (
    "TraceId",
    "SpanId",
    "ParentSpanId",
    "ActivityTraceFlags",
    "TraceStateString",
    "Kind",
    "DisplayName",
    "StartTimeTicks=StartTimeUtc.Ticks",
    "DurationTicks=Duration.Ticks",
    "Status",
    "StatusDescription",
    "Tags=TagObjects.*Enumerate",
    "ActivitySourceVersion=Source.Version",
)
_ALL_THAT_STOP = f"[AS]*/Stop:-{';'.join(_FIELDS)}"
"""The grammar stands in the summary of ``DiagnosticSourceEventSource`` in dotnet/runtime."""


def logging_provider(level: str = "", *, at_start: bool = False) -> Provider:
    """Messages of ``Microsoft.Extensions.Logging`` with their arguments, from a level on (in any case); empty: as the program's own filters have it.
    ``at_start``: of a runtime that waits at its start. A library that finds the session there when it is loaded cannot read a filter with a level
    (measured: 10.0.14, nothing comes then): the session's own level says it, with Debug for Trace. Raises UsageError for a level that is none.
    """
    known = {one.lower(): one for one in LOG_LEVELS}
    found = known.get(level.lower())
    if level and found is None:
        raise UsageError(f"{level!r} is no level of logs: {', '.join(LOG_LEVELS)}")
    if found is not None and at_start:
        return Provider(name=_LOGGING, keywords=_JSON_MESSAGES, level=_EVENT_LEVELS[found], arguments="FilterSpecs=*")
    return Provider(
        name=_LOGGING,
        keywords=_JSON_MESSAGES,
        level=_VERBOSE,
        arguments=f'FilterSpecs="*:{found}"' if found else "FilterSpecs=UseAppFilters",
    )


def activities_provider() -> Provider:
    """Each activity (``System.Diagnostics.Activity``) of all sources, when it stops: ids, times, kind, status, tags. Who asks makes the runtime
    create activities that nobody had wanted before, and mark all as recorded.
    """
    return Provider(
        name="Microsoft-Diagnostics-DiagnosticSource",
        keywords=_EVENTS,
        level=_VERBOSE,
        arguments=f'FilterAndPayloadSpecs="{_ALL_THAT_STOP}"',
    )
