"""What a program has started may outlive it, and has the port's variable still: a .NET program that a script's background job starts
after the recording would wait at its start for a port that is gone, and for ever. So the port is kept for as long as anybody could dial it,
by a process of its own: ``python -m dotnetdiag.recipes.inherited_port ADDRESS GROUP`` resumes who dials, and ends with the last of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.transport import processes

LOOK_S = 1.0
GRACE_S = 0.5
"""What was ended with a signal is gone by then."""
AGAIN_S = 0.05
"""For another look: of what just begins, or becomes another program, nothing is seen."""
START_S = 30.0
NO_GROUP = ("-1",)
"""For a port in an environment whose process group is not known: that of a program which was started in this moment."""
LET_GO_S = 3.0
"""A runtime that finds nobody dials again after half a second at the most (ipc-protocol.md §21.3)."""


def heirs(address: str, group: int) -> tuple[int, ...]:
    """The processes that have the port at ``address`` in their environment, and those of the process group (which may have written
    another title over it); where processes cannot be seen, ``group`` when it has members. What has ended does not count.
    """
    if sys.platform == "linux":
        return tuple(pid for pid in processes.iter_pids() if _is_heir(pid, address, group))
    if sys.platform != "win32":
        with suppress(OSError):
            os.killpg(group, 0)
            return (group,)
    return ()


def _is_heir(pid: int, address: str, group: int) -> bool:
    fields = processes.stat_fields(pid) or []
    if not fields or fields[0] in (b"Z", b"X"):
        return False
    return fields[2:3] == [b"%d" % group] or os.fsencode(address) in (processes.read(pid, "environ") or b"")


def leave(address: str, group: int) -> tuple[int, ...]:
    """What is done with a port that is closed: its folder is removed. Or a process stays that keeps it, and removes it at the end, because
    others could dial it: who they are. Nobody, too, where no process can be started.
    """
    found: tuple[int, ...] = ()
    try:
        _wait_for_the_end(address, group)
    finally:  # whatever interrupts that
        found = heirs(address, group)
        if not found or not _start_keeper(address, group):
            found = ()
            shutil.rmtree(os.path.dirname(address), ignore_errors=True)
    return found


def _wait_for_the_end(address: str, group: int) -> None:
    unseen, ends = 0, time.monotonic() + GRACE_S
    while unseen < 2 and time.monotonic() < ends:
        unseen = 0 if heirs(address, group) else unseen + 1
        time.sleep(AGAIN_S)


def words(address: str, *groups: str) -> list[str]:
    """What Python is started with to keep the port; of groups that are named the last counts. None: the port is in nobody's environment."""
    return ["-P", "-m", __name__, address, *groups]


def environment() -> dict[str, str]:
    """In which Python finds this package."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH"))))}


def _start_keeper(address: str, group: int) -> bool:
    try:
        starter = subprocess.Popen(
            [sys.executable, *words(address, str(group))],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        return starter.wait(START_S) == 0
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False


def serve(address: str, group: int) -> None:
    """Resume every runtime that dials, until nobody is left that could, or a signal comes. Then the port and its folder are removed."""
    try:
        with _keeping(address) as resume:
            unseen = 0
            while unseen < 2:  # one that was started while we looked is seen the next time
                began = time.monotonic()
                resume()
                time.sleep(max(0.0, began + LOOK_S - time.monotonic()))
                unseen = 0 if heirs(address, group) else unseen + 1
    finally:
        shutil.rmtree(os.path.dirname(address), ignore_errors=True)


def let_go(address: str) -> None:
    """Resume every runtime that waits at a port that is in nobody's environment but theirs: those dial within a second. Another who listens
    there by now has them.
    """
    with suppress(DiagnosticsError), _keeping(address) as resume:
        ends = time.monotonic() + LET_GO_S
        while time.monotonic() < ends:
            resume()
            time.sleep(AGAIN_S)


@contextmanager
def _keeping(address: str) -> Iterator[Callable[[], None]]:
    """Listening there; what is given resumes the first that has dialled. All others are resumed by the port itself."""
    is_chosen_resumed = False
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    with Client.connect(
        f"{address},listen", timeout_s=START_S
    ) as client:  # the file of who was killed may be too young to be stale
        client.timeout_s = LOOK_S

        def resume() -> None:
            nonlocal is_chosen_resumed
            if not is_chosen_resumed:
                with suppress(DiagnosticsError):
                    client.resume()
                    is_chosen_resumed = True

        yield resume


if __name__ == "__main__":
    if os.fork():  # who started us waits for that: a library's process gets no child that it does not know
        os._exit(0)
    if groups := [group for group in sys.argv[2:] if group]:
        serve(sys.argv[1], int(groups[-1]))
    else:
        let_go(sys.argv[1])
