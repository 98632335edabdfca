"""What ``trace report`` shows to people who ask nothing in particular: what stands out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dotnetdiag.cli.render import echo

if TYPE_CHECKING:
    from dotnetdiag.analysis.advice_report import AdviceReport

OF_QUEUE = "threadpool (how long work waited)"
"""Where it is known how many threads there were, and no more."""
DAMAGED = "it breaks off, or is damaged, as where its process died meanwhile: what came last may be missing"
SAMPLED = "topN"
"""The kind of report that is made of samples."""


def show(made: AdviceReport, more: str | None) -> None:
    """Print it for people. ``more`` is the command that takes a kind of report; None: of a process that is asked itself."""
    from dotnetdiag.analysis.advice_report import NOTHING
    from dotnetdiag.analysis.native import NEVER, NO_STATES
    from dotnetdiag.analysis.thread_pool import NO_QUEUE

    rows = made.findings.to_pylist()
    if not rows:
        is_less = made.losses.lost or made.losses.damage is not None
        echo(f"{NOTHING} in {made.seconds:,.1f} s" + (" of what is left of it" if is_less else ""))
    elif made.losses.lost:
        echo(
            f"note: {made.losses.lost:,} events were lost: what is told is of what is left, which is less than there was"
        )
    if made.losses.damage is not None:
        echo(f"note: {DAMAGED}")
    for number, row in enumerate(rows, 1):
        question = row["question"]
        echo(f"{number}. {row['text']}")
        echo(f"   more: {_asked_again(question) if more is None else f'{more} {question}'}")
    for note in made.unnamed:
        echo(f"note: {note}")
    never = {kind: why for kind, why in made.lacking.items() if why in NEVER}
    others = [name for name in made.lacking if name not in never]
    if made.lacking:
        echo()
    if others:
        of_pool = made.lacking.get("threadpool") == NO_QUEUE
        others = [OF_QUEUE if of_pool and name == "threadpool" else name for name in others]
        echo(_told(others) + ("" if more is None else f" ({more} KIND says why; --profile advice records all)"))
    for name, why in never.items():
        echo(f"{name} tells no time on processors: {why}" if why == NO_STATES else f"no {name}: {why}")


def _asked_again(question: str) -> str:
    return f"the same with {'--top' if question == SAMPLED else f'--report {question}'} in the place of --report advice"


def _told(kinds: Sequence[str]) -> str:
    """What there is nothing of."""
    events = [name for name in kinds if name != SAMPLED]
    parts = [f"nothing of: {', '.join(events)}"] if events else []
    return "; ".join([*parts, *([f"no samples of where the time goes: {SAMPLED}"] if SAMPLED in kinds else [])])
