"""What to type for a runtime that is held at its start."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotnetdiag.recipes.suspension import Hold


def how_to_resume(hold: Hold) -> str:
    """What to type. It listens on the port, whose folder may be gone."""
    from dotnetdiag.recipes.dumps import host_path

    if hold.port is None:
        return f"dotnetdiag resume -p {hold.pid}"
    port = host_path(hold.pid, hold.port)
    folder = os.path.dirname(port)
    make = "" if os.path.isdir(folder) else f"mkdir -p {shlex.quote(folder)} && "
    return f"{make}dotnetdiag resume --diagnostic-port {shlex.quote(port)}"
