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
    """How much to say. ``LOG_ALWAYS`` lets all levels through from .NET 8 on, and nothing on 3.1 (§21.4)."""

    LOG_ALWAYS = 0
    CRITICAL = 1
    ERROR = 2
    WARNING = 3
    INFORMATIONAL = 4
    VERBOSE = 5


class TraceFormat(IntEnum):
    """What the stream is."""

    NETPERF = 0
    NETTRACE = 1


class BufferingMode(IntEnum):
    """``BLOCK``: threads of the target wait for buffer space and no event is lost (.NET 11); the reader must keep reading."""

    DROP = 0
    BLOCK = 1


class DumpType(IntEnum):
    """What a dump holds. ``MINI`` and ``HEAP`` are the names users know for Normal and WithHeap."""

    MINI = 1
    HEAP = 2
    TRIAGE = 3
    FULL = 4


class DumpFlags(IntFlag):
    """Flags of dump 2 and 3; the first dump command knows ``LOGGING`` only."""

    NONE = 0
    LOGGING = 0x01
    VERBOSE_LOGGING = 0x02
    CRASH_REPORT = 0x04
    CRASH_REPORT_ONLY = 0x08


class PerfMapType(IntEnum):
    """What EnablePerfMap writes."""

    ALL = 1
    JITDUMP = 2
    PERFMAP = 3
