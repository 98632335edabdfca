"""The formats of heaps: one table, as ``FORMATS`` is of results."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import IO, TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UsageError
from dotnetdiag.export import FORMATS

if TYPE_CHECKING:
    from dotnetdiag.heap.heap import Heap


@dataclass(frozen=True, slots=True, kw_only=True)
class HeapFormat:
    """A format by its name for ``--format``; ``module`` has the function ``write(heap, file)``. With ``parts`` it is a file for each, by
    ``write_part(heap, file, part)``. ``like``: a format of results whose library it needs.
    """

    name: str
    suffix: str
    module: str
    help: str
    parts: tuple[str, ...] = ()
    like: str | None = None

    def check(self) -> None:
        """Raises MissingDependency for a library that is not installed."""
        if self.like is not None:
            FORMATS[self.like].check()

    def write(self, heap: Heap, file: IO[bytes], part: str | None = None) -> None:
        """Write the heap, or a part of it."""
        module = import_module(self.module)
        if part is None:
            module.write(heap, file)
        else:
            module.write_part(heap, file, part)


HEAP_FORMATS: Mapping[str, HeapFormat] = {
    one.name: one
    for one in (
        HeapFormat(
            name="gcdump",
            suffix=".gcdump",
            module="dotnetdiag.export.heap_gcdump",
            help="for PerfView, Visual Studio and dotnet-gcdump",
        ),
        HeapFormat(
            name="heapsnapshot",
            suffix=".heapsnapshot",
            module="dotnetdiag.export.heap_snapshot",
            help="for Chrome DevTools: Memory, Load profile",
        ),
        HeapFormat(
            name="graphml",
            suffix=".graphml",
            module="dotnetdiag.export.heap_graphml",
            help="for Gephi, yEd and libraries of graphs",
        ),
        HeapFormat(
            name="parquet",
            suffix=".parquet",
            module="dotnetdiag.export.heap_tables",
            help="three tables in a file each: nodes, edges, types",
            parts=("nodes", "edges", "types"),
            like="parquet",
        ),
        HeapFormat(
            name="sqlite",
            suffix=".sqlite",
            module="dotnetdiag.export.heap_tables",
            help="a database of nodes, edges and types",
            like="sqlite",
        ),
        HeapFormat(
            name="html",
            suffix=".html",
            module="dotnetdiag.export.heap_page",
            help="a page: an icicle of what is kept alive, search, paths; without a network",
        ),
    )
}


def heap_format(name: str) -> HeapFormat:
    """The format of a name. Raises UsageError."""
    found = HEAP_FORMATS.get(name.lower())
    if found is None:
        raise UsageError(f"no format {name!r}; there are: {', '.join(HEAP_FORMATS)}")
    return found


def heap_format_of(file_name: str, *, others: tuple[str, ...] = ()) -> HeapFormat:
    """The format that a name of a file ends in. Raises UsageError, which tells of ``others`` too that the caller takes."""
    for one in HEAP_FORMATS.values():
        if file_name.lower().endswith(one.suffix):
            return one
    known = ", ".join([*(one.suffix for one in HEAP_FORMATS.values()), *others])
    raise UsageError(f"{file_name}: no format of heaps ends so; there are: {known}")
