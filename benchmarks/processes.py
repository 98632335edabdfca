"""Processes and what they used: wall and processor time, peak memory, from ``wait4`` and so of the whole process.

A small process stands between: Linux counts what a parent had in memory when it forked towards the child's peak.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_BETWEEN = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(pid, 0)
text = "[%r, %r, %r, %r]" % (used.ru_utime, used.ru_stime, used.ru_maxrss, os.waitstatus_to_exitcode(status))
os.write(3, text.encode())
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Of one process that has ended. ``peak_bytes`` is resident memory."""

    wall_s: float
    user_s: float
    system_s: float
    peak_bytes: int
    exit_code: int

    @property
    def cpu_s(self) -> float:
        """Processor time."""
        return self.user_s + self.system_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A process that was started; ``finish`` waits for it."""

    process: subprocess.Popen[bytes]
    report: int
    began: float

    def finish(self) -> Usage:
        """What it used."""
        self.process.wait()
        wall = time.perf_counter() - self.began
        with os.fdopen(self.report, "rb") as file:
            user, system, peak_kb, code = json.loads(file.read())
        return Usage(wall_s=wall, user_s=user, system_s=system, peak_bytes=peak_kb * 1024, exit_code=code)


def start(command: Sequence[str], environment: Mapping[str, str]) -> Running:
    """Its output goes nowhere; its input is empty."""
    reading, writing = os.pipe()
    words = [sys.executable, "-I", "-S", "-c", f"import os; os.dup2({writing}, 3)\n{_BETWEEN}", *command]
    began = time.perf_counter()
    process = subprocess.Popen(
        words,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(writing,),
    )
    os.close(writing)
    return Running(process=process, report=reading, began=began)


def run(command: Sequence[str], environment: Mapping[str, str]) -> Usage:
    """Start and wait. The wall time has the small process in it: the same few milliseconds for everybody."""
    return start(command, environment).finish()
