"""Names of methods as sentences have them."""

from __future__ import annotations

UNRESOLVED = "0x"


def is_named(method: str | None) -> bool:
    """Whether there is a name to tell."""
    return method is not None and not short(method).startswith(UNRESOLVED)


def short(name: str) -> str:
    """A method without its module and parameters."""
    return name.partition("!")[2].partition("(")[0] or name
