"""Where files lie for as long as something is made of them."""

from __future__ import annotations

import os

_ON_DISK = "/var/tmp"  # noqa: S108  # where the folder for what is temporary is memory, this one is not


def folder_on_disk() -> str | None:
    """A folder for what is too large for memory; None for that of ``tempfile``, which is asked for with ``TMPDIR``."""
    return None if "TMPDIR" in os.environ or not os.access(_ON_DISK, os.W_OK) else _ON_DISK
