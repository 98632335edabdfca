"""Types as the reference spells them: of ids in the order of their numbers, a name and a module for each (gcdump.md §6, step 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass

if TYPE_CHECKING:
    from dotnetdiag.events import Column

_ARITY = re.compile(r"`[0-9]+")
_ARRAY, _RCW = 8, 4
UNDEFINED = "UNDEFINED"
"""The type of what is referred to and was never described."""


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One row of Type/BulkType."""

    module_id: int
    name_id: int
    flags: int
    name: str


class TypeRows:
    """All rows of Type/BulkType of a process, by id: the last one that came."""

    def __init__(self) -> None:
        self.by_id: dict[int, TypeRow] = {}

    def take(self, fields: Mapping[str, Column]) -> None:
        """Rows of a block."""
        numbers = ("TypeID", "ModuleID", "TypeNameID", "Flags")
        columns = [fields[name].numpy().tolist() for name in numbers]
        for type_id, module, name_id, flags, name in zip(*columns, fields["Name"].to_pylist(), strict=True):
            self.by_id[type_id] = TypeRow(module, name_id, flags, str(name or ""))


def spelled(row: TypeRow) -> str:
    """The name in the reference's spelling: ``List<System.String>`` of ``List`1[System.String]``."""
    if not row.name:
        return f"{'ArrayType' if row.flags & _ARRAY else 'Type'}(0x{row.name_id:x})"
    name = _ARITY.sub("", row.name) if "`" in row.name else row.name
    if "[" in name or "<>" in name:
        name = name.replace("[", "<").replace("]", ">").replace("<>", "[]")
    return f"[RCW {name}]" if row.flags & _RCW else name


class TypeTable:
    """Types with equal names in equal modules are one."""

    def __init__(self, rows: TypeRows, modules: Mapping[int, str]) -> None:
        self._rows, self._modules = rows, modules
        self.names: list[str] = []
        self.modules: list[str | None] = []
        self.unknown = 0
        self._numbers: dict[tuple[str, str | None], int] = {}
        self.add(UNDEFINED, None)

    def add(self, name: str, module: str | None) -> int:
        """The number of a type, a new one where it is new."""
        number = self._numbers.setdefault((name, module), len(self.names))
        if number == len(self.names):
            self.names.append(name)
            self.modules.append(module)
        return number

    def numbers(self, ids: Sequence[int]) -> list[int]:
        """Those of type ids."""
        return [self._number(number) for number in ids]

    def _number(self, type_id: int) -> int:
        row = self._rows.by_id.get(type_id)
        if row is None:
            self.unknown += 1
            return self.add(f"UNKNOWN 0x{type_id:x}", None)
        return self.add(spelled(row), self._module(row.module_id))

    def _module(self, module_id: int) -> str:
        return self._modules.get(module_id) or f"Module(0x{module_id:x})"

    def name_of(self, type_id: int) -> str:
        """The name of a type, for the names of what holds its objects."""
        row = self._rows.by_id.get(type_id)
        return f"Type(0x{type_id:x})" if row is None else spelled(row)


_SIZE = re.compile(r" \((?:Bytes > [0-9]+[KMG]|(?:Bytes > [0-9]+[KMG],)?(?:No)?Ptrs,ElemSize=[0-9]+)\)$")
"""Of PerfView's own dumps too: what its arrays have besides follows from the name."""
LIMITS = (
    (1_000, "1K"),
    (10_000, "10K"),
    (100_000, "100K"),
    (1_000_000, "1M"),
    (10_000_000, "10M"),
    (100_000_000, "100M"),
)
"""What the reference writes behind the names of larger objects: of those above 1,000 bytes the largest that they reach."""


def without_size(name: str) -> str:
    """The name without what the reference, or PerfView, writes behind it: the size of an object, what an array is made of."""
    return _SIZE.sub("", name) if name.endswith(")") else name


def merged(
    names: Sequence[str | None], modules: Sequence[str | None]
) -> tuple[list[int], list[str], list[str | None], bool]:
    """(the new number of each type, names, modules, whether any name had its size): types that differ in the size behind the name are one, and
    type 0 is that of which nothing is known.
    """
    known: dict[tuple[str, str | None], int] = {(UNDEFINED, None): 0}
    numbers, has_sizes = list[int](), False
    for name, module in zip(names, modules, strict=True):
        plain = without_size(name or "")
        has_sizes |= plain != (name or "")
        numbers.append(known.setdefault((plain, module), len(known)))
    return numbers, [name for name, _ in known], [module for _, module in known], has_sizes
