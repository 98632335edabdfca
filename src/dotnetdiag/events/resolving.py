"""Metadata records → schemas.

The order of authority: layouts that files are known to declare wrongly (``well_known.override``), the fields the file
declares, the catalogue of the runtime's events in the highest version that is not above the record's, layouts known by
provider and event name.
"""

from __future__ import annotations

from functools import cache

from dotnetdiag.events import catalogue, well_known
from dotnetdiag.events.layout import SchemaField, from_metadata, parse_fields
from dotnetdiag.events.names import Description
from dotnetdiag.events.schema import EventSchema, Source
from dotnetdiag.events.titles import title
from dotnetdiag.nettrace.metadata import Metadata


@cache
def _fields(text: str) -> tuple[SchemaField, ...]:
    """Of texts of the catalogue and ``well_known`` alone: there are only so many."""
    return parse_fields(text)


def resolve(metadata: Metadata, pointer_size: int = 8) -> EventSchema:
    """The schema of a metadata record. Never fails: what is not known has no fields."""
    provider, name, opcode = title(metadata)
    is_carried = well_known.is_carrier(provider, metadata.event_id) and well_known.is_carried(metadata.name)
    override = well_known.override(provider, metadata.name)
    if is_carried and metadata.declared:
        override = well_known.carried_fields(metadata.name)
    described = catalogue.describe(provider, metadata.event_id, metadata.version)
    origin = Source.CATALOGUE
    if described is None and not metadata.fields and override is None:
        described = well_known.describe(provider, metadata.name, metadata.event_id, metadata.version)
        origin = Source.WELL_KNOWN
    named = described or catalogue.describe_any(provider, metadata.event_id)
    fields: tuple[SchemaField, ...] = ()
    source, layout_version = Source.NONE, metadata.version
    if override is not None:
        fields, source = _fields(override), Source.WELL_KNOWN
    elif metadata.fields:
        fields = from_metadata(metadata.fields, self_describing=metadata.self_describing)
        source = Source.FILE
    elif described is not None:
        fields, source, layout_version = _fields(described.fields), origin, described.version
    stated: Metadata | Description = metadata
    if named is not None and not metadata.level and not metadata.keywords:
        stated = named
    return EventSchema(
        provider=provider,
        event_id=metadata.event_id,
        version=metadata.version,
        name=name,
        manifest_name=named.manifest_name if named and (is_carried or not metadata.name) else metadata.name,
        level=stated.level,
        keywords=stated.keywords,
        opcode=metadata.opcode or opcode,
        fields=fields,
        source=source,
        layout_version=layout_version,
        pointer_size=pointer_size,
        provider_guid=metadata.provider_guid,
    )
