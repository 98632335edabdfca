"""The closed sets of numbers that requests are made of, and their defaults. Light: signatures everywhere name them."""

from __future__ import annotations

from enum import IntEnum, IntFlag

ALL_KEYWORDS = 0xFFFFFFFFFFFFFFFF
DEFAULT_RUNDOWN_KEYWORD = 0x80020139
"""GC, Loader, Jit, NGen, ForceEndRundown, JittedMethodILToNativeMap, ThreadTransfer (§9)."""
DEFAULT_BUFFER_MB = 256
MAX_PROVIDERS = 1000
SESSION_STREAMING = 0
SESSION_USER_EVENTS = 1


class EventLevel(IntEnum):
    """How much to say. ``LOG_ALWAYS`` lets all levels through from .NET 8 on, and nothing on 3.1."""

    LOG_ALWAYS = 0
    """All levels, from .NET 8 on."""
    CRITICAL = 1
    """What ends a program."""
    ERROR = 2
    """Also what has failed."""
    WARNING = 3
    """Also what may fail."""
    INFORMATIONAL = 4
    """Also what goes on: the level of most events."""
    VERBOSE = 5
    """Everything, however often it happens."""


class TraceFormat(IntEnum):
    """What the stream is."""

    NETPERF = 0
    """NetPerf 3: larger, and it does not tell what was lost."""
    NETTRACE = 1
    """nettrace 4 (5 from .NET 9 on): what tools read."""


class BufferingMode(IntEnum):
    """What threads of the target do when the session's buffer is full."""

    DROP = 0
    """They go on, and their events are lost and counted."""
    BLOCK = 1
    """They wait for space, and no event is lost (.NET 11); the reader must keep reading."""


class DumpType(IntEnum):
    """What a dump holds. ``MINI`` and ``HEAP`` are the names users know for Normal and WithHeap."""

    MINI = 1
    """Threads, stacks and modules: megabytes."""
    HEAP = 2
    """All objects besides."""
    TRIAGE = 3
    """As ``MINI``, without personal data in paths."""
    FULL = 4
    """All memory."""


class DumpFlags(IntFlag):
    """What else a dump does; joined by ``|``. .NET 5 and older know ``LOGGING`` alone."""

    NONE = 0
    """Nothing."""
    LOGGING = 0x01
    """The target says on its own console how the dump goes."""
    VERBOSE_LOGGING = 0x02
    """It says more."""
    CRASH_REPORT = 0x04
    """A JSON file with all stacks is written beside the dump."""
    CRASH_REPORT_ONLY = 0x08
    """That file is written, and no dump (.NET 8)."""


class PerfMapType(IntEnum):
    """What EnablePerfMap writes."""

    ALL = 1
    """Both files."""
    JITDUMP = 2
    """``jit-PID.dump``: the code itself, and what it was compiled from, for ``perf inject --jit``."""
    PERFMAP = 3
    """``perf-PID.map``: a line with address, size and name for each piece of code."""
