"""What a program has started may outlive it, and has the port's variable still: a .NET program that a script's background job starts
after the recording would wait at its start for a port that is gone, and for ever. So the port is kept for as long as anybody could dial it,
by a process of its own: ``python -m dotnetdiag.recipes.inherited_port ADDRESS GROUP`` resumes who dials, and ends with the last of them.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.recipes.suspension import PORTS_VARIABLE
from dotnetdiag.transport import processes

LOOK_S = 1.0
GRACE_S = 0.5
"""What was ended with a signal is gone by then."""
START_S = 30.0


def heirs(address: str, group: int) -> tuple[int, ...]:
    """The processes that have the port at ``address`` in their environment; where that cannot be seen, ``group`` when it has members.

    Processes that have ended do not count, nor those of other users, whom the port lets not in.
    """
    if sys.platform == "linux":
        named = PORTS_VARIABLE.encode() + b"=" + os.fsencode(address) + b","
        return tuple(pid for pid in processes.iter_pids() if named in (processes.read(pid, "environ") or b""))
    if sys.platform != "win32":
        with suppress(OSError):
            os.killpg(group, 0)
            return (group,)
    return ()


def keep(address: str, group: int) -> bool:
    """Leave a process behind that keeps the port, and removes its folder at the end. False when nobody is left to dial."""
    ends = time.monotonic() + GRACE_S
    while heirs(address, group):
        if time.monotonic() < ends:
            time.sleep(0.02)
            continue
        _start_keeper(address, group)
        return True
    return False


def _start_keeper(address: str, group: int) -> None:
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))
    subprocess.run(
        [sys.executable, "-P", "-m", __name__, address, str(group)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
        check=True,
        timeout=START_S,
    )


def serve(address: str, group: int) -> None:
    """Resume every runtime that dials, until nobody is left that could. Then the port and its folder are removed."""
    is_chosen_resumed = False
    unseen = 0
    try:
        with Client.connect(f"{address},listen", timeout_s=LOOK_S) as client:
            while unseen < 2:  # one that was started while we looked is seen the next time
                began = time.monotonic()
                if not is_chosen_resumed:  # all but the first that dials are resumed by the port itself
                    with suppress(DiagnosticsError):
                        client.resume()
                        is_chosen_resumed = True
                time.sleep(max(0.0, began + LOOK_S - time.monotonic()))
                unseen = 0 if heirs(address, group) else unseen + 1
    finally:
        shutil.rmtree(os.path.dirname(address), ignore_errors=True)


if __name__ == "__main__":
    if os.fork():  # who started us waits for that: a library's process gets no child that it does not know
        os._exit(0)
    serve(sys.argv[1], int(sys.argv[2]))
