"""Keywords of well-known providers by name, as users type them (dotnet-tools.md §1.2), in any case.

The suffix ``Keyword`` of the manifests is accepted too.
"""

from __future__ import annotations

CLR_PROVIDER = "Microsoft-Windows-DotNETRuntime"
RUNDOWN_PROVIDER = "Microsoft-Windows-DotNETRuntimeRundown"
PRIVATE_PROVIDER = "Microsoft-Windows-DotNETRuntimePrivate"
SAMPLE_PROFILER = "Microsoft-DotNETCore-SampleProfiler"
TPL_PROVIDER = "System.Threading.Tasks.TplEventSource"

CLR_KEYWORDS: dict[str, int] = {
    "gc": 0x1,
    "gchandle": 0x2,
    "fusion": 0x4,
    "assemblyloader": 0x4,
    "loader": 0x8,
    "jit": 0x10,
    "ngen": 0x20,
    "startenumeration": 0x40,
    "endenumeration": 0x80,
    "security": 0x400,
    "appdomainresourcemanagement": 0x800,
    "jittracing": 0x1000,
    "interop": 0x2000,
    "contention": 0x4000,
    "exception": 0x8000,
    "threading": 0x10000,
    "jittedmethodiltonativemap": 0x20000,
    "overrideandsuppressngenevents": 0x40000,
    "type": 0x80000,
    "gcheapdump": 0x100000,
    "gcsampledobjectallocationhigh": 0x200000,
    "gcheapsurvivalandmovement": 0x400000,
    "gcheapcollect": 0x800000,
    "managedheadcollect": 0x800000,
    "managedheapcollect": 0x800000,
    "gcheapandtypenames": 0x1000000,
    "gcsampledobjectallocationlow": 0x2000000,
    "perftrack": 0x20000000,
    "stack": 0x40000000,
    "threadtransfer": 0x80000000,
    "debugger": 0x100000000,
    "monitoring": 0x200000000,
    "codesymbols": 0x400000000,
    "eventsource": 0x800000000,
    "compilation": 0x1000000000,
    "compilationdiagnostic": 0x2000000000,
    "methoddiagnostic": 0x4000000000,
    "typediagnostic": 0x8000000000,
    "jitinstrumentationdata": 0x10000000000,
    "profiler": 0x20000000000,
    "waithandle": 0x40000000000,
    "allocationsampling": 0x80000000000,
}

_TPL_KEYWORDS = {
    "tasktransfer": 0x1,
    "tasks": 0x2,
    "parallel": 0x4,
    "asynccausalityoperation": 0x8,
    "asynccausalityrelation": 0x10,
    "asynccausalitysynchronouswork": 0x20,
    "taskstops": 0x40,
    "tasksflowactivityids": 0x80,
    "tasksetactivityids": 0x10000,
    "debug": 0x20000,
    "debugactivityid": 0x40000,
}

KEYWORDS: dict[str, dict[str, int]] = {
    CLR_PROVIDER: CLR_KEYWORDS,
    RUNDOWN_PROVIDER: CLR_KEYWORDS,
    PRIVATE_PROVIDER: {"gc": 0x1, "gchandleprivate": 0x2, "loaderheap": 0x4, "codesymbols": 0x8, "stack": 0x40000000},
    TPL_PROVIDER: _TPL_KEYWORDS,
    "System.Diagnostics.Metrics": {"messages": 0x1, "timeseriesvalues": 0x2, "instrumentpublishing": 0x4},
    "Microsoft-Extensions-Logging": {"meta": 0x1, "message": 0x2, "formattedmessage": 0x4, "jsonmessage": 0x8},
    "Microsoft-Diagnostics-DiagnosticSource": {
        "messages": 0x1,
        "events": 0x2,
        "ignoreshortcutkeywords": 0x800,
        "aspnetcorehosting": 0x1000,
        "entityframeworkcorecommands": 0x2000,
    },
}


def find_keyword(provider: str, name: str) -> int | None:
    """The value of a keyword's name for a provider, or None."""
    known = KEYWORDS.get(provider, {})
    wanted = name.lower()
    return known.get(wanted, known.get(wanted.removesuffix("keyword")))
