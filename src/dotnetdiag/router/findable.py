"""Where tools look for a router by its pid.

Rule: dotnet-trace takes the router's socket only when there is a socket of the pid itself too, as dotnet-dsrouter has, being a .NET program
(measured with 10.0.750501). A link stands for that.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import suppress

from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import PIPE_PREFIX
from dotnetdiag.transport.socket_names import router_socket_name, socket_name


def default_address() -> str:
    """Of this process."""
    pid = os.getpid()
    if sys.platform == "win32":
        return f"{PIPE_PREFIX}dotnet-diagnostic-dsrouter-{pid}"
    started_s = int(time.time() - (processes.uptime_s(pid) or 0.0))
    return os.path.join(tempfile.gettempdir(), router_socket_name(pid, started_s))


class StandIn:
    """The link, until ``remove``. Where none can be made, the reference tools do not find the pid; that is all."""

    def __init__(self, target: str) -> None:
        pid = os.getpid()
        self._path = os.path.join(os.path.dirname(target), socket_name(pid, processes.start_time_ticks(pid) or 0))
        self._target = os.path.basename(target)
        with suppress(OSError):
            os.symlink(self._target, self._path)

    def remove(self) -> None:
        """Unless something else has its name meanwhile."""
        with suppress(OSError):
            if os.readlink(self._path) == self._target:
                os.unlink(self._path)
