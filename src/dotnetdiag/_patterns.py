"""Regular expressions that are compiled when something is first looked for: one takes 0.1 ms, and a short report has a dozen on its way of which it
uses one or two. And characters to look for in any text.
"""

from __future__ import annotations

import re
from typing import Any, cast

BIDI = (0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))
"""Characters that have no form, and turn round what follows them in the line, or break it."""


class _Later:
    """In place of a pattern; what was asked of it once it has itself."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        if not name.startswith("__"):
            setattr(self, name, found)
        return found


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``, later."""
    return cast("re.Pattern[str]", _Later(text, flags))
