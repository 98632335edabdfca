"""Pages that load nothing: their parts are files of the package, and their scripts run because a policy names them."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files


def asset(name: str) -> str:
    """A file of the package's assets."""
    return files("dotnetdiag.export").joinpath("assets", name).read_text(encoding="utf-8")


def digest(script: str) -> str:
    """What a Content-Security-Policy knows a script by."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
