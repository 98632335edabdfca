"""What is known of the events of a provider before one has come: their names, their fields, and the names of values.

Of the runtime's providers all events are known, of others none. A name that is not among what is known would be waited for in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UnknownName, near
from dotnetdiag.events import catalogue, well_known
from dotnetdiag.events.catalogue import ValueMap
from dotnetdiag.events.layout import SchemaField, parse_fields
from dotnetdiag.events.names import Description, matches
from dotnetdiag.trace.header import PAYLOAD, key_meant
from dotnetdiag.trace.where import Where

UNASKED = ("Microsoft-Windows-DotNETRuntimeRundown", well_known.EVENT_PIPE)
"""Providers whose events come into every session, and are shown when they are asked for by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEvent:
    """An event in one version."""

    provider: str
    name: str
    manifest_name: str
    fields: Mapping[str, SchemaField]

    def values(self, field: str) -> ValueMap | None:
        """The names that the runtime gives to a field's values."""
        return catalogue.enumeration(self.provider, self.fields[field])


def events_of(provider: str) -> list[KnownEvent] | None:
    """All events of a provider, in any case, in each version; None where they are not known."""
    one_event = (well_known.SAMPLE_PROFILER, well_known.EVENT_PIPE)
    by_lower = {name.lower(): name for name in (*catalogue.providers(), *one_event)}
    provider = by_lower.get(provider.lower(), provider)
    known = catalogue.provider(provider)
    if known is not None:
        found: Iterable[Description | None] = [
            *(
                catalogue.describe(provider, number, version)
                for number in known.event_ids
                for version in catalogue.versions(provider, number)
            ),
            *well_known.describe_carried(provider),
        ]
    elif provider in one_event:
        found = [well_known.describe(provider, "", number, 1) for number in (0, 1)]
    else:
        return None
    return [_known(provider, one) for one in found if one is not None]


def _known(provider: str, said: Description) -> KnownEvent:
    fields = {field.name: field for field in parse_fields(said.fields) if field.name}
    return KnownEvent(provider=provider, name=said.name, manifest_name=said.manifest_name, fields=fields)


def named(events: Sequence[KnownEvent], name: str, where: str) -> list[KnownEvent]:
    """Those of a name in any spelling. Raises UnknownName where there are none."""
    found = [one for one in events if matches(name, one.provider, one.name, one.manifest_name)]
    if not found:
        raise UnknownName("event", name, near(name, {one.name for one in events}), where=where)
    return found


def require_known(
    providers: Sequence[str], names: Sequence[str], fields: Sequence[str] = (), where: Where | None = None
) -> None:
    """Of a session of ``providers``: raises UnknownName for a name of an event, of one of its payload's fields (or a value of them, in the
    filter) that nothing in it can have. Where the events of a provider are not known, nothing is said.
    """
    events: list[KnownEvent] = []
    for provider in providers:
        of_one = events_of(provider)
        if of_one is None:
            return
        events += of_one
    place = f"in {providers[0]}" if len(providers) == 1 else "in the events of the session"
    if names:
        asked = {provider.lower() for provider in providers}
        events += [one for provider in UNASKED if provider.lower() not in asked for one in events_of(provider) or ()]
        events = [one for name in names for one in named(events, name, place)]
    known = {field.lower(): field for one in events for field in one.fields}
    titles = sorted({one.name for one in events})
    place = f"in {titles[0]}" if len(titles) == 1 else place
    for name in fields:
        if not _is_known(name, known):
            raise UnknownName("field", name, near(name, known.values()), where=place)
    if where is None:
        return
    maps = [found for one in events for field in one.fields if (found := one.values(field)) is not None]
    words = {word for values in maps for word in values.values.values()}
    for name in where.names:
        if _is_known(name, known) or any(values.number(name) is not None for values in maps):
            continue
        what = "field or value" if name in where.compared else "field"
        raise UnknownName(what, name, near(name, {*known.values(), *words}), where=place)


def _is_known(name: str, fields: Mapping[str, str]) -> bool:
    lowered = name.lower()
    bare = lowered.removeprefix(PAYLOAD)
    return key_meant(lowered, is_field=False) is not None or bool({bare, bare.partition(".")[0]} & fields.keys())
