"""Which tables a result has."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dotnetdiag.analysis.diff import ProfileDiff
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.errors import UsageError
from dotnetdiag.export.texts import profile_only
from dotnetdiag.table import Table
from dotnetdiag.table.html import Tabular
from dotnetdiag.trace.method_names import Style

OFFERS = ("tables", "table")
"""Methods of results that have rows, and more to say than their rows."""


def tables_of(result: object, format_name: str, style: Style | None = None) -> tuple[Tabular, ...]:
    """A table, some of them, what a result says of itself as tables (``tables()``, ``table()``), or the methods of a profile or of a
    difference; the first is the one that matters most.
    """
    if isinstance(result, ProfileDiff):
        return (result.changes(),)
    if isinstance(result, StackProfile):
        return (profile_only(result, format_name).methods(style or Style.FULL),)
    if is_tabular(result):
        return (result,)  # type: ignore[return-value]
    own = next((getattr(result, name) for name in OFFERS if hasattr(type(result), name)), None)
    if own is not None:
        return tables_of(own(), format_name, style)
    if isinstance(result, Sequence) and result and all(map(is_tabular, result)):
        return tuple(result)
    raise UsageError(f"{format_name} shows tables and profiles, not a {type(result).__name__}")


def is_tabular(result: object) -> bool:
    """Whether it is a table, or what is read piece by piece as if it were one."""
    return isinstance(result, Table) or hasattr(type(result), "pieces")


def has_tables(result: object) -> bool:
    """Whether it is one or several tables, or gives some, and no more: profiles and their differences have stacks."""
    if isinstance(result, StackProfile | ProfileDiff):
        return False
    are_several = isinstance(result, Sequence) and all(map(is_tabular, result))
    return is_tabular(result) or are_several or any(hasattr(type(result), name) for name in OFFERS)


def only_table(result: object, format_name: str, style: Style | None = None) -> Tabular:
    """The first of them: a file of that format has no more."""
    return tables_of(result, format_name, style)[0]


def fresh_name(name: str, used: set[str], same: Callable[[str], str] = str) -> str:
    """The name, with a number where it is ``used``; it is then."""
    made, number = name, 1
    while same(made) in used:
        number += 1
        made = f"{name}_{number}"
    used.add(same(made))
    return made
