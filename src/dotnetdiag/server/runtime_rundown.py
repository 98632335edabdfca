"""``Microsoft-Windows-DotNETRuntimeRundown``, what it says beside the code: which runtime this is, and the threads (nettrace.md §10.5, §11).

==================  ======================================================================================================
event               when
==================  ======================================================================================================
RuntimeInformation  in every rundown, first; and when a session begins that asks for ``Microsoft-Windows-DotNETRuntime``, so that one
                    without rundown, or that is cut off, has it too. Sku 0: none of those that .NET has
ThreadDC            with the keywords 0x10000 or 0x800, which no tool's default has: the threads of :mod:`threading`
==================  ======================================================================================================
"""

from __future__ import annotations

import os
import struct
import sys
import sysconfig

from dotnetdiag.server.event_fields import z16
from dotnetdiag.server.native_events import CLR_INSTANCE, native_event
from dotnetdiag.server.process import ProcessFacts
from dotnetdiag.server.registry import RUNDOWN
from dotnetdiag.server.subscription import Subscription
from dotnetdiag.server.thread_names import program_threads

DOMAIN_ID = 1
RUNTIME_INFORMATION = 187
THREAD_KEYWORDS = 0x10800
_INFORMATION = native_event(RUNDOWN, RUNTIME_INFORMATION, version=0)
_THREAD = native_event(RUNDOWN, 159, version=0, keywords=THREAD_KEYWORDS)
_NO_SKU, _OTHER = 0, 16
"""None of the kinds of runtime; and of starts none of those that have a name."""
_PATH_LIMIT = 2_000
"""Characters, of up to 4 bytes: with the longest command line it fits the largest payload."""


class RuntimeRundown:
    """The provider that a session joins at its end: everything is written before :meth:`join` returns."""

    name = RUNDOWN

    def join(self, subscription: Subscription) -> None:
        """Write both."""
        if (write := subscription.channel(_INFORMATION)) is not None:
            write(runtime_information())
        if (write := subscription.channel(_THREAD)) is not None:
            for ident, os_thread in program_threads():
                write(thread_facts(ident, os_thread))

    def leave(self, subscription: Subscription) -> None:
        """All is written already."""


def runtime_information() -> bytes:
    """The payload: versions of the library and of the machine, which are one here, the command line, and the interpreter's path."""
    facts = ProcessFacts.of_this_process()
    version = *sys.version_info[:3], 0
    numbers = struct.pack("<10HIB", 0, _NO_SKU, *version, *version, 0, _OTHER)
    return numbers + z16(facts.command_line) + bytes(16) + z16(interpreter()[:_PATH_LIMIT])


def interpreter() -> str:
    """The path of Python itself: of its program, or where another one hosts it, of its library."""
    path = os.path.realpath(sys.executable) if sys.executable else ""
    if os.path.basename(path).lower().startswith(("python", "pypy")):
        return path
    folder, name = sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY")
    return os.path.join(folder or "", name or "python")


def thread_facts(number: int, os_thread: int) -> bytes:
    """The payload of ThreadCreated and ThreadDC."""
    return struct.pack("<QQIII", number, DOMAIN_ID, 0, os_thread, os_thread) + CLR_INSTANCE
