"""The error codes a runtime is known to answer, each with a name and a sentence that says what it means.

Source: ipc-protocol.md §6, and the codes measured in §5.7 and §21.
"""

from __future__ import annotations

from enum import IntEnum

from dotnetdiag import errors


class HResult(IntEnum):
    """Known error codes, unsigned. A code that is not here stays a number and is shown in hex."""

    BAD_ENCODING = 0x80131384
    """The request cannot be read."""
    UNKNOWN_COMMAND = 0x80131385
    """The command is not known."""
    UNKNOWN_MAGIC = 0x80131386
    """It is no message of this protocol."""
    UNKNOWN_ERROR = 0x80131387
    """No reason is given."""
    NOT_SUPPORTED = 0x80131515
    """It cannot be had here, ever."""
    FAIL = 0x80004005
    """It went wrong."""
    INVALID_ARGUMENT = 0x80070057
    """An argument cannot be, or not now."""
    PROFILER_NOT_YET_AVAILABLE = 0x8013135B
    """The process still waits at its start."""
    PROFILER_RUNTIME_UNINITIALIZED = 0x80131371
    """The runtime is not ready."""
    PROFILER_ALREADY_ACTIVE = 0x8013136A
    """There is a profiler already."""
    INSUFFICIENT_BUFFER = 0x8007007A
    """An answer does not fit."""
    ENVVAR_NOT_FOUND = 0x800700CB
    """There is no such variable."""
    MODULE_NOT_FOUND = 0x8007007E
    """There is no such library."""
    PROC_NOT_FOUND = 0x8007007F
    """The library is no profiler."""
    CLASS_NOT_AVAILABLE = 0x80040111
    """The library has no profiler of this CLSID."""
    TYPE_LOAD = 0x80131522
    """A type cannot be loaded."""
    UNSPECIFIED = 0xFFFFFFFF
    """No reason is given; of the variables' commands."""


ADVICE: dict[int, str] = {
    HResult.BAD_ENCODING: "the runtime could not read the request; another version of the command or fewer options may do",
    HResult.UNKNOWN_COMMAND: "this runtime does not know the command; a newer .NET does",
    HResult.UNKNOWN_MAGIC: "the endpoint does not speak DOTNET_IPC_V1; check that the address is a .NET diagnostic port",
    HResult.UNKNOWN_ERROR: "the runtime gives no reason; try again, then look at its own output",
    HResult.NOT_SUPPORTED: "the feature is not built into this runtime (NativeAOT and Mono lack profilers, dumps, hooks, perf maps; "
    "Python lacks profilers, hooks, perf maps and user_events)",
    HResult.FAIL: "the runtime failed without a reason; for sessions: at most 64 may be open, stop one; for dumps: look at the target's output",
    HResult.INVALID_ARGUMENT: "the runtime refused an argument, or the command is only allowed while it is suspended at startup",
    HResult.PROFILER_NOT_YET_AVAILABLE: "the runtime is still starting; until it is resumed, profilers can only be registered for its start",
    HResult.PROFILER_RUNTIME_UNINITIALIZED: "the runtime is not initialised yet; try again in a moment",
    HResult.PROFILER_ALREADY_ACTIVE: "a profiler is already attached; only one is possible at a time",
    HResult.INSUFFICIENT_BUFFER: "the runtime's buffer was too small for the answer; nothing can be done from outside",
    HResult.ENVVAR_NOT_FOUND: "the variable does not exist in the target, so it cannot be removed",
    HResult.MODULE_NOT_FOUND: "the library could not be loaded; the path is looked up in the target's file system, and its own dependencies too",
    HResult.PROC_NOT_FOUND: "the library is not a profiler (it exports no DllGetClassObject)",
    HResult.CLASS_NOT_AVAILABLE: "the library has no profiler with this CLSID",
    HResult.TYPE_LOAD: "a type could not be loaded; for a startup hook: the assembly needs a type `StartupHook` outside of any namespace",
    HResult.UNSPECIFIED: "the runtime gives no reason; for variables: names must be non-empty and without '='",
}

_CLASSES: dict[int, type[errors.ServerError]] = {
    HResult.BAD_ENCODING: errors.BadEncoding,
    HResult.UNKNOWN_COMMAND: errors.UnsupportedCommand,
    HResult.NOT_SUPPORTED: errors.NotSupported,
    HResult.PROFILER_ALREADY_ACTIVE: errors.ProfilerAlreadyActive,
}


def hresult_name(code: int) -> str:
    """``BAD_ENCODING``, or ``""`` for a code without a name."""
    try:
        return HResult(code & 0xFFFFFFFF).name
    except ValueError:
        return ""


def server_error(command: str, hresult: int, *, text: str = "", advice: str = "") -> errors.ServerError:
    """The exception for an error reply; ``advice`` replaces the general sentence of the code."""
    code = hresult & 0xFFFFFFFF
    kind = _CLASSES.get(code, errors.ServerError)
    advice = advice or ("" if text.strip() else ADVICE.get(code, ""))
    return kind(command, code, name=hresult_name(code), advice=advice, text=text)
