"""Results as files for other programs: one file per format, each a function of (result, binary file object).

May import errors, trace, analysis, and the library of the format where it is used. Never chooses file names, never
prints, never computes what ``analysis`` answers, keeps nothing between calls. :data:`FORMATS` is the registry; the file
of a format is imported when something is written in it. All texts are UTF-8, whatever a trace's names hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import IO, TYPE_CHECKING, TypeAlias, Union

from dotnetdiag.errors import MissingDependency, UsageError

if TYPE_CHECKING:
    from dotnetdiag.analysis.diff import ProfileDiff
    from dotnetdiag.analysis.profile import StackProfile
    from dotnetdiag.trace.method_names import Style


Result: TypeAlias = Union["StackProfile", "ProfileDiff"]
"""What can be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A format by its name for ``--format``. ``help`` is a line for people; ``suffix`` what its files end in.

    ``module`` has the function ``write(result, file, *, style=None)``. ``is_text`` says whether people can read it;
    ``differences`` whether it can show a ``ProfileDiff``; ``library`` and ``extra`` what it needs that is not installed with us.
    """

    name: str
    suffix: str
    module: str
    help: str
    is_text: bool = True
    differences: bool = False
    library: str = ""
    extra: str = ""

    def check(self) -> None:
        """Raises MissingDependency for a library that is not installed."""
        try:
            there = not self.library or find_spec(self.library) is not None
        except ModuleNotFoundError:  # its parent is missing
            there = False
        if not there:
            raise MissingDependency(
                self.library.rpartition(".")[2], extra=self.extra, purpose=f"the format {self.name}"
            )

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
            name="pprof",
            suffix=".pb.gz",
            module="dotnetdiag.export.pprof",
            help="for `go tool pprof` and all that reads its files",
            is_text=False,
            library="google.protobuf",
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
            help="a table of methods, for spreadsheets",
            differences=True,
        ),
    )
}


def find_format(name: str) -> Format:
    """The format of a name, in any case. Raises UsageError that lists what there is."""
    found = FORMATS.get(name.lower())
    if found is None:
        raise UsageError(f"no format {name!r}; there are: {', '.join(FORMATS)}")
    return found


def format_of(path: str) -> Format:
    """The format that a file's name ends in. Raises UsageError that lists the endings."""
    lower = path.lower()
    for one in FORMATS.values():
        if lower.endswith(one.suffix):
            return one
    endings = ", ".join(one.suffix for one in FORMATS.values())
    raise UsageError(f"{path}: the name ends in no suffix of a format ({endings}); name the format")
