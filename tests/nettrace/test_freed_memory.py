"""What was freed goes back to the system where a process has much, and stays where it has little."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from dotnetdiag.nettrace import kernels

PROGRAM = """
import os
import sys
import numpy as np
from dotnetdiag.nettrace import kernels

def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")

kernels.keep_freed()
pieces = [np.ones(1 << 16, np.uint8) for _ in range(int(sys.argv[1]) << 4)]
kept = pieces[::8]
del pieces
before = resident()
kernels.give_back_freed()
print(before - resident(), before)
"""


def given_back(megabytes: int) -> tuple[int, int]:
    """Of pieces of so many MB together, seven of eight of which are freed."""
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(megabytes)], capture_output=True, text=True, check=True, timeout=60
    )
    gone, before = map(int, said.stdout.split())
    return gone, before


@pytest.mark.skipif(
    kernels.KERNELS is None or platform.libc_ver()[0] != "glibc", reason="only the compiled module can, of glibc"
)
def test_much_is_given_back_and_little_is_used_again() -> None:
    gone, before = given_back(160)
    assert before > kernels.MUCH_BYTES
    assert gone > 100 << 20
    gone, before = given_back(24)
    assert before < kernels.MUCH_BYTES
    assert gone < 1 << 20
