"""The events of the runtime itself, which its traces do not describe.

Package data, made by ``tools/build_catalogue.py``; read when first asked. What is kept is bounded by it, whatever names
files have. ``resolving.py`` makes schemas of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag._patterns import pattern
from dotnetdiag.events.layout import SchemaField
from dotnetdiag.events.names import Description


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueMap:
    """Names of a field's values, as TraceEvent has them; ``bits`` when each bit has one. ``others``: what the manifest calls some of them."""

    name: str
    bits: bool
    values: Mapping[int, str]
    others: Mapping[int, str] | None = None

    def text(self, value: int) -> str:
        """The name of a value, or the names of its bits with ``|``; what has none is a number."""
        if not self.bits:
            return self.values.get(value, str(value))
        words = [word for bit, word in self.values.items() if bit and value & bit == bit]
        remainder = value & ~sum(bit for bit in self.values if value & bit == bit)
        return "|".join(words + ([hex(remainder)] if remainder else [])) or self.values.get(0, "0")

    def number(self, text: str) -> int | None:
        """The value that a name stands for, the manifest's too, or names of bits with ``|``, in any case, with the numbers that :meth:`text` gives
        where there is no name; None for anything else.
        """
        known = {word.lower(): value for names in (self.others or {}, self.values) for value, word in names.items()}
        parts = [word.strip() for word in (text.lower().split("|") if self.bits else [text.lower()])]
        found = {known.get(word, _whole(word)) for word in parts}
        return None if None in found else sum(value for value in found if value is not None)


_NUMBER = pattern(r"0x[0-9a-f]{1,16}|[0-9]{1,20}")


def _whole(text: str) -> int | None:
    return int(text, 16 if "x" in text else 10) if _NUMBER.fullmatch(text) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider of the runtime. ``opcodes`` by ``number`` or ``number/task``, as the manifest has them."""

    name: str
    guid: UUID
    keywords: Mapping[str, int]
    tasks: Mapping[int, str]
    opcodes: Mapping[str, str]
    maps: Mapping[str, ValueMap]
    event_ids: tuple[int, ...]


@cache
def _raw() -> dict[str, Any]:
    assert __spec__ is not None
    assert __spec__.loader is not None
    # what importlib.resources does after an import of 10 ms, and pkgutil after one of 1 ms
    data = __spec__.loader.get_data(os.path.join(os.path.dirname(__file__), "catalogue.json"))  # type: ignore[attr-defined]  # loaders of files and archives have it
    loaded: dict[str, Any] = json.loads(data)
    return loaded


def providers() -> tuple[str, ...]:
    """Names of the providers in the catalogue."""
    return tuple(_raw())


def provider(name: str) -> Provider | None:
    """A provider by name (as written), or None."""
    return _provider(name) if name in _raw() else None


@cache
def _provider(name: str) -> Provider:
    entry = _raw()[name]
    maps = {
        key: ValueMap(
            name=key,
            bits=kind == "bits",
            values=_words(values),
            others=_words(*others),
        )
        for key, (kind, values, *others) in entry["maps"].items()
    }
    return Provider(
        name=name,
        guid=UUID(entry["guid"]),
        keywords=MappingProxyType(entry["keywords"]),
        tasks=MappingProxyType({int(number): word for number, word in entry["tasks"].items()}),
        opcodes=MappingProxyType(entry["opcodes"]),
        maps=MappingProxyType(maps),
        event_ids=tuple(sorted(int(number) for number in entry["events"])),
    )


def _words(values: Mapping[str, str] = MappingProxyType({})) -> Mapping[int, str]:
    return MappingProxyType({int(number): word for number, word in values.items()})


def enumeration(provider_name: str, field: SchemaField | None) -> ValueMap | None:
    """The names that the runtime gives to a field's values; None where it has none."""
    known = provider(provider_name) if field is not None and field.map else None
    return None if known is None or field is None else known.maps.get(field.map)


def guids() -> dict[UUID, str]:
    """Names of the providers by their ids."""
    return {UUID(entry["guid"]): name for name, entry in _raw().items()}


def versions(provider: str, event_id: int) -> tuple[int, ...]:
    """Known versions of an event, lowest first."""
    entry = _raw().get(provider, {}).get("events", {}).get(str(event_id))
    return tuple(sorted(int(version) for version in entry[3])) if entry else ()


def title(provider: str, event_id: int) -> tuple[str, int] | None:
    """Name and opcode of an event, or None."""
    entry = _raw().get(provider, {}).get("events", {}).get(str(event_id))
    return (entry[0], entry[2]) if entry else None


def describe(provider: str, event_id: int, version: int) -> Description | None:
    """The event in the highest known version that is not above ``version``, or None."""
    fitting = [number for number in versions(provider, event_id) if number <= version]
    return _description(provider, event_id, fitting[-1]) if fitting else None


def describe_any(provider: str, event_id: int) -> Description | None:
    """The event in its lowest known version, for its name only."""
    numbers = versions(provider, event_id)
    return _description(provider, event_id, numbers[0]) if numbers else None


def _description(provider: str, event_id: int, version: int) -> Description:
    name, symbol, opcode, by_version = _raw()[provider]["events"][str(event_id)]
    level, keywords, fields = by_version[str(version)]
    manifest_name = f"{symbol}_V{version}" if version else symbol
    return Description(name, manifest_name, opcode, level, keywords, version, fields)
