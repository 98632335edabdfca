"""``dotnetdiag-enable.pth`` in the ``site-packages`` of this environment: one line, which :mod:`site` runs at the start of every program.

Where the variable is not set it is a look at the environment, some microseconds; where this package is gone, nothing.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tempfile
from contextlib import suppress
from pathlib import Path

from dotnetdiag.errors import UsageError
from dotnetdiag.server.enabling import VARIABLE

NAME = "dotnetdiag-enable.pth"
LINE = (
    f'import os; os.environ.get("{VARIABLE}") and __import__("importlib.util").util.find_spec("dotnetdiag") '
    'and __import__("dotnetdiag.server.enabling", fromlist=["start"]).start()\n'
)
_MARK = "dotnetdiag.server.enabling"
"""A file of that name without it is somebody else's."""
_LARGEST = 4096


def install_hook(folder: Path | None = None) -> Path:
    """Write the file; where it is. ``folder``: by default that of this environment's pure Python packages. What is there is replaced.

    Raises UsageError where it cannot be written, belongs to somebody else, or the environment is the system's (PEP 668); nothing has
    changed then.
    """
    path = _path(folder)
    _require_ours(path)
    try:
        descriptor, made = tempfile.mkstemp(prefix=f".{NAME}", dir=path.parent)
    except OSError as exc:
        raise _refused(path, exc) from exc
    try:
        with open(descriptor, "w", encoding="ascii") as file:
            file.write(LINE)
        os.chmod(made, 0o644)
        os.replace(made, path)
    except OSError as exc:
        with suppress(OSError):
            os.unlink(made)
        raise _refused(path, exc) from exc
    return path


def remove_hook(folder: Path | None = None) -> Path | None:
    """Remove the file; where it was, None where there was none. Raises UsageError, as ``install_hook``."""
    path = _path(folder)
    _require_ours(path)
    try:
        path.unlink()
    except FileNotFoundError:
        return None
    except OSError as exc:
        raise _refused(path, exc) from exc
    return path


def _path(folder: Path | None) -> Path:
    if folder is not None:
        return folder / NAME
    marker = Path(sysconfig.get_path("stdlib")) / "EXTERNALLY-MANAGED"
    if sys.prefix == sys.base_prefix and marker.exists():
        raise UsageError(
            f"{sys.prefix} is managed by the system ({marker}): do this with the Python of a virtual environment"
        )
    return Path(sysconfig.get_path("purelib")) / NAME


def _require_ours(path: Path) -> None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(_LARGEST)
    except FileNotFoundError:
        return
    except OSError as exc:
        raise _refused(path, exc) from exc
    if _MARK not in text:
        raise UsageError(f"{path} is not a file of this package: move it away first")


def _refused(path: Path, exc: OSError) -> UsageError:
    return UsageError(
        f"{path}: {exc.strerror}; do this as the owner of that folder, or with the Python of an environment of yours"
    )
