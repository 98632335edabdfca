"""``trace report FILE``: what stands out."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.each_file import EachFile, files_argument, named
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.questions import answer, report_options
from dotnetdiag.cli.render import echo

if TYPE_CHECKING:
    from dotnetdiag.analysis.advice import AdviceReport


@click.command("advice", cls=EachFile)
@files_argument()
@report_options
def advice(file: Path, form: str) -> None:
    """Show what stands out in a trace FILE, most important first, and the command for more of it.

    Everything that was recorded is looked at: collections, locks, the thread pool, requests, exceptions, the compiler, processors. Of what
    is well nothing is said; what the recording lacks is named.

    \b
    dotnetdiag trace report app.nettrace
    dotnetdiag trace report app.nettrace --json | jq '.findings[0].text'
    """
    be_lean()
    from dotnetdiag.recipes.questions import advice as ask

    answer("advice", file, form, ask, people=lambda made: _show(made, file))


SAMPLED = "topN"
"""The kind of report that is made of samples."""


def _show(made: AdviceReport, file: Path) -> None:
    from dotnetdiag.analysis.advice import NOTHING
    from dotnetdiag.analysis.native import NEVER

    name = shlex.quote(named(file))
    rows = made.findings.to_pylist()
    if not rows:
        echo(f"{NOTHING} in {made.seconds:,.1f} s" + (" of what is left of it" if str(made.losses) else ""))
    for number, row in enumerate(rows, 1):
        echo(f"{number}. {row['text']}")
        echo(f"   more: dotnetdiag trace report {name} {row['question']}")
    never = {kind: why for kind, why in made.lacking.items() if why in NEVER}
    others = [name for name in made.lacking if name not in never]
    if made.lacking:
        echo()
    if others:
        echo(f"{_told(others)} (dotnetdiag trace report {name} KIND says what to record)")
    for name, why in never.items():
        echo(f"no {name}: {why}")


def _told(kinds: Sequence[str]) -> str:
    """What the recording has nothing of."""
    events = [name for name in kinds if name != SAMPLED]
    parts = [f"no events of: {', '.join(events)}"] if events else []
    return "; ".join([*parts, *([f"no samples of where the time goes: {SAMPLED}"] if SAMPLED in kinds else [])])
