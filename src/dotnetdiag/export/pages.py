"""Pages that load nothing: their parts are files of the package, and their scripts run because a policy names them.

A page has its data as JSON in a script element of another type, in ASCII and with every ``<`` escaped, so that no name can end it; the pages'
scripts set names as text only; and a Content-Security-Policy lets those scripts run, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from importlib.resources import files
from typing import IO, Any

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Page:
    """What a page is made of: files of the assets. ``frames``: scripts of pages within it, which its policy lets run too."""

    title: str
    body: str
    styles: Sequence[str]
    scripts: Sequence[str]
    frames: Sequence[str] = ()
    notice: str = ""

    def text(self) -> str:
        """The page with everything but its data, which go to ``@DATA@``."""
        scripts = [asset(name).strip() for name in self.scripts]
        policy = [*scripts, *(asset(name).strip() for name in self.frames)]
        text = asset("shell.html")
        for mark, part in {
            "@HASHES@": " ".join(f"'sha256-{digest(script)}'" for script in policy),
            "@TITLE@": self.title,
            "@NOTICE@": self.notice,
            "@STYLE@": "\n".join(asset(name).strip() for name in self.styles),
            "@BODY@": asset(self.body),
            "@SCRIPTS@": "\n".join(f"<script>{script}</script>" for script in scripts),
        }.items():
            text = text.replace(mark, part, 1)
        return text

    def write(self, data: Any, file: IO[bytes]) -> None:
        """Write the page with its data. Numbers in them are finite."""
        text = json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
        before, after = self.text().split("@DATA@", 1)
        file.write(before.encode("utf-8"))
        file.write(text.encode("ascii"))
        file.write(after.encode("utf-8"))


def asset(name: str) -> str:
    """A file of the package's assets."""
    return files("dotnetdiag.export").joinpath("assets", name).read_text(encoding="utf-8")


def digest(script: str) -> str:
    """What a Content-Security-Policy knows a script by."""
    return base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
