"""What a run left out, and on what it ran: its last lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tests.shared import NOT_HERE

RECORDING = "the recording "


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Skipped tests: how many for want of each thing of ../shared, and how many for other reasons."""

    missing: Counter[str]
    others: int


def count_left_out(reasons: Iterable[str]) -> LeftOut:
    """From the reason of every skipped test, as pytest reports it (``Skipped: …``)."""
    missing: Counter[str] = Counter()
    others = 0
    for reason in reasons:
        text = reason.removeprefix("Skipped: ")
        if text.startswith(NOT_HERE):
            missing[text.removeprefix(NOT_HERE)] += 1
        else:
            others += 1
    return LeftOut(missing=missing, others=others)


def describe(left_out: LeftOut, *, hidden: bool) -> list[str]:
    """The lines that say it. ``hidden``: there is no ../shared, or the environment says that there is none."""
    lines = []
    if left_out.missing:
        why = "../shared is not there (or hidden)" if hidden else "something of ../shared is not there"
        lines.append(f"left out: {why}: {_tests(left_out.missing.total())} skipped")
        recordings = {what: count for what, count in left_out.missing.items() if what.startswith(RECORDING)}
        for what, count in left_out.missing.most_common():
            if what not in recordings:
                lines.append(f"  {_tests(count)} for want of {what}")
        if recordings:
            names = ", ".join(sorted(what.removeprefix(RECORDING) for what in recordings))
            lines.append(f"  {_tests(sum(recordings.values()))} for want of {len(recordings)} recordings: {names}")
    elif hidden:
        lines.append("left out: nothing of what ran, but ../shared is not there (or hidden)")
    else:
        lines.append("left out: nothing, ../shared is there")
    if left_out.others:
        lines.append(f"skipped for other reasons, which are listed above: {_tests(left_out.others)}")
    return lines


def _tests(count: int) -> str:
    return f"{count:,} test" if count == 1 else f"{count:,} tests"
