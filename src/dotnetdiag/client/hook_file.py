"""Look at a startup hook's file, as the target would find it, before it is named to the target."""

from __future__ import annotations

import os
import sys

from dotnetdiag.errors import DangerousRequest
from dotnetdiag.ipc.process import ApplyStartupHook
from dotnetdiag.ipc.startup_hook import startup_hook_problem

# Real hooks have some KB; what is larger than this is not read.
MAX_SIZE = 64 << 20


def require_usable_hook(path: str, pid: int | None) -> None:
    """Raise DangerousRequest unless the file is there, for the target, and is a startup hook.

    The target's own root (``/proc/PID/root``) is looked in on Linux, so that a path inside of a container is meant.
    """
    command = "ApplyStartupHook"
    ApplyStartupHook(path=path).check()
    if pid is None:
        raise DangerousRequest(
            command,
            "the file cannot be checked on a target known only by its address, and one that is missing kills .NET 9 and 10",
        )
    seen = f"/proc/{pid}/root{path}" if sys.platform == "linux" else path
    try:
        descriptor = os.open(seen, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(MAX_SIZE + 1)
    except OSError as error:
        reason = f"{path} cannot be read as the target sees it ({error.strerror}); such a hook kills .NET 9 and 10"
        raise DangerousRequest(command, reason) from error
    problem = "it is too large" if len(data) > MAX_SIZE else startup_hook_problem(data)
    if problem:
        raise DangerousRequest(command, f"{path} is no startup hook: {problem}; it would kill .NET 9 and 10")
