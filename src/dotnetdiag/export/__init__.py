"""Results as files for other programs: one file per format, each a function of (result, binary file object).

May import errors, table, trace, analysis, and the library of the format where it is used. Never chooses file names, never
prints, never computes what ``analysis`` answers, keeps nothing between calls. :data:`FORMATS` is the registry; the file
of a format is imported when something is written in it. All texts are UTF-8, whatever a trace's names hold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, Protocol, TypeAlias, Union

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import MissingDependency, UsageError

if TYPE_CHECKING:
    from dotnetdiag.analysis.advice_report import AdviceReport
    from dotnetdiag.analysis.diff import ProfileDiff
    from dotnetdiag.analysis.report import Report
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.analysis.tracks import Tracks
    from dotnetdiag.heap.heap import Heap
    from dotnetdiag.table import Table
    from dotnetdiag.table.html import Tabular
    from dotnetdiag.trace.method_names import Style


class HasTables(Protocol):
    """A result that has rows, and more to say, as ``Report``."""

    def table(self) -> Table: ...


class HasSeveralTables(Protocol):
    """A result that has several, as ``TraceContents``."""

    def tables(self) -> Sequence[Table]: ...


Result: TypeAlias = Union[
    "StackProfile",
    "ProfileDiff",
    "Tracks",
    "Tabular",
    "Sequence[Tabular]",
    "HasTables",
    "HasSeveralTables",
    "Report",
    "AdviceReport",
    "Heap",
]
"""What can be written: weighted stacks, what happened over time, heaps, tables, or reports with theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format by its name for ``--format``. ``help`` is a line for people; ``suffix`` what its files end in.

    ``module`` has the function ``write(result, file, *, style=None)``. ``is_text`` says whether people can read it; ``tracks`` whether it shows
    all that ``Tracks`` tells over time (of a profile its samples); ``differences`` whether it can show a ``ProfileDiff``, ``tables`` whether a
    table (of a profile it shows the methods then); ``libraries`` and ``extra`` what it needs that is not installed with us.
    """

    name: str
    suffix: str
    module: str
    help: str
    is_text: bool = True
    tracks: bool = False
    differences: bool = False
    tables: bool = False
    libraries: tuple[str, ...] = ()
    extra: str = ""

    def check(self) -> None:
        """Raises MissingDependency for a library that is not installed."""
        for library in self.libraries:
            try:
                there = find_spec(library) is not None
            except ModuleNotFoundError:  # its parent is missing
                there = False
            if not there:
                raise MissingDependency(library.rpartition(".")[2], extra=self.extra, purpose=f"the format {self.name}")

    def write(self, result: Result, file: IO[bytes], *, style: Style | None = None) -> None:
        """Write the result; names are printed in ``style`` (None: FULL).

        Raises UsageError for a result that the format cannot show, and whatever ``file`` raises: what was written then
        is no whole file.
        """
        import_module(self.module).write(result, file, style=style)


FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        Format(
            name="speedscope",
            suffix=".speedscope.json",
            module="dotnetdiag.export.speedscope",
            help="for https://www.speedscope.app: each thread over time, and all threads together",
        ),
        Format(
            name="chromium",
            suffix=".chromium.json",
            module="dotnetdiag.export.chromium",
            help="trace events, for https://ui.perfetto.dev and chrome://tracing",
        ),
        Format(
            name="perfetto",
            suffix=".perfetto-trace",
            module="dotnetdiag.export.perfetto",
            help="for https://ui.perfetto.dev: threads with samples, collections, compilations, waits, requests, counters",
            is_text=False,
            tracks=True,
        ),
        Format(
            name="firefox",
            suffix=".firefox.json",
            module="dotnetdiag.export.firefox",
            help="for https://profiler.firefox.com: samples, and what happened as markers",
            tracks=True,
        ),
        Format(
            name="pprof",
            suffix=".pb.gz",
            module="dotnetdiag.export.pprof",
            help="for `go tool pprof` and all that reads its files",
            is_text=False,
            libraries=("google.protobuf",),
            extra="pprof",
        ),
        Format(
            name="collapsed",
            suffix=".collapsed.txt",
            module="dotnetdiag.export.collapsed",
            help="one line per stack and its weight, for flamegraph.pl and its relatives",
            differences=True,
        ),
        Format(
            name="flamegraph",
            suffix=".flamegraph.html",
            module="dotnetdiag.export.flamegraph",
            help="a flame graph in one HTML file, for any browser, without a network",
            differences=True,
        ),
        Format(
            name="json",
            suffix=".profile.json",
            module="dotnetdiag.export.json_profile",
            help="all stacks and methods, for programs of your own",
            differences=True,
        ),
        Format(
            name="csv",
            suffix=".csv",
            module="dotnetdiag.export.csv_table",
            help="a table, for spreadsheets",
            differences=True,
            tables=True,
        ),
        Format(
            name="jsonl",
            suffix=".jsonl",
            module="dotnetdiag.export.json_lines",
            help="a table as lines of JSON",
            differences=True,
            tables=True,
        ),
        Format(
            name="parquet",
            suffix=".parquet",
            module="dotnetdiag.export.parquet",
            help="a table, for programs that read columns",
            is_text=False,
            differences=True,
            tables=True,
            libraries=("pyarrow", "nanoarrow"),
            extra="arrow",
        ),
        Format(
            name="sqlite",
            suffix=".sqlite",
            module="dotnetdiag.export.sqlite",
            help="tables as a database",
            is_text=False,
            differences=True,
            tables=True,
        ),
        Format(
            name="markdown",
            suffix=".md",
            module="dotnetdiag.export.markdown",
            help="tables for issues and pull requests",
            differences=True,
            tables=True,
        ),
        Format(
            name="html",
            suffix=".table.html",
            module="dotnetdiag.export.html_table",
            help="tables as a page",
            differences=True,
            tables=True,
        ),
    )
}


def find_format(name: str, *, table: bool = False) -> Format:
    """The format of a name, in any case, of a profile or of tables. Raises UsageError that lists what there is."""
    formats = TABLE_FORMATS if table else FORMATS
    found = formats.get(name.lower())
    if found is None:
        raise UsageError(f"no format {name!r}{' of tables' if table else ''}; there are: {', '.join(formats)}")
    return found


TABLE_JSON = Format(
    name="json", suffix=".json", module="dotnetdiag.export.json_table", help="tables as one document", tables=True
)
TABLE_FORMATS: Mapping[str, Format] = {**{name: one for name, one in FORMATS.items() if one.tables}, "json": TABLE_JSON}
"""What tables can be written as. ``json`` of a profile has all its stacks, that of tables their rows."""
_ENDINGS = {".json": "json", ".html": "flamegraph", ".pb": "pprof", ".db": "sqlite", ".pftrace": "perfetto"}
_TABLE_ENDINGS = {".json": "json", ".html": "html", ".db": "sqlite"}
"""What shorter names mean."""


def format_of(path: str, *, table: bool = False) -> Format:
    """The format that a file's name ends in, of a profile or of tables. Raises UsageError that lists the endings, or says that the name
    promises stacks which a table has not.
    """
    formats, lower = (TABLE_FORMATS if table else FORMATS), path.lower()
    for one in FORMATS.values():
        if table and not one.tables and lower.endswith(one.suffix):
            raise UsageError(f"{path}: {one.name} shows stacks, and tables have none")
    for one in formats.values():
        if lower.endswith(one.suffix):
            return one
    for ending, name in (_TABLE_ENDINGS if table else _ENDINGS).items():
        if lower.endswith(ending):
            return formats[name]
    endings = ", ".join(one.suffix for one in formats.values())
    if path == "-":
        raise UsageError(
            f"-: a file's name is needed, of a format by its end ({endings}); a format alone goes to stdout"
        )
    raise UsageError(f"{path}: the name ends in no suffix of a format ({endings}); name the format")
