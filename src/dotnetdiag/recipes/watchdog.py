"""Who has a port of ours in its environment must not wait for us when we are gone: nobody lets it run when we are killed.

A runtime that was suspended by a port stays so when the port is closed: it dials it again, for as long as it lives (8.0.33, 9.0.22, 10.0.14,
NativeAOT 9; ipc-protocol.md §21.3). So a process of its own holds the other end of a pipe of ours, from before the first runtime could
dial. It does nothing but wait for the end of that pipe, or of our process; where that comes without a farewell, it becomes the keeper of the
port (``inherited_port``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO

from dotnetdiag.recipes import inherited_port

FAREWELL = b"."
FAREWELL_S = 5.0
_PROGRAM = """\
import os, select, sys
ours = int(sys.argv.pop(1))
poll = select.poll()
poll.register(0, select.POLLIN)
try:  # others may hold the pipe too, forked workers: its end alone does not tell
    poll.register(os.pidfd_open(ours), select.POLLIN)
    look_ms = None
except (AttributeError, OSError):
    look_ms = 1000
said = b""
while True:
    if any(descriptor == 0 for descriptor, _ in poll.poll(look_ms)):
        part = os.read(0, 64)
        if not part:
            break
        said += part
        if part.endswith(b"."):
            sys.exit()
    elif os.getppid() != ours:
        break
os.execv(sys.executable, [sys.executable, *sys.argv[1:], said.decode("ascii")])
"""


class Watchdog:
    """What is told of the port that it watches."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self._pipe = pipe

    def is_of(self, group: int) -> None:
        """The port is in the environment of this process group: it is kept for as long as anything of that could dial it."""
        if self._pipe is not None:
            with suppress(OSError):
                self._pipe.write(b"%d" % group)


@contextmanager
def watched_over(address: str, *, inherited: bool = False) -> Iterator[Watchdog]:
    """Within the block, should this process die, runtimes that wait at the port at ``address`` are resumed; where it is ``inherited``, also
    those that come later, as long as anybody has it in the environment. Where no process can be started nobody watches.
    """
    owner, process = os.getpid(), _start(address, inherited)
    try:
        yield Watchdog(process.stdin if process is not None else None)
    finally:
        if process is not None and os.getpid() == owner:  # a forked child that leaves the block is not who is watched
            assert process.stdin is not None
            with suppress(OSError):
                process.stdin.write(FAREWELL)
                process.stdin.close()
            try:
                process.wait(FAREWELL_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _start(address: str, inherited: bool) -> subprocess.Popen[bytes] | None:
    if sys.platform == "win32" or not sys.executable:
        return None
    try:
        return subprocess.Popen(
            # the least that Python needs: it waits, mostly for nothing
            [
                sys.executable,
                "-I",
                "-S",
                "-c",
                _PROGRAM,
                str(os.getpid()),
                *inherited_port.words(address, *(inherited_port.NO_GROUP if inherited else ())),
            ],
            env=inherited_port.environment(),
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    except (OSError, ValueError):
        return None
