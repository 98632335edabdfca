"""Families as text, in each format that the library ``prometheus_client`` has: a line of it is what was kept, and a value behind it.

The library took ten times as long for a line, two thirds of it to look whether names are valid: 6 µs, of 2,400 lines a second for fifty processes.
So it is asked for a line once in a format, with the value 0, and again when the labels of the series change.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

Encode: TypeAlias = Callable[[Any], bytes]
"""The library's text of a collector."""
_MILLION = 1e6
_SURROGATES = re.compile("[\ud800-\udfff]")


class Head(NamedTuple):
    """What is said of a family."""

    name: str
    help_text: str
    family: str
    unit: str

    def metric(self) -> Metric:
        """The library's, without samples."""
        return _metric(*self)


class Line:
    """A sample but for its value."""

    __slots__ = ("labels", "name")

    def __init__(self, name: str, labels: Mapping[str, str]) -> None:
        self.name, self.labels = name, labels


class Family:
    """One, of which no two samples have the same labels."""

    __slots__ = ("head", "lines", "values")

    def __init__(self, head: Head) -> None:
        self.head = head
        self.lines: list[Line] = []
        self.values: list[float] = []

    def add(self, line: Line, value: float) -> None:
        self.lines.append(line)
        self.values.append(value)


class Format:
    """One of the library's formats, and what it says of families and lines, up to the value."""

    def __init__(self, encode: Encode) -> None:
        from prometheus_client.utils import floatToGoString

        self._encode = encode
        self._value_text: Callable[[float], str] = floatToGoString
        self.tail = self._written([])
        """What ends a page."""
        self._heads: dict[Head, str] = {}
        self._starts: dict[Line, str] = {}

    def keep(self, families: Sequence[Family]) -> None:
        """Forget what is of none of these, once it is as much as what is."""
        lines = sum(len(family.lines) for family in families)
        if len(self._starts) > 2 * lines or len(self._heads) > 2 * len(families):
            self._starts = {
                one: self._starts[one] for family in families for one in family.lines if one in self._starts
            }
            self._heads = {family.head: self.head(family.head) for family in families}

    def head(self, head: Head) -> str:
        """What stands before the samples."""
        known = self._heads.get(head)
        if known is None:
            known = self._heads[head] = self._written([head.metric()]).removesuffix(self.tail)
        return known

    def lines(self, family: Family) -> list[str]:
        """The samples."""
        starts = self._starts
        if not all(map(starts.__contains__, family.lines)):
            self._learn(family)
        return [f"{starts[line]}{self._text(value)}\n" for line, value in zip(family.lines, family.values, strict=True)]

    def _text(self, value: float) -> str:
        # the library writes exponents as Go does, from a million on
        return repr(value) if -_MILLION < value < _MILLION else self._value_text(value)

    def _learn(self, family: Family) -> None:
        """Ask the library for lines that are new. A line feed ends each: within labels it is escaped."""
        new = [line for line in family.lines if line not in self._starts]
        metric = family.head.metric()
        for line in new:
            metric.add_sample(line.name, dict(line.labels), 0.0)
        texts = self._written([metric]).removesuffix(self.tail).removeprefix(self.head(family.head)).split("\n")
        for line, text in zip(new, texts[:-1], strict=True):
            self._starts[line] = text.removesuffix("0.0")

    def _written(self, metrics: list[Metric]) -> str:
        return self._encode(_Collected(metrics)).decode()


class _Collected:
    """What the library calls a collector."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> list[Metric]:
        """All of them."""
        return self._metrics


def _metric(name: str, help_text: str, family: str, unit: str) -> Metric:
    from prometheus_client.metrics_core import Metric

    # the library would add a unit that the name does not end with
    own = unit if unit and name.endswith(f"_{unit}") else ""
    return Metric(name, printable(" ".join(help_text.split())) or name, family, own)


def printable(value: str) -> str:
    """What UTF-8 can say of it."""
    return _SURROGATES.sub("\ufffd", value)
