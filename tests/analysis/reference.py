"""What dotnet-trace made of the recordings: ``convert`` to speedscope, and ``report topN`` as text."""

from __future__ import annotations

import gzip
import json
import re
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from tests.nettrace.recordings import data_of, recording

from dotnetdiag.trace.trace import Trace

PSEUDO_FRAMES: dict[str, str] = {
    r"Process64 .*": "the process, as the root of every stack: a profile is of one trace, and knows its process",
    r"\(Non-Activities\)": "a root that says that no start-stop activity was running",
    r"\(Activities\)": "a root that says that one was",
    r"Activity .*": "the start-stop activity, as a root; activities are another question",
    r"Threads": "a root above all threads",
    r"Thread \(\d+\)( \(.*\))?": "the thread, as a root: filters.with_threads adds it",
    r"CPU_TIME": "the state, as a leaf: filters.with_states adds it",
    r"UNMANAGED_CODE_TIME": "the state, as a leaf: filters.with_states adds it",
}
"""Frames of the reference that no code has, and why our profiles do without."""

UNRESOLVED = "?!?"
"""All addresses without a name; ours keep module and address."""

POOL_THREADS_MISSED = {("default-10", "Thread (10666)"): "Thread (10666) (.NET ThreadPool)"}
"""It started as a worker (event 50) but sent no adjustment (55), which is what the reference looks for."""


def is_pseudo(name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in PSEUDO_FRAMES)


@cache
def opened(name: str) -> Trace:
    return Trace(data_of(f"{name}.nettrace"), name=name)


@dataclass
class Sums:
    """Milliseconds by frame: of the leaf, and of all frames of the stack."""

    exclusive: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    inclusive: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))


def speedscope_of(name: str) -> dict[str, Any]:
    with gzip.open(recording(f"{name}.speedscope.json.gz"), "rt", encoding="utf-8") as file:
        made: dict[str, Any] = json.load(file)
    return made


def sums_of(document: dict[str, Any], profile: dict[str, Any]) -> Sums:
    """What an evented profile adds up to; with pseudo-frames, and leaves below them."""
    names = [frame["name"] for frame in document["shared"]["frames"]]
    sums, stack, last = Sums(), list[str](), 0.0
    for event in profile["events"]:
        length = event["at"] - last
        if stack and length:
            real = [frame for frame in stack if not is_pseudo(frame)]
            if real:
                sums.exclusive[real[-1]] += length
            sums.exclusive[stack[-1]] += length
            for frame in set(stack):
                sums.inclusive[frame] += length
        last = event["at"]
        if event["type"] == "O":
            stack.append(names[event["frame"]])
        else:
            assert stack.pop() == names[event["frame"]]
    assert not stack
    return sums


@dataclass(frozen=True)
class TopRow:
    name: str
    inclusive: float
    exclusive: float


_ROW = re.compile(r"(\d+)\.\s+(.*?)\s+([\d.]+)%\s+([\d.]+)%\s*$")


def top_of(name: str, *, inclusive: bool) -> list[TopRow]:
    """The rows of a report; names are wrapped over several lines at any letter, so they have no blanks here."""
    path = recording(f"{name}.topN{'-inclusive' if inclusive else ''}.txt")
    rows: list[TopRow] = []
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        found = _ROW.match(line)
        if found:
            rows.append(TopRow(_tight(found[2]), float(found[3]), float(found[4])))
        elif line.strip():
            last = rows.pop()
            rows.append(TopRow(last.name + _tight(line), last.inclusive, last.exclusive))
    return rows


def shown_in_report(full_name: str) -> str:
    """A full name as the reference's report shows it, without blanks: the last two parts between dots, and the
    parameters.
    """
    head, parenthesis, rest = full_name.partition("(")
    return _tight(".".join(head.split(".")[-2:]) + parenthesis + rest)


def _tight(text: str) -> str:
    return "".join(text.split())
