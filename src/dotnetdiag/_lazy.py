"""Names of a package that are loaded when they are first used: an import of the package costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def loader(space: dict[str, Any], public: Mapping[str, str]) -> Callable[[str], Any]:
    """The ``__getattr__`` of a package. ``space`` is its ``globals()``; ``public`` says where each name is defined: a module of
    the package, or a dotted one, with ``:other_name`` behind it where it is called otherwise there.
    """
    package = space["__name__"]

    def load(name: str) -> Any:
        place = public.get(name)
        if place is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        from importlib import import_module

        module, _, other = place.partition(":")
        value = getattr(import_module(module if "." in module else f"{package}.{module}"), other or name)
        space[name] = value
        return value

    return load
