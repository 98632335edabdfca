"""The event types of one trace: what each metadata record means, found by any of its names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dotnetdiag.errors import NEAR_LIMIT, UnknownName, near
from dotnetdiag.events import names, titles
from dotnetdiag.nettrace import Metadata

if TYPE_CHECKING:
    from dotnetdiag.events import EventSchema


class EventTypes:
    """Schemas by metadata id. ``numbers`` gives all ids there are, which may cost a pass over the file.

    ``settle`` gives a better schema for one that nothing describes (by its payloads).
    """

    def __init__(
        self,
        metadata: Mapping[int, Metadata],
        numbers: Callable[[], Sequence[int]],
        pointer_size: int,
        settle: Callable[[int, EventSchema], EventSchema] = lambda _, schema: schema,
    ) -> None:
        self._metadata, self._numbers, self._pointer_size, self._settle = metadata, numbers, pointer_size, settle
        self._schemas: dict[int, EventSchema] = {}
        self._settled: dict[int, EventSchema] = {}

    def name_of(self, metadata_id: int) -> EventSchema:
        """Names and numbers of a type; its fields only as far as they are declared."""
        found = self._schemas.get(metadata_id)
        if found is None:
            from dotnetdiag.events import resolve  # who only counts needs no fields

            found = self._schemas[metadata_id] = resolve(self._record(metadata_id), self._pointer_size)
        return found

    def title_of(self, metadata_id: int) -> tuple[str, str]:
        """(provider, name) of a type."""
        return titles.title(self._record(metadata_id))[:2]

    def _record(self, metadata_id: int) -> Metadata:
        known = self._metadata.get(metadata_id)
        if known is None:  # a damaged file: events of a record that is gone
            return Metadata(metadata_id=metadata_id, provider="", event_id=0, name=f"metadata {metadata_id}")
        return known

    def schema(self, metadata_id: int) -> EventSchema:
        """The type with its fields."""
        found = self._settled.get(metadata_id)
        if found is None:
            from dotnetdiag.events import Source

            found = self.name_of(metadata_id)
            if found.source == Source.NONE and not found.fields:
                found = self._settle(metadata_id, found)
            self._settled[metadata_id] = found
        return found

    def has(self, text: str) -> bool:
        """Whether an event of the file has this name."""
        return any(self.name_of(number).matches(text) for number in self._numbers())

    def find(self, text: str) -> list[int]:
        """Metadata ids of the event that ``text`` means; UnknownName with near ones when there is none."""
        found = [number for number in self._numbers() if self.name_of(number).matches(text)]
        if not found:
            raise UnknownName("event", text, self._near(text))
        return found

    def find_provider(self, text: str) -> list[int]:
        """Metadata ids of a provider's events; UnknownName with near ones when there is none."""
        wanted = text.strip().lower()
        found = [number for number in self._numbers() if self.name_of(number).provider.lower() == wanted]
        if not found:
            raise UnknownName("provider", text, near(text, {self.name_of(n).provider for n in self._numbers()}))
        return found

    def _near(self, text: str) -> tuple[str, ...]:
        spelled: dict[str, str] = {}
        for number in self._numbers():
            schema = self.name_of(number)
            for form in names.spellings(schema.provider, schema.name, schema.manifest_name):
                spelled.setdefault(form, schema.name)
        return tuple(dict.fromkeys(spelled[form] for form in near(text.lower(), spelled, limit=3 * NEAR_LIMIT)))[
            :NEAR_LIMIT
        ]
