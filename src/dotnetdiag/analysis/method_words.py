"""Names of methods as sentences have them."""

from __future__ import annotations

UNRESOLVED = "0x"


def is_named(method: str | None) -> bool:
    """Whether there is a name to tell."""
    return method is not None and not short(method).startswith(UNRESOLVED)


def short(name: str) -> str:
    """A method without its module and parameters; its line of source, where it has one, stays."""
    method, _, rest = name.partition("!")[2].partition("(")
    return f"{method}{_behind_parameters(rest)}" or name


def without_line(name: str) -> str:
    """A method without its line of source, where it has one: behind its parameters."""
    method, bracket, rest = name.partition("(")
    return f"{method}{bracket}{rest.removesuffix(_behind_parameters(rest))}"


def _behind_parameters(text: str) -> str:
    """What follows the bracket that closes them, if it is a line."""
    depth = 1
    for place, one in enumerate(text):
        depth += (one == "(") - (one == ")")
        if not depth:
            return text[place + 1 :] if text[-1:].isdecimal() else ""
    return ""
