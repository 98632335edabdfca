"""Regular expressions that are compiled when something is first looked for: one takes 0.1 ms, and a short report has a dozen on its way of which it
uses one or two.
"""

from __future__ import annotations

import re
from typing import Any, cast


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
