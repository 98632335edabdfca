"""What an EventPipe session records, provider by provider (ipc-protocol.md §5.1-5.2, §15)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.constants import ALL_KEYWORDS, EventLevel
from dotnetdiag.ipc.fields import BOOL, U32, U64, pack_text, read_count, read_text
from dotnetdiag.wire import Cursor, Packer

SMALLEST_PROVIDER = 20
"""Bytes: keywords, level, two lengths of strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which event ids pass, after keyword and level. ``enable``: only ``ids`` pass; otherwise all but ``ids``."""

    enable: bool
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracepointSet:
    """Events that go to one tracepoint of their own."""

    name: str | None
    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracepoints:
    """Where a provider's events go in a user_events session: ``default`` for all that stand in no set."""

    default: str | None = None
    sets: tuple[TracepointSet, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider of a session. ``arguments`` is ``key=value;key2=value2``.

    ``event_filter`` needs CollectTracing5. ``tracepoints`` is for user_events sessions only.
    Names are case-sensitive; ``None`` is a name of count 0 in a request that was parsed, and is never sent.
    """

    name: str | None
    keywords: int = ALL_KEYWORDS
    level: int = EventLevel.VERBOSE
    arguments: str | None = None
    event_filter: EventFilter | None = None
    tracepoints: Tracepoints | None = None


@dataclass(frozen=True, slots=True)
class Providers:
    """The kind of the field ``array<provider>``: with an event filter behind each provider, and tracepoints behind that."""

    filters: bool = False
    tracepoints: bool = False

    def problem(self, value: Sequence[Provider]) -> str:
        """What a runtime answers BAD_ENCODING to, and what this form of the command cannot say."""
        for provider in value:
            if problem := self._provider_problem(provider):
                return f"of {provider.name}: {problem}"
        return "" if value else "must be at least one"

    def _provider_problem(self, provider: Provider) -> str:
        if not provider.name:
            return "the name must not be empty"
        if problem := U64.problem(provider.keywords):
            return f"keywords {problem}"
        if not isinstance(provider.level, int) or not 0 <= provider.level <= 5:
            return f"level {provider.level} is not in 0 to 5"
        if provider.event_filter is not None and not self.filters:
            return "an event filter needs CollectTracing5 (.NET 10)"
        if (provider.tracepoints is not None) != self.tracepoints:
            return "tracepoints are for user_events sessions, and each provider of those needs them"
        lists = [provider.event_filter.ids] if provider.event_filter is not None else []
        if provider.tracepoints is not None:
            if provider.tracepoints.default is None and not provider.tracepoints.sets:
                return "a default tracepoint or at least one set is needed"
            if any(not one.name or not one.ids for one in provider.tracepoints.sets):
                return "a tracepoint set needs a name and event ids"
            lists += [one.ids for one in provider.tracepoints.sets]
        return next((f"event id {problem}" for ids in lists for one in ids if (problem := U32.problem(one))), "")

    def write(self, packer: Packer, value: Sequence[Provider]) -> None:
        packer.u32(len(value))
        for provider in value:
            packer.u64(provider.keywords).u32(provider.level)
            pack_text(packer, provider.name)
            pack_text(packer, provider.arguments)
            if self.filters:
                chosen = provider.event_filter or EventFilter(enable=False, ids=())
                BOOL.write(packer, chosen.enable)
                _write_ids(packer, chosen.ids)
            if self.tracepoints and provider.tracepoints is not None:
                pack_text(packer, provider.tracepoints.default)
                packer.u32(len(provider.tracepoints.sets))
                for group in provider.tracepoints.sets:
                    pack_text(packer, group.name)
                    _write_ids(packer, group.ids)

    def read(self, cursor: Cursor, what: str) -> tuple[Provider, ...]:
        return tuple(self._read_one(cursor) for _ in range(read_count(cursor, what, SMALLEST_PROVIDER)))

    def _read_one(self, cursor: Cursor) -> Provider:
        values: dict[str, Any] = {"keywords": cursor.u64("keywords"), "level": cursor.u32("level")}
        values |= {"name": read_text(cursor, "provider name"), "arguments": read_text(cursor, "arguments")}
        if self.filters:
            # `enable 0, no ids` is what "no filter" looks like on the wire
            enable, ids = BOOL.read(cursor, "filter enable"), _read_ids(cursor)
            values["event_filter"] = EventFilter(enable=enable, ids=ids) if enable or ids else None
        if self.tracepoints:
            default = read_text(cursor, "default tracepoint")
            count = read_count(cursor, "tracepoint set", 8)
            sets = tuple(
                TracepointSet(name=read_text(cursor, "tracepoint name"), ids=_read_ids(cursor)) for _ in range(count)
            )
            values["tracepoints"] = Tracepoints(default=default, sets=sets)
        return Provider(**values)


def _write_ids(packer: Packer, ids: Sequence[int]) -> None:
    packer.u32(len(ids))
    for event_id in ids:
        packer.u32(event_id)


def _read_ids(cursor: Cursor) -> tuple[int, ...]:
    return tuple(cursor.u32("event id") for _ in range(read_count(cursor, "event id", 4)))
