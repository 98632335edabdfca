"""The events of the runtime itself, which its traces do not describe.

Package data, made by ``tools/build_catalogue.py``; read when first asked. What is kept is bounded by it, whatever names
files have. ``resolving.py`` makes schemas of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag._patterns import pattern
from dotnetdiag.events.layout import SchemaField
from dotnetdiag.events.names import Description

_TITLE, _VERSION = 3, 4
"""Cells of an event, and of each of its versions behind them."""


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
def _lines() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """By name of the provider, by what they tell of, by its name or number: lines without these. A recording has dozens of the hundreds of events:
    the cells of each are told apart when somebody asks for it.
    """
    assert __spec__ is not None
    assert __spec__.loader is not None
    # what importlib.resources does after an import of 10 ms, and pkgutil after one of 1 ms
    data = __spec__.loader.get_data(os.path.join(os.path.dirname(__file__), "catalogue.txt"))  # type: ignore[attr-defined]  # loaders of files and archives have it
    made: dict[str, dict[str, dict[str, str]]] = {}
    for line in data.decode("ascii").splitlines():
        kind, name, cells = line.split("\t", 2)
        if kind == "provider":
            lines = made[name] = {"map": {}, "others": {}, "event": {}}
        lines.setdefault(kind, {})[name] = cells
    return made


def _pairs(cells: str) -> dict[str, str]:
    """Of names or numbers what stands behind each."""
    each = iter(cells.split("\t") if cells else ())
    return dict(zip(each, each, strict=True))


def _event(provider: str, event_id: int) -> list[str] | None:
    found = _lines().get(provider, {}).get("event", {}).get(str(event_id))
    return None if found is None else found.split("\t")


def _versions(event: Sequence[str]) -> dict[int, Sequence[str]]:
    """Level, keywords and fields by version, lowest first."""
    return {int(event[at]): event[at + 1 : at + _VERSION] for at in range(_TITLE, len(event), _VERSION)}


def providers() -> tuple[str, ...]:
    """Names of the providers in the catalogue."""
    return tuple(_lines())


def provider(name: str) -> Provider | None:
    """A provider by name (as written), or None."""
    return _provider(name) if name in _lines() else None


@cache
def _provider(name: str) -> Provider:
    lines = _lines()[name]
    return Provider(
        name=name,
        guid=UUID(lines["provider"][name]),
        keywords=MappingProxyType({word: int(bits) for word, bits in _pairs(lines["keywords"][name]).items()}),
        tasks=_words(lines["tasks"][name]),
        opcodes=MappingProxyType(_pairs(lines["opcodes"][name])),
        maps=MappingProxyType({key: _map(name, key) for key in lines["map"]}),
        event_ids=tuple(sorted(map(int, lines["event"]))),
    )


@cache
def _map(provider: str, name: str) -> ValueMap:
    lines = _lines()[provider]
    kind, _, values = lines["map"][name].partition("\t")
    others = lines["others"].get(name, "")
    return ValueMap(name=name, bits=kind == "bits", values=_words(values), others=_words(others))


def _words(cells: str) -> Mapping[int, str]:
    return MappingProxyType({int(number): word for number, word in _pairs(cells).items()})


def enumeration(provider_name: str, field: SchemaField | None) -> ValueMap | None:
    """The names that the runtime gives to a field's values; None where it has none."""
    if field is None or field.map not in _lines().get(provider_name, {}).get("map", {}):
        return None
    return _map(provider_name, field.map)


def guids() -> dict[UUID, str]:
    """Names of the providers by their ids."""
    return {UUID(lines["provider"][name]): name for name, lines in _lines().items()}


def versions(provider: str, event_id: int) -> tuple[int, ...]:
    """Known versions of an event, lowest first."""
    event = _event(provider, event_id)
    return tuple(sorted(_versions(event))) if event else ()


def title(provider: str, event_id: int) -> tuple[str, int] | None:
    """Name and opcode of an event, or None."""
    event = _event(provider, event_id)
    return (event[0], int(event[2])) if event else None


def describe(provider: str, event_id: int, version: int) -> Description | None:
    """The event in the highest known version that is not above ``version``, or None."""
    event = _event(provider, event_id) or ()
    by_version = _versions(event)
    fitting = max((number for number in by_version if number <= version), default=None)
    return None if fitting is None else _description(event, fitting, by_version[fitting])


def describe_any(provider: str, event_id: int) -> Description | None:
    """The event in its lowest known version, for its name only."""
    event = _event(provider, event_id) or ()
    by_version = _versions(event)
    lowest = min(by_version, default=None)
    return None if lowest is None else _description(event, lowest, by_version[lowest])


def _description(event: Sequence[str], version: int, told: Sequence[str]) -> Description:
    name, symbol, opcode = event[:_TITLE]
    level, keywords, fields = told
    manifest_name = f"{symbol}_V{version}" if version else symbol
    return Description(name, manifest_name, int(opcode), int(level), int(keywords), version, fields)
