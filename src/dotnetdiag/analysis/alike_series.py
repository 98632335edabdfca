"""Numbers for series that other systems cannot tell apart: a program may create an instrument twice."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Given:
    """A number, and among which series it tells one."""

    place: Hashable
    labels: Mapping[str, str]
    alike: tuple[Hashable, frozenset[tuple[str, str]]]
    number: int


class AlikeNumbers:
    """Numbers of series of one place that have the same labels, from 1: each has its own until it is over, and no other gets it while any of them
    lives.
    """

    def __init__(self) -> None:
        self._given: dict[int, _Given] = {}
        """By the number of the series."""
        self._last: dict[tuple[Hashable, frozenset[tuple[str, str]]], int] = {}

    def __len__(self) -> int:
        return len(self._given)

    def number(self, series: int, place: Hashable, labels: Mapping[str, str]) -> int:
        """That of a series. ``place``: what it is in beside others, the name of a metric for one."""
        given = self._given.get(series)
        if given is None or given.place != place or given.labels != labels:
            alike = place, frozenset(labels.items())
            number = self._last[alike] = self._last.get(alike, 0) + 1
            given = self._given[series] = _Given(place, labels, alike, number)
        return given.number

    def keep(self, living: Iterable[int]) -> None:
        """Forget all series but these."""
        living = set(living)
        if self._given.keys() <= living:
            return
        self._given = {series: given for series, given in self._given.items() if series in living}
        alike = {given.alike for given in self._given.values()}
        self._last = {key: number for key, number in self._last.items() if key in alike}
