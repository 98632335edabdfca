"""Text that does not drive a terminal."""

from __future__ import annotations

from dotnetdiag._patterns import BIDI

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_CONTROLS |= {code: f"\\u{code:04x}" for code in BIDI}


def clean(text: str) -> str:
    """``text`` as one line that does not drive a terminal: names, paths and values come from elsewhere."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()
