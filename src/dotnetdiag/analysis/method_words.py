"""Names of methods as sentences have them."""

from __future__ import annotations

UNRESOLVED = "0x"


def is_named(method: str | None) -> bool:
    """Whether there is a name to tell."""
    return method is not None and not short(method).startswith(UNRESOLVED)


def short(name: str) -> str:
    """A method without its module and parameters; its line of source, where it has one, stays."""
    method, _, rest = name.partition("!")[2].partition("(")
    place = rest.rpartition(")")[2]
    return f"{method}{place if place[-1:].isdecimal() else ''}" or name
