"""What a dump is called: the placeholders of a request's path, as .NET's createdump expands them (measured: 8.0.33 and 10.0.14).

======  ========================================
text    becomes
======  ========================================
``%p``  the process id
``%e``  the process's name, as the system has it
``%h``  the name of the machine
``%t``  seconds since 1970
``%%``  ``%``
======  ========================================
"""

from __future__ import annotations

import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.server.commands import Refused


def dump_path(path: str | None) -> str:
    """The file that the path of a request for a dump means: ``/dumps/%e.%p`` is ``/dumps/python.4711`` in process 4711.

    They may stand in folders too, and a ``%`` at the end is dropped. An empty path is ``coredump.PID`` in the temporary folder. Raises Refused
    for other placeholders.
    """
    if not path:
        return os.path.join(tempfile.gettempdir(), f"coredump.{os.getpid()}")
    first, *others = path.replace("%%", "%\0").split("%")  # no path has a zero
    expanded = [first]
    for part in others:
        expand = _PLACEHOLDERS.get(part[:1])
        if expand is None:
            raise Refused(HResult.FAIL, f"{path}: %{part[:1]} is none of %p, %e, %h, %t and %%")
        expanded.append(expand() + part[1:])
    return "".join(expanded)


def _process_name() -> str:
    try:
        return os.fsdecode(Path("/proc/self/comm").read_bytes().removesuffix(b"\n"))
    except OSError:  # another system than Linux
        return Path(sys.executable or "python").name


_PLACEHOLDERS: Mapping[str, Callable[[], str]] = {
    "p": lambda: str(os.getpid()),
    "e": _process_name,
    "h": socket.gethostname,
    "t": lambda: str(int(time.time())),
    "\0": lambda: "%",
    "": lambda: "",
}
