"""The command table: numbers, names, the first .NET that has them."""

from __future__ import annotations

from enum import IntEnum
from typing import Self

SERVER_SET = 0xFF
OK_ID = 0x00
ERROR_ID = 0xFF


class Command(IntEnum):
    """``0xSSII`` as the documents write it: set in the high byte, id in the low one (ipc-protocol.md §4).

    ``since``: the first release that answers it, for people (§4 as measured in §21.6: 3.1 lacks all of 0x04xx).
    """

    since: str

    def __new__(cls, code: int, since: str = "") -> Self:
        member = int.__new__(cls, code)
        member._value_, member.since = code, since
        return member

    GenerateCoreDump = 0x0101, ".NET Core 3.0"
    """Write a dump."""
    GenerateCoreDump2 = 0x0102, ".NET 6"
    """With flags."""
    GenerateCoreDump3 = 0x0103, ".NET 7"
    """With a text in its errors."""
    StopTracing = 0x0201, ".NET Core 3.0"
    """End a session."""
    CollectTracing = 0x0202, ".NET Core 3.0"
    """Start a session."""
    CollectTracing2 = 0x0203, ".NET Core 3.0"
    """With or without a rundown."""
    CollectTracing3 = 0x0204, ".NET 9"
    """With or without stacks."""
    CollectTracing4 = 0x0205, ".NET 9"
    """With a rundown keyword."""
    CollectTracing5 = 0x0206, ".NET 10"
    """With event filters, or into tracepoints (user_events)."""
    CollectTracing6 = 0x0207, ".NET 11"
    """With a buffering mode."""
    AttachProfiler = 0x0301, ".NET Core 3.0"
    """Load a native profiler now."""
    StartupProfiler = 0x0302, ".NET 6"
    """Load a native profiler when the process is resumed."""
    ProcessInfo = 0x0400, ".NET 5"
    """Who this is."""
    ResumeRuntime = 0x0401, ".NET 5"
    """Let a process run that waits at its start."""
    ProcessEnvironment = 0x0402, ".NET 5"
    """The environment variables."""
    SetEnvironmentVariable = 0x0403, ".NET 6"
    """Set a variable, or remove it."""
    ProcessInfo2 = 0x0404, ".NET 6"
    """With the program's name and the runtime's version."""
    EnablePerfMap = 0x0405, ".NET 8"
    """Write symbols for perf from now on."""
    DisablePerfMap = 0x0406, ".NET 8"
    """Write none any more."""
    ApplyStartupHook = 0x0407, ".NET 8"
    """Run a startup hook."""
    ProcessInfo3 = 0x0408, ".NET 8"
    """With a version of its own, and the platform."""


def command_name(code: int) -> str:
    """``CollectTracing2``, or ``0x0299`` for a number without a name."""
    try:
        return Command(code).name
    except ValueError:
        return f"0x{code:04X}"
