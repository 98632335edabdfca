"""Text that does not drive a terminal."""

from __future__ import annotations

_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
BIDI = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that have no form, and turn round what follows them in the line, or break it."""
_CONTROLS |= {code: f"\\u{code:04x}" for code in BIDI}


def clean(text: str) -> str:
    """``text`` as one line that does not drive a terminal: names, paths and values come from elsewhere."""
    if text.isascii() and text.isprintable():
        return text
    return text.translate(_CONTROLS).encode("utf-8", "backslashreplace").decode()
