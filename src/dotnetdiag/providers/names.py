"""Names of providers that .NET has, to help with one that is misspelled: a runtime takes any name."""

from __future__ import annotations

NAMES = (
    "Microsoft-Windows-DotNETRuntime",
    "Microsoft-Windows-DotNETRuntimeRundown",
    "Microsoft-Windows-DotNETRuntimeStress",
    "Microsoft-Windows-DotNETRuntimePrivate",
    "Microsoft-DotNETRuntimeMonoProfiler",
    "Microsoft-DotNETCore-SampleProfiler",
    "Microsoft-DotNETCore-EventPipe",
    "Microsoft-Diagnostics-DiagnosticSource",
    "System.Buffers.ArrayPoolEventSource",
    "System.Collections.Concurrent.ConcurrentCollectionsEventSource",
    "System.Data.DataCommonEventSource",
    "System.Diagnostics.Metrics",
    "System.Net.Http",
    "System.Net.NameResolution",
    "System.Net.Security",
    "System.Net.Sockets",
    "System.Runtime",
    "System.Threading.RateLimiting",
    "System.Threading.Tasks.TplEventSource",
    "Microsoft-AspNetCore-Server-Kestrel",
    "Microsoft.AspNetCore.Hosting",
    "Microsoft.AspNetCore.Http.Connections",
    "Microsoft-Extensions-DependencyInjection",
    "Microsoft-Extensions-Logging",
    "Microsoft.EntityFrameworkCore",
    "Microsoft.Data.SqlClient.EventSource",
)
ALIKE = 0.9
"""How alike a name must be to one of these to be a misspelling of it: one letter in ten."""


def misspelled(provider: str) -> str | None:
    """The provider of .NET that is probably meant; None where it is one of them, or is not like any."""
    known = {name.lower(): name for name in NAMES}
    if provider.lower() in known:
        return None
    import difflib  # only to help with a wrong name

    found = difflib.get_close_matches(provider.lower(), known, n=1, cutoff=ALIKE)
    return known[found[0]] if found else None
