"""What each question needs to be recorded: the providers of a session by the name of its report, and as presets."""

from __future__ import annotations

from collections.abc import Mapping

from dotnetdiag.providers.keywords import CLR_PROVIDER, SAMPLE_PROFILER, TPL_PROVIDER

NAMES = f"{CLR_PROVIDER}:0x38:4"
"""Methods when they were compiled, for a process that ends has no rundown; what was compiled before is named by that.
The level is that of all other keywords of the runtime too, and verbose would bring ticks of allocations to a question of collections.
"""
SAMPLER = f"{SAMPLE_PROFILER}:0:4"
SOCKETS = "System.Net.Sockets"
"""Where these are recorded too, runtimes from .NET 10 on give many requests one activity id."""
LOGGING = "Microsoft-Extensions-Logging"
_WEB = (
    *(
        f"{provider}:0xffffffffffffffff:5"
        for provider in (
            "Microsoft.AspNetCore.Hosting",
            "Microsoft-AspNetCore-Server-Kestrel",
            "System.Net.Http",
            "System.Net.NameResolution",
            SOCKETS,
            "System.Net.Security",
            "Grpc.AspNetCore.Server",
            "Grpc.Net.Client",
        )
    ),
    "Microsoft.Data.SqlClient.EventSource:0x1:4",
    "Microsoft-AdoNet-SystemData:0x1:4",
    f"{TPL_PROVIDER}:0x80:4",
)
_ALONE: Mapping[str, tuple[str, ...]] = {
    "allocations": (f"{CLR_PROVIDER}:0x1:5",),
    "contention": (f"{CLR_PROVIDER}:0x4000:4",),
    "exceptions": (f"{CLR_PROVIDER}:0x8000:4",),
    "gc": (f"{CLR_PROVIDER}:0x1:4",),
    "jit": (f"{CLR_PROVIDER}:0x1000000010:5",),
    "loader": (f"{CLR_PROVIDER}:0xc:4",),
    "logs": (f"{LOGGING}:0x8:5", *_WEB),
    "requests": (*_WEB, f"{LOGGING}:0x8:4", f"{CLR_PROVIDER}:0xc001:5", SAMPLER),
    "startup": (f"{CLR_PROVIDER}:0x1000008015:5", SAMPLER),
    "tasks": (f"{TPL_PROVIDER}:0xb:5",),
    "threadpool": (f"{CLR_PROVIDER}:0x10000:4", "System.Diagnostics.Eventing.FrameworkEventSource:0x2:5"),
    "threads": (f"{CLR_PROVIDER}:0x4000001c001:5", SAMPLER),
    "waits": (f"{CLR_PROVIDER}:0x40000004000:5",),
}
ADVISED = ("gc", "allocations", "exceptions", "contention", "waits", "threadpool", "requests", "jit", "logs")
"""The questions that advice asks, beside what takes processor time."""
_ADVICE = (*(text for name in ADVISED for text in _ALONE[name]), SAMPLER)
QUESTIONS: Mapping[str, str] = {
    name: ",".join(dict.fromkeys((*needed, NAMES))) for name, needed in {"advice": _ADVICE, **_ALONE}.items()
}
"""The text of ``--providers`` by the name of the report."""


def without_sockets(providers: str) -> str:
    """A text of :data:`QUESTIONS` for a runtime that shares ids where sockets are recorded."""
    return ",".join(one for one in providers.split(",") if not one.startswith(f"{SOCKETS}:"))
