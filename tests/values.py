"""The dataclasses of a package, for the tests that say what holds for all of them."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from types import ModuleType
from typing import Any


def values_of(package: ModuleType) -> list[type]:
    """All that are defined in the package, by name."""
    found = []
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        space = vars(importlib.import_module(module.name))
        found += [one for one in space.values() if isinstance(one, type) and one.__module__ == module.name]
    return sorted(filter(dataclasses.is_dataclass, found), key=lambda one: f"{one.__module__}.{one.__name__}")


def assert_is_a_value(kind: Any, *, kw_only: bool = True) -> None:
    """It cannot be changed, has no ``__dict__``, and is made by name."""
    assert kind.__dataclass_params__.frozen
    assert kind.__dataclass_params__.eq
    assert "__slots__" in vars(kind)
    assert all(field.kw_only is kw_only for field in dataclasses.fields(kind))
