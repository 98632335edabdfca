"""The values that messages are: dataclasses whose methods are written once."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass
from dataclasses import fields as fields_of
from typing import Any, ClassVar, NoReturn, dataclass_transform


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Value:
    """Named values: given by keyword, compared by value, never changed. Every subclass is a dataclass, without saying so.

    ``dataclass`` would compile five methods for each: importing tracing, process_info and replies then took 48 ms, and takes 37 like this
    (median of 7, all that they import included).
    """

    _NAMES: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
        cls._NAMES = tuple(field.name for field in fields_of(cls))  # type: ignore[arg-type] # it is one now

    def __init__(self, **values: Any) -> None:
        kind = type(self)
        for name in kind._NAMES:
            value = values.pop(name, MISSING) if name in values else getattr(kind, name, MISSING)
            if value is MISSING:
                raise TypeError(f"{kind.__name__}: {name} is missing")
            object.__setattr__(self, name, value)
        if values:
            raise TypeError(f"{kind.__name__}: no such field: {', '.join(values)}")

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to {name}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete {name}")

    def __eq__(self, other: object) -> bool:
        return vars(self) == vars(other) if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"
