"""What an event type of a file is called: provider, TraceEvent's name, opcode. Its fields stay unread."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from dotnetdiag.events import well_known
from dotnetdiag.events.names import event_name, implied_opcode, provider_guid

if TYPE_CHECKING:
    from dotnetdiag.nettrace import Metadata


def title(metadata: Metadata) -> tuple[str, str, int]:
    """(provider, TraceEvent's name, opcode) of a metadata record."""
    provider = provider_name(metadata.provider, metadata.provider_guid)
    titled = well_known.title(provider, metadata.name, metadata.event_id)
    if titled is None and not metadata.name:
        from dotnetdiag.events import catalogue  # a few milliseconds: the data of all events of the runtime

        titled = catalogue.title(provider, metadata.event_id)
    if titled is not None:
        return provider, *titled
    opcode = metadata.opcode or implied_opcode(metadata.name)
    return provider, event_name(metadata.name, opcode, metadata.event_id), opcode


def is_carrier(metadata: Metadata) -> bool:
    """Whether events of this type carry others, which are types of their own (``events.carried``)."""
    return well_known.is_carrier(metadata.provider, metadata.event_id) and not well_known.is_carried(metadata.name)


def provider_name(name: str, guid: UUID | None) -> str:
    """The name of a provider of which a file may give only the id (NetPerf 1): as stated, or by id."""
    if name:
        try:
            stated = UUID(name) if len(name) in (36, 38) else None
        except ValueError:
            return name
        return name if stated is None else _names().get(stated, name)
    return _names().get(guid, str(guid)) if guid is not None else ""


@cache
def _names() -> dict[UUID, str]:
    from dotnetdiag.events import catalogue

    return catalogue.guids() | {provider_guid(name): name for name in well_known.PROVIDERS}
