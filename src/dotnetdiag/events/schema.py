"""What one event type is: its names, and its fields with their layouts.

:func:`resolve` makes a schema from the metadata record of a file. The order of authority: layouts that files are
known to declare wrongly (``known.override``), the fields the file declares, layouts known by provider and event
name, the catalogue of the runtime's events in the highest version that is not above the record's.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from dotnetdiag.events import names
from dotnetdiag.events.layout import SchemaField, from_metadata
from dotnetdiag.nettrace.metadata import Metadata


class Source(StrEnum):
    """Where the fields of a schema come from."""

    FILE = "file"
    CATALOGUE = "catalogue"
    KNOWN = "known"
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


def resolve(metadata: Metadata, pointer_size: int = 8) -> EventSchema:
    """The schema of a metadata record. Never fails: what is not known has no fields."""
    from dotnetdiag.events import catalogue, known  # they make schemas

    provider, name, opcode = names.title(metadata)
    override = known.override(provider, metadata.name)
    native = catalogue.lookup(provider, metadata.event_id, metadata.version)
    if native is None and not metadata.fields and override is None:
        native = known.lookup(provider, metadata.name, metadata.event_id, metadata.version)
    known_name = native or catalogue.any_version(provider, metadata.event_id)
    fields: tuple[SchemaField, ...] = ()
    source, layout_version = Source.NONE, metadata.version
    if override is not None:
        fields, source = override, Source.KNOWN
    elif metadata.fields:
        fields = from_metadata(metadata.fields, self_describing=metadata.self_describing)
        source = Source.FILE
    elif native is not None:
        fields, source, layout_version = native.fields, native.source, native.layout_version
    stated = metadata.level or metadata.keywords or known_name is None
    return EventSchema(
        provider=provider,
        event_id=metadata.event_id,
        version=metadata.version,
        name=name,
        manifest_name=metadata.name or (known_name.manifest_name if known_name else ""),
        level=metadata.level if stated or known_name is None else known_name.level,
        keywords=metadata.keywords if stated or known_name is None else known_name.keywords,
        opcode=metadata.opcode or opcode,
        fields=fields,
        source=source,
        layout_version=layout_version,
        pointer_size=pointer_size,
        provider_guid=metadata.provider_guid,
    )
