"""What a question has found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from dotnetdiag._dataclasses import as_dict, dataclass, field_names, replace
from dotnetdiag.analysis.answers import DIGITS
from dotnetdiag.table import Losses, Table
from dotnetdiag.table.table import SHOWN_ROWS


@dataclass(frozen=True, kw_only=True)
class Report:
    """Tables, ``totals``, and as ``notes`` how the figures came to be and what the recording lacks."""

    KIND: ClassVar[str]
    """What commands and pages call such reports."""
    MAIN: ClassVar[str]
    """The table that formats have which take one."""

    totals: Any
    notes: tuple[str, ...]

    @property
    def kind(self) -> str:
        """What commands and pages call it."""
        return self.KIND

    @property
    def rows(self) -> Table:
        """The table of a name that stands for all."""
        found: Table = getattr(self, self.MAIN)
        return found

    @property
    def losses(self) -> Losses:
        """What the recording lacks that was asked: events that were lost, a part that could not be read."""
        return self.rows.losses

    def _repr_html_(self) -> str:
        from dotnetdiag.table.html import fragment, paragraph

        told = {name: value for name, value in as_dict(self.totals).items() if value not in (None, {}, ())}
        return paragraph(", ".join(f"{name} {_said(value)}" for name, value in told.items())) + fragment(
            self.rows, SHOWN_ROWS
        )

    def saying(self, texts: Mapping[str, str]) -> Self:
        """The same with other words in the place of some notes."""
        return self.with_notes(tuple(texts.get(note, note) for note in self.notes))

    def with_notes(self, notes: tuple[str, ...]) -> Self:
        """The same with other notes, in its tables too."""
        if notes == self.notes:
            return self
        found = {name: getattr(self, name) for name in field_names(self)}
        tables = {name: one.with_notes(notes) for name, one in found.items() if isinstance(one, Table)}
        return replace(self, **tables, notes=notes)

    def document(self) -> dict[str, Any]:
        """As :meth:`to_json`, with tables in the place of their rows."""
        found = {name: getattr(self, name) for name in field_names(self)}
        tables = {name: one for name, one in found.items() if isinstance(one, Table)}
        names = sorted(tables, key=lambda name: not name.startswith("by_"))  # what is together before each by itself
        return {
            **{name: tables[name] for name in names},
            "totals": rounded(as_dict(self.totals)),
            "notes": list(self.notes),
            "losses": self.losses.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """Each table but the stacks as a list with an object for each row, ``totals``, ``notes``, and ``losses``."""
        return {name: one.to_pylist() if isinstance(one, Table) else one for name, one in self.document().items()}


def rounded(value: Any) -> Any:
    """Fractions to as many places as those of tables."""
    if isinstance(value, Mapping):
        return {name: rounded(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(rounded(one) for one in value)
    return round(value, DIGITS) if isinstance(value, float) else value


def _said(value: Any) -> str:
    if isinstance(value, Mapping):
        return f"({', '.join(f'{name} {_said(one)}' for name, one in value.items())})"
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
