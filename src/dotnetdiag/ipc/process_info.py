"""Who a runtime is: ProcessInfo 1 to 3 and their replies (ipc-protocol.md §5.8).

The order of the fields is the runtime's; the cookie stands directly behind the pid, whatever the struct listings of the documents
say (§18 no. 8).
"""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.fields import GUID, TEXT, U32, U64, Field, Fields
from dotnetdiag.ipc.messages import OkReply, Request

PYTHON_BUILD = "+python"
"""What a runtime version of a Python process ends with: ``3.11.7+python``. It is a version as SemVer has it, with a build of that name; tools
for .NET pass builds over.
"""


class ProcessInfoReply(OkReply):
    """Reply to ``ProcessInfo`` (0x0400).

    ======  =======  ===================================================
    order   type     field
    1       u64      pid, in the runtime's own pid namespace
    2       GUID     runtime cookie, new at each start
    3-5     string   command line, operating system, architecture
    ======  =======  ===================================================
    """

    FIELDS: ClassVar[Fields] = (
        Field("pid", "processId", U64),
        Field("cookie", "runtimeCookie", GUID),
        Field("command_line", "commandLine", TEXT),
        Field("os", "OS", TEXT),
        Field("arch", "arch", TEXT),
    )

    pid: int
    cookie: UUID
    command_line: str | None
    os: str | None
    arch: str | None


class ProcessInfo2Reply(ProcessInfoReply):
    """Reply to ``ProcessInfo2`` (0x0404): adds the entry assembly's name and the CLR product version."""

    FIELDS: ClassVar[Fields] = (
        *ProcessInfoReply.FIELDS,
        Field("entry_assembly", "managedEntrypointAssemblyName", TEXT),
        Field("runtime_version", "clrProductVersion", TEXT),
    )

    entry_assembly: str | None
    runtime_version: str | None


class ProcessInfo3Reply(ProcessInfo2Reply):
    """Reply to ``ProcessInfo3`` (0x0408): ``u32 version`` first, the runtime identifier last; extensible at the end."""

    FIELDS: ClassVar[Fields] = (
        Field("version", "version", U32),
        *ProcessInfo2Reply.FIELDS,
        Field("runtime_identifier", "portableRuntimeIdentifier", TEXT, since=1),
    )

    version: int = 1
    runtime_identifier: str | None = None


class ProcessInfo(Request[ProcessInfoReply], command=Command.ProcessInfo):
    """``0x0400``."""


class ProcessInfo2(Request[ProcessInfo2Reply], command=Command.ProcessInfo2):
    """``0x0404``."""


class ProcessInfo3(Request[ProcessInfo3Reply], command=Command.ProcessInfo3):
    """``0x0408``."""
