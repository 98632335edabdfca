"""What one event type is: its names, and its fields with their layouts."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.events import names
from dotnetdiag.events.layout import SchemaField


class Source(StrEnum):
    """Where the fields of a schema come from."""

    FILE = "file"
    CATALOGUE = "catalogue"
    WELL_KNOWN = "well-known"
    """Layouts of ``well_known.py``."""
    INFERRED = "inferred"
    """From the lengths of the payloads, where nothing declares them."""
    NONE = "none"
    """There are none: what a payload has is kept as bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSchema:
    """One event type of one provider, in one version. ``name`` is TraceEvent's; ``opcode`` may be implied by the name.

    ``layout_version`` is the version that the fields are of: lower than ``version`` when only an older one is known,
    and then bytes may follow the fields.
    """

    provider: str
    event_id: int
    version: int
    name: str
    manifest_name: str
    level: int = 0
    keywords: int = 0
    opcode: int = 0
    fields: tuple[SchemaField, ...] = ()
    source: Source = Source.NONE
    layout_version: int = 0
    pointer_size: int = 8
    provider_guid: UUID | None = None

    def matches(self, text: str) -> bool:
        """Whether a user who writes ``text`` means this event."""
        return names.matches(text, self.provider, self.name, self.manifest_name)

    @property
    def self_describing(self) -> bool:
        """Whether the only field is an unnamed structure, whose members people mean."""
        return len(self.fields) == 1 and self.fields[0].name == "" and bool(self.fields[0].layout.fields)
