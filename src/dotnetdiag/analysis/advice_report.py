"""What is said of one process, or of several, as one report: findings, the most important first, and of what there is nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis.answers import number
from dotnetdiag.analysis.finding import Finding
from dotnetdiag.events.columns import Text
from dotnetdiag.table import Losses, Table

NOTHING = "nothing stands out"
MOST_PROCESSES = 3
"""Of a recording of several so many are named to each question."""


@dataclass(frozen=True, kw_only=True)
class AdviceReport:
    """``findings``: the most important first. ``lacking``: of kinds of reports that have nothing, why. ``unnamed``: the note that names of methods
    are missing, if findings would have some.
    """

    findings: Table
    lacking: Mapping[str, str]
    seconds: float
    unnamed: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """What commands and pages call it."""
        return "advice"

    @property
    def rows(self) -> Table:
        """The findings, as other reports have their main table."""
        return self.findings

    @property
    def losses(self) -> Losses:
        """What the recording lacks that was looked at."""
        return self.findings.losses

    @property
    def notes(self) -> tuple[str, ...]:
        """Why there is nothing of what is ``lacking``, and no methods of what is found."""
        return tuple(dict.fromkeys((*self.lacking.values(), *self.unnamed)))

    def saying(self, texts: Mapping[str, str]) -> Self:
        """The same with other words in the place of some notes."""
        return replace(
            self,
            lacking={name: texts.get(note, note) for name, note in self.lacking.items()},
            unnamed=tuple(texts.get(note, note) for note in self.unnamed),
        )

    def document(self) -> dict[str, Any]:
        """As :meth:`to_json`, with tables in the place of their rows."""
        return {
            "findings": self.findings,
            "lacking": dict(self.lacking),
            "notes": list(self.unnamed),
            "seconds": self.seconds,
            "losses": self.losses.to_json(),
        }

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {**self.document(), "findings": self.findings.to_pylist()}


class Said(NamedTuple):
    """Of one process: what stands out, why kinds of reports have nothing (None: they have some), and whose methods have no names."""

    found: Sequence[Finding]
    lacking: Mapping[str, Sequence[str] | None]
    unnamed: Sequence[str]
    pid: int | None


def report_of(said: Sequence[Said], losses: Losses, seconds: float, *, is_of_several: bool = False) -> AdviceReport:
    """Of one process, or of several, whose findings say of which they are."""
    found = sorted(
        _told_by_process(said) if is_of_several else (found for one in said for found in one.found),
        key=lambda one: -one.severity,
    )
    nothing = {name for name in said[0].lacking if all(one.lacking[name] is not None for one in said)}
    return AdviceReport(
        findings=Table(
            {
                "severity": number(
                    np.round([float(one.severity) for one in found], 1)
                ),  # a number where nothing is found too
                "question": Text.from_pylist([one.question for one in found]),
                "text": Text.from_pylist([one.text for one in found]),
            },
            title="what stands out",
            units={"severity": "%"},
            notes=[] if found else [NOTHING],
            losses=losses,
        ),
        lacking={
            name: "; ".join(dict.fromkeys(note for one in said for note in one.lacking[name] or ()))
            for name in said[0].lacking
            if name in nothing
        },
        seconds=seconds,
        unnamed=tuple(dict.fromkeys(note for one in said for note in one.unnamed)),
    )


def _told_by_process(said: Sequence[Said]) -> Iterator[Finding]:
    """Of each question those of the processes that it costs most."""
    of_question: dict[str, list[tuple[Finding, int | None]]] = {}
    for one in said:
        for finding in one.found:
            of_question.setdefault(finding.question, []).append((finding, one.pid))
    for some in of_question.values():
        some.sort(key=lambda told: -told[0].severity)
        most = [*dict.fromkeys(pid for _, pid in some)][:MOST_PROCESSES]
        for finding, pid in some:
            if pid in most:
                yield finding if pid is None else replace(finding, text=f"process {pid}: {finding.text}")
