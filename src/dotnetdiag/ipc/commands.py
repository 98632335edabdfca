"""The command table: numbers, names, the first .NET that has them, what they answer."""

from __future__ import annotations

from enum import IntEnum

SERVER_SET = 0xFF
OK_ID = 0x00
ERROR_ID = 0xFF


class Command(IntEnum):
    """``0xSSII`` as the documents write it: set in the high byte, id in the low one (ipc-protocol.md §4)."""

    GenerateCoreDump = 0x0101
    GenerateCoreDump2 = 0x0102
    GenerateCoreDump3 = 0x0103
    StopTracing = 0x0201
    CollectTracing = 0x0202
    CollectTracing2 = 0x0203
    CollectTracing3 = 0x0204
    CollectTracing4 = 0x0205
    CollectTracing5 = 0x0206
    CollectTracing6 = 0x0207
    AttachProfiler = 0x0301
    StartupProfiler = 0x0302
    ProcessInfo = 0x0400
    ResumeRuntime = 0x0401
    ProcessEnvironment = 0x0402
    SetEnvironmentVariable = 0x0403
    ProcessInfo2 = 0x0404
    EnablePerfMap = 0x0405
    DisablePerfMap = 0x0406
    ApplyStartupHook = 0x0407
    ProcessInfo3 = 0x0408


# The first release that answers the command, for people (§4 as measured in §21.6: 3.1 lacks all of 0x04xx).
SINCE: dict[Command, str] = {
    Command.GenerateCoreDump: ".NET Core 3.0",
    Command.GenerateCoreDump2: ".NET 6",
    Command.GenerateCoreDump3: ".NET 7",
    Command.StopTracing: ".NET Core 3.0",
    Command.CollectTracing: ".NET Core 3.0",
    Command.CollectTracing2: ".NET Core 3.0",
    Command.CollectTracing3: ".NET 9",
    Command.CollectTracing4: ".NET 9",
    Command.CollectTracing5: ".NET 10",
    Command.CollectTracing6: ".NET 11",
    Command.AttachProfiler: ".NET Core 3.0",
    Command.StartupProfiler: ".NET 6",
    Command.ProcessInfo: ".NET 5",
    Command.ResumeRuntime: ".NET 5",
    Command.ProcessEnvironment: ".NET 5",
    Command.SetEnvironmentVariable: ".NET 6",
    Command.ProcessInfo2: ".NET 6",
    Command.EnablePerfMap: ".NET 8",
    Command.DisablePerfMap: ".NET 8",
    Command.ApplyStartupHook: ".NET 8",
    Command.ProcessInfo3: ".NET 8",
}


def command_name(code: int) -> str:
    """``CollectTracing2``, or ``0x0299`` for a number without a name."""
    try:
        return Command(code).name
    except ValueError:
        return f"0x{code:04X}"
