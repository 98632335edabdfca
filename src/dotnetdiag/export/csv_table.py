"""Methods as a table with a heading, for spreadsheets: UTF-8, quoted as RFC 4180 has it, most exclusive weight first."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import IO

from dotnetdiag.analysis.diff import Change, ProfileDiff
from dotnetdiag.analysis.profile import StackProfile
from dotnetdiag.export.texts import clean, frame_texts, profile_only
from dotnetdiag.trace.method_names import Style

COLUMNS = ("method", "module", "exclusive", "inclusive", "exclusive_percent", "inclusive_percent", "unit")
_CHANGES = ("before", "after", "change", "relative_percent")
DIFF_COLUMNS = (
    "method",
    "module",
    *(f"{kind}_{one}" for kind in ("exclusive", "inclusive") for one in _CHANGES),
    "unit",
)
_DIGITS = 6
"""Behind the point: of milliseconds these are the nanoseconds that traces count in."""

Row = Sequence[str | float | None]


def write(result: object, file: IO[bytes], *, style: Style | None = None) -> None:
    """Write the methods of a profile or of a difference."""
    if isinstance(result, ProfileDiff):
        _write(file, DIFF_COLUMNS, _diff_rows(result))
    else:
        _write(file, COLUMNS, _rows(profile_only(result, "csv"), style))


def _write(file: IO[bytes], columns: Sequence[str], rows: Iterable[Row]) -> None:
    text = io.TextIOWrapper(file, encoding="utf-8", newline="")
    try:
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
        text.flush()
    finally:
        text.detach()


def _rows(profile: StackProfile, style: Style | None) -> Iterable[Row]:
    table, total = profile.by_method(), profile.total or 1.0
    ids = table.frame.tolist()
    columns = zip(
        ids, frame_texts(profile, ids, style), table.exclusive.tolist(), table.inclusive.tolist(), strict=True
    )
    for number, name, own, entered in columns:
        module = clean(profile.frames[number].module)
        shares = (round(100 * own / total, _DIGITS), round(100 * entered / total, _DIGITS))
        yield (name, module, round(own, _DIGITS), round(entered, _DIGITS), *shares, clean(profile.unit))


def _diff_rows(diff: ProfileDiff) -> Iterable[Row]:
    for method in diff.methods:
        changes = (*_change(method.exclusive), *_change(method.inclusive))
        yield (clean(method.name), clean(method.frame.module), *changes, clean(diff.unit))


def _change(change: Change) -> tuple[float | None, ...]:
    relative = None if change.relative is None else round(change.relative, _DIGITS)
    return (*(round(one, _DIGITS) for one in (change.before, change.after, change.absolute)), relative)
