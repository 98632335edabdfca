"""Text that does not drive a terminal."""

from __future__ import annotations

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}


def clean(text: str) -> str:
    """``text`` as one line that does not drive a terminal: names, paths and values come from elsewhere."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()
