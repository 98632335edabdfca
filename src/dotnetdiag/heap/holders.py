"""The names of what holds roots, as dotnet-gcdump and PerfView have them (gcdump.md §5)."""

from __future__ import annotations

ROOTS, STATICS, THREAD_STATICS = "[.NET Roots]", "[static vars]", "[thread static vars]"
LOCALS, OTHERS, COM = "[local vars]", "[other roots]", "[COM/WinRT Objects]"
PINNED_LOCALS = "[Pinned local vars]"
"""As PerfView names some."""
FINALIZER, STRONG, PINNING = "[finalizer Handles]", "[strong Handles]", "[pinning Handles]"
OTHER_HANDLES, DEPENDENT = "[other Handles]", "[Dependent Handles]"

STATIC = "[static var "
"""How the name of a static variable's node begins."""
DIAGNOSTICS = f"{STATIC}System.Diagnostics.Tracing.NativeRuntimeEventSource.Log]"
"""What holds most of what the first session of events leaves in a process: 0.2 MB of descriptions (8.0 to 10.0)."""

KIND_OF_NAME = {
    LOCALS: "stack",
    PINNED_LOCALS: "stack",
    FINALIZER: "finalizer",
    "[FinalizerQueue]": "finalizer",
    DEPENDENT: "dependent",
    COM: "com",
    OTHER_HANDLES: "other",
    STRONG: "handle",
    PINNING: "handle",
    "[StrongHandle]": "handle",
    "[PinnedHandle]": "handle",
    "[AsyncPinnedHandle]": "handle",
    "[SizedRefHandle]": "handle",
}


def is_holder_of_roots(name: str | None) -> bool:
    """Whether it is the name of what holds roots of a kind: ``[static vars]``, but no static variable itself."""
    return name in KIND_OF_NAME or name in (ROOTS, STATICS, THREAD_STATICS, OTHERS)


def is_pseudo_node(name: str | None) -> bool:
    """Whether it is the name of what holds roots, or of a static variable."""
    return is_holder_of_roots(name) or (name or "").startswith(STATIC)
