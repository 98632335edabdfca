"""How instruments, units and tags are called in Prometheus and OpenMetrics, which know letters, digits and underscores.

Rule 1: a name is in lower case, its words parted by ``_``: ``dotnet.process.cpu.time`` is ``dotnet_process_cpu_time``, ``requestTime``
``request_time``. Its unit is its last word (``_seconds``), unless it ends with it already; of a counter ``_total`` follows.
Rule 2: units are base units, and values are converted: milliseconds are seconds, megabytes bytes, and per cent a ratio of 1.
Rule 3: words at the end that mean something there (``_total`` of what is no counter, ``_count`` of what is no summary) are replaced, in names and in
units.

Sources: OpenMetrics 1.0 ("Metric Naming and Namespaces"), OpenTelemetry's "Prometheus and OpenMetrics Compatibility", Prometheus' ``promlint``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.series import CounterKind

COUNTER, GAUGE, SUMMARY = "counter", "gauge", "summary"

FAMILIES: Mapping[CounterKind, str] = {
    CounterKind.COUNTER: COUNTER,
    CounterKind.RATE: COUNTER,
    CounterKind.GAUGE: GAUGE,
    CounterKind.MEAN: GAUGE,
    CounterKind.UP_DOWN_COUNTER: GAUGE,
    CounterKind.HISTOGRAM: SUMMARY,
}
"""What a series of a kind is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseUnit:
    """``word`` ends a name (``""``: none does); a value times ``factor`` is in it."""

    word: str
    factor: float = 1.0


NO_UNIT = BaseUnit(word="")

UNITS: Mapping[str, BaseUnit] = {
    **{
        text: BaseUnit(word="seconds", factor=factor)
        for factor, texts in (
            (86400.0, "d day days"),
            (3600.0, "h hour hours"),
            (60.0, "min minute minutes"),
            (1.0, "s sec second seconds"),
            (1e-3, "ms msec millisecond milliseconds"),
            (1e-6, "us µs μs microsecond microseconds"),
            (1e-9, "ns nanosecond nanoseconds"),
        )
        for text in texts.split()
    },
    **{
        text: BaseUnit(word="bytes", factor=factor)
        for factor, texts in (
            (0.125, "bit bits"),
            (1.0, "By B byte bytes"),
            (1e3, "kBy KBy kB KB"),
            (1e6, "MBy MB"),
            (1e9, "GBy GB"),
            (1e12, "TBy TB"),
            (2.0**10, "KiBy KiB"),
            (2.0**20, "MiBy MiB"),
            (2.0**30, "GiBy GiB"),
            (2.0**40, "TiBy TiB"),
        )
        for text in texts.split()
    },
    "%": BaseUnit(word="ratio", factor=0.01),
    "percent": BaseUnit(word="ratio", factor=0.01),
    "m": BaseUnit(word="meters"),
    "km": BaseUnit(word="meters", factor=1e3),
    "mm": BaseUnit(word="meters", factor=1e-3),
    "V": BaseUnit(word="volts"),
    "A": BaseUnit(word="amperes"),
    "J": BaseUnit(word="joules"),
    "kJ": BaseUnit(word="joules", factor=1e3),
    "W": BaseUnit(word="watts"),
    "g": BaseUnit(word="grams"),
    "kg": BaseUnit(word="grams", factor=1e3),
    "Cel": BaseUnit(word="celsius"),
    "K": BaseUnit(word="kelvin"),
    "Hz": BaseUnit(word="hertz"),
    "kHz": BaseUnit(word="hertz", factor=1e3),
    "MHz": BaseUnit(word="hertz", factor=1e6),
    "GHz": BaseUnit(word="hertz", factor=1e9),
    "count": NO_UNIT,
    "counts": NO_UNIT,
}
"""By what programs say: UCUM's signs, which meters use, and those of EventCounters. What is not in it is a word as it is."""
PER: Mapping[str, str] = {"s": "second", "min": "minute", "h": "hour", "d": "day", "By": "byte"}
"""The words behind ``per``."""
_ANNOTATION = re.compile(r"\{[^}]*\}")
_LAST: Mapping[str, Mapping[str, str]] = {
    COUNTER: {"total": "", "created": "creation", "bucket": "buckets", "info": "information"},
    GAUGE: {
        "total": "",
        "count": "number",
        "sum": "amount",
        "bucket": "buckets",
        "created": "creation",
        "info": "information",
        "gcount": "gnumber",
        "gsum": "gamount",
    },
    SUMMARY: {
        "total": "",
        "count": "number",
        "sum": "amount",
        "bucket": "buckets",
        "created": "creation",
        "info": "information",
    },
}
"""Last words that mean something of other kinds of families (of counters ``_total``, which follows anyway), and what stands in their place."""
_PER_TOTAL = "totals"
"""In place of the last word of a unit that cannot do without any."""
_APART: Mapping[str, str] = {COUNTER: "added", GAUGE: "current", SUMMARY: "distribution"}
"""What parts a family from one of another kind that has its name already. (The names of kinds themselves are not to be in names.)"""
CLAIMED: Mapping[str, tuple[str, ...]] = {
    COUNTER: ("", "_total", "_created"),
    GAUGE: ("",),
    SUMMARY: ("", "_count", "_sum", "_created"),
}
"""What behind the name of a family is the name of its samples, or may be."""
RESERVED_LABELS = frozenset({"le", "quantile"})
_NO_WORD = "unnamed"


