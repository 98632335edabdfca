"""A program of a few lines in a process of its own, which has imported nothing yet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def printed_alone(code: str, *arguments: str | Path) -> str:
    """What it prints. It must not fail."""
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.stdout
