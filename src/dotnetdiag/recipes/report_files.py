"""Reports in files: as a page with a chart, or as tables in another program's format."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

from dotnetdiag.errors import UsageError
from dotnetdiag.export import find_format, format_of
from dotnetdiag.recipes.outputs import check_outputs, replacing

if TYPE_CHECKING:
    from datetime import datetime

    from dotnetdiag.analysis.advice_report import AdviceReport
    from dotnetdiag.analysis.report import Report
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.table import Table
    from dotnetdiag.trace.trace import Trace

PAGE = ".html"
SEVERAL = ("sqlite", "markdown", "html", "json")
"""Formats of tables whose files hold all tables of a report; those of the others hold the first."""


def check_files(
    page: Path | None, tables: Path | None, form: str | None, *, force: bool, sources: Sequence[Path] = ()
) -> None:
    """Before anything is read: raises OutputExists, OutputError, UsageError for an unknown format, two names of one file, or one of
    ``sources``, and MissingDependency.
    """
    paths = [path for path in (page, tables) if path is not None]
    if len(paths) > 1 and paths[0].absolute() == paths[1].absolute():
        raise UsageError(f"{paths[0]} would be a page and tables")
    check_outputs(paths, force=force, sources=sources)
    if tables is not None:
        _format(tables, form).check()


def write_page(
    reports: Mapping[str, Any],
    path: Path,
    *,
    name: str,
    flame: StackProfile | None = None,
    start: datetime | None = None,
    seconds: float | None = None,
    force: bool = False,
) -> int:
    """Write reports by their kinds as one page, with a flame graph behind them; gives its bytes. ``start`` and ``seconds``: since when, and for how
    long, was recorded. Raises
    OutputExists and OutputError.
    """
    from dotnetdiag.export import report_page

    with replacing(path, force=force) as file:
        report_page.write(reports, file, name=name, flame=flame, start=start, seconds=seconds)
        return file.tell()


def write_tables(made: Any, rows: Table, path: Path, form: str | None, *, force: bool = False) -> int:
    """Write ``rows`` of a report, or all its tables where the format has room for several, in the format named or that the name ends in; gives
    its bytes. Raises as :func:`check_files`.
    """
    chosen = _format(path, form)
    with replacing(path, force=force) as file:
        chosen.write(_named(made, rows) if chosen.name in SEVERAL else rows, file)
        return file.tell()


def is_json(path: Path, form: str | None) -> bool:
    """Whether tables would be written as JSON."""
    return bool(_format(path, form).name == "json")


def write_text(pieces: Iterable[str], path: Path, *, force: bool = False) -> int:
    """Write a text that comes in pieces; gives its bytes. What UTF-8 cannot say (a lone surrogate) is as JSON has it. Raises as
    :func:`write_page`.
    """
    with replacing(path, force=force) as file:
        for piece in pieces:
            file.write(piece.encode("utf-8", "backslashreplace"))
        return file.tell()


def is_report(result: object) -> TypeGuard[Report | AdviceReport]:
    """Whether it is the answer to a question, with tables and totals."""
    from dotnetdiag.analysis.advice_report import AdviceReport
    from dotnetdiag.analysis.report import Report

    return isinstance(result, Report | AdviceReport)


def write_report(made: Report | AdviceReport, path: Path, form: str | None, *, force: bool = False) -> None:
    """Write a report as a page, where the name ends in .html and no format is named, or its tables as :func:`write_tables`."""
    if form is None and path.suffix.lower() == PAGE and not path.name.lower().endswith(find_format("html").suffix):
        write_page({made.kind: made}, path, name="", force=force)
    else:
        write_tables(made, made.rows, path, form, force=force)


def everything_as_page(trace: Trace, path: Path, *, force: bool = False) -> int:
    """Write all reports on a recording and its flame graph as one page; gives its bytes. Raises OutputExists and OutputError."""
    from dotnetdiag.analysis.everything import everything

    made = everything(trace)
    seconds = trace.duration.total_seconds()
    return write_page(
        made.reports, path, name=trace.name, flame=made.cpu, start=trace.start, seconds=seconds, force=force
    )


def _format(path: Path, form: str | None) -> Any:
    return format_of(str(path), table=True) if form is None else find_format(form, table=True)


def _named(made: Any, rows: Table) -> list[Table]:
    """The tables of a report, ``rows`` first, called as its fields are."""
    from dotnetdiag.export.report_page import tables_in

    found = sorted(tables_in(made).items(), key=lambda one: one[1] is not rows)
    return [one.with_title(name) for name, one in found if one.columns] or [rows]