def base_unit(text: str, family: str) -> BaseUnit:
    """The unit of a family that a program's word means."""
    text = _ANNOTATION.sub("", text).strip()
    if text == "1":  # as OpenTelemetry has it
        return BaseUnit(word="ratio") if family == GAUGE else NO_UNIT
    known = UNITS.get(text)
    if known is not None:
        return known
    above, slash, below = text.partition("/")
    if slash:
        unit = base_unit(above, "") if above else NO_UNIT
        below = PER.get(below) or words_of(below)
        return BaseUnit(word="_".join(filter(None, [unit.word, "per" if below else "", below])), factor=unit.factor)
    return BaseUnit(word=words_of(text))


def words_of(text: str) -> str:
    """Words in lower case with ``_`` between them; empty where there are none."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[^a-z0-9]+", "_", parted.lower()).strip("_")


def family_name(instrument: str, unit_text: str, family: str, *, apart: str = "") -> tuple[str, BaseUnit]:
    """The name of a family, without ``_total``, and its unit. ``apart`` is one word more, for one whose name another family has."""
    unit = _without_meaning(base_unit(unit_text, family), family)
    words = words_of(instrument) or _NO_WORD
    if words[0].isdigit():
        words = f"_{words}"
    if family == COUNTER:
        words = words.removesuffix("_total")
    for said in (unit.word, words_of(_ANNOTATION.sub("", unit_text))):
        if said and unit.word and f"_{words}".endswith(f"_{said}"):
            words = words[: -len(said) - 1]
            break
    words = "_".join(filter(None, [words, apart, unit.word]))
    while not unit.word:  # behind one that goes there may be another
        start, _, last = words.rpartition("_")
        instead = _LAST[family].get(last)
        if not start or instead is None:
            break
        words = "_".join(filter(None, [start, instead]))
    return words, unit


def _without_meaning(unit: BaseUnit, family: str) -> BaseUnit:
    start, _, last = unit.word.rpartition("_")
    instead = _LAST[family].get(last)
    if instead is None:
        return unit
    return replace(unit, word=f"{start}_{instead or _PER_TOTAL}" if start else instead)


class FamilyNames:
    """Gives each family one name, the same for as long as it is asked for: no two have one, or one that is of the other's samples."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        """``reserved``: names of samples that no family may have."""
        self._reserved = frozenset(reserved)
        self._claims: dict[str, tuple[str, ...]] = {}
        self._names: dict[tuple[str, str, str], tuple[str, BaseUnit]] = {}

    def __len__(self) -> int:
        return len(self._names)

    def name(self, instrument: str, unit_text: str, family: str) -> tuple[str, BaseUnit]:
        """The name of the family of all instruments that have this name and unit, in whatever meter, and its unit."""
        key = instrument, unit_text, family
        found = self._names.get(key)
        if found is None:
            found = self._names[key] = self._free(instrument, unit_text, family)
        return found

    def keep(self, used: Iterable[tuple[str, str, str]]) -> None:
        """Forget all but these: others may have their names then."""
        used = set(used)
        self._names = {key: name for key, name in self._names.items() if key in used}
        there = {name for name, _ in self._names.values()}
        self._claims = {claim: owner for claim, owner in self._claims.items() if owner[0] in there}

    def _free(self, instrument: str, unit_text: str, family: str) -> tuple[str, BaseUnit]:
        number = 1
        while True:
            apart = "" if number == 1 else _APART[family] if number == 2 else f"{_APART[family]}_{number - 1}"
            name, unit = family_name(instrument, unit_text, family, apart=apart)
            # of one name in other units, which are one unit here, it is the same family
            owner = name, instrument, family, unit.word
            wanted = [name + end for end in CLAIMED[family]]
            if not any(one in self._reserved or self._claims.get(one, owner) != owner for one in wanted):
                self._claims |= dict.fromkeys(wanted, owner)
                return name, unit
            number += 1


def label_names(tags: Iterable[str], taken: Iterable[str]) -> Mapping[str, str]:
    """The label of each tag: a valid name, none of ``taken`` (``tag_`` is in front then), no two the same. One that needs no change has its own."""
    others = frozenset(taken) | RESERVED_LABELS
    made: dict[str, str] = {}
    used: set[str] = set()
    for tag in sorted(tags, key=lambda one: (one in others or _label(one) != one, one)):
        name = _label(tag)
        name = first = f"tag_{name}" if name in others else name
        number = 2
        while name in used or name in others:
            name, number = f"{first}_{number}", number + 1
        made[tag] = name
        used.add(name)
    return made


def _label(tag: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", tag)
    if words != tag:  # in one case, when its words are parted
        words = words.lower()
    words = re.sub(r"[^a-zA-Z0-9_]", "_", words)
    words = re.sub(r"^__+", "_", words)  # two are Prometheus' own
    if not words.strip("_"):
        return "tag"
    return f"_{words}" if words[0].isdigit() else words
