"""What griffe cannot read out of the code, for readers (griffe's extension).

Public names that are another function's are that function; ``Operation[Either[T, A]]`` is ``T`` of Client, and ``A``, to be awaited, of
AsyncClient; roles in docstrings (``:meth:`table` ``) are links where a page has what they name, and code elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from copy import copy
from typing import Any, cast

from griffe import (
    Alias,
    AliasResolutionError,
    Attribute,
    Class,
    Docstring,
    Expr,
    ExprAttribute,
    ExprName,
    ExprSubscript,
    ExprTuple,
    Extension,
    Function,
    Module,
    NameResolutionError,
    Object,
)

_ROLE = re.compile(r":(?:class|meth|func|attr|data|mod|exc):`([^`]+)`")
SHELLS = {"AtOnce": 0, "Awaited": 1}
"""Which of an ``Either`` the commands of a class with this base give."""


class Readable(Extension):
    """Shows what people call, and what they get."""

    def on_package(self, *, pkg: Module, **_: Any) -> None:
        """The whole package is there: everything may be resolved."""
        for name, member in list(pkg.members.items()):
            if isinstance(member, Attribute) and isinstance(member.value, ExprAttribute):
                pkg.set_member(name, Alias(name, _path(pkg, member.value), parent=pkg, runtime=True))
        for one in list(_all(pkg)):
            if isinstance(one, Class):
                _give_commands(pkg, one)
        for one in _all(pkg):
            if isinstance(one, Function):
                _say_defaults(pkg, one)
            if one.docstring is not None:
                one.docstring.value = readable(one.docstring.value, one)


def _path(pkg: Module, value: ExprAttribute) -> str:
    """``_recipes.thing`` as the package imports it."""
    first, *rest = str(value).split(".")
    member = pkg.members[first]
    return ".".join([member.target_path if isinstance(member, Alias) else member.path, *rest])


def _all(one: Object) -> Iterator[Object]:
    """Everything that is defined in it."""
    yield one
    for member in list(one.members.values()):
        if isinstance(member, Object):
            yield from _all(member)


def _say_defaults(pkg: Module, function: Function) -> None:
    """The number in place of the constant's name."""
    for parameter in function.parameters:
        if isinstance(parameter.default, ExprName):
            path = parameter.default.canonical_path.partition(".")[2]
            constant = pkg.get_member(path) if path and _is_there(pkg, path) else None
            if isinstance(constant, Attribute) and isinstance(constant.value, str) and constant.parent is not None:
                parameter.default = constant.value if constant.parent.is_module else parameter.default


def _is_there(pkg: Module, path: str) -> bool:
    try:
        pkg.get_member(path)
    except (KeyError, AliasResolutionError):
        return False
    return True


def _give_commands(pkg: Module, owner: Class) -> None:
    """A class with ``Commands`` and a shell among its bases gets them as methods of its own, in that shell's form."""
    bases = [str(base) for base in owner.bases]
    shells = [SHELLS[base] for base in bases if base in SHELLS]
    if "Commands" not in bases or not shells:
        return
    commands = pkg["client.commands.Commands"]
    for name, function in commands.members.items():
        if isinstance(function, Function) and not name.startswith("_"):
            own = copy(function)
            own.returns = result(function.returns, shells[0])
            own.labels = {label for label in function.labels if label in ("async",)} | (
                {"async"} if shells[0] else set()
            )
            own.parent = owner
            if function.docstring is not None:
                own.docstring = Docstring(function.docstring.value, parent=own)
            owner.members.setdefault(name, own)


def result(returns: Any, shell: int) -> str | Expr | None:
    """``Operation`` and ``Either`` taken away."""
    for name in ("Operation", "Either"):
        if isinstance(returns, ExprSubscript) and str(returns.left) == name:
            inner = returns.slice
            returns = inner.elements[shell] if isinstance(inner, ExprTuple) else inner
    return cast("str | Expr | None", returns)


def readable(text: str, owner: Object) -> str:
    """A docstring without roles."""
    return _ROLE.sub(lambda match: _link(match[1], owner), text)


def _link(name: str, owner: Object) -> str:
    shown = name.rpartition(".")[2] if name.startswith("~") else name.lstrip(".")
    name = name.lstrip("~.")
    first, dot, rest = name.partition(".")
    scope: Object | None = owner
    while scope is not None and first not in scope.members:
        scope = scope.parent
    try:
        path = owner.resolve(first) if scope is None else scope.members[first].path
    except NameResolutionError:
        return f"`{shown}`"
    return f'<autoref identifier="{path}{dot}{rest}" optional><code>{shown}</code></autoref>'
