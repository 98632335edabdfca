"""``counters list``: what a process counts."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.lean import be_lean
from dotnetdiag.cli.options import client_of, target_options
from dotnetdiag.cli.output import format_option, show
from dotnetdiag.cli.render import echo, table

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_list import CounterList, ListedCounter
    from dotnetdiag.recipes.target import Target

_COLUMNS = ("instrument", "type", "unit", "description")


@click.command("list", cls=Command)
@target_options
@click.option(
    "--counters", "sources", multiple=True, metavar="SOURCE", help="An EventSource to ask too. May be repeated."
)
@format_option
def list_counters(target: Target, sources: tuple[str, ...], form: str) -> None:
    """List the meters, instruments and EventCounters that a process really has: it is looked at for two seconds.

    A runtime lists its meters (.NET 6 and later), but not its EventSources: the known ones are asked, those of the program itself have to be named.

    \b
    dotnetdiag counters list -p 1234
    dotnetdiag counters list -n MyApp --counters MyCompany-Orders
    dotnetdiag counters list -p 1234 --json | jq -r '.[].instrument'
    """
    be_lean()
    from dotnetdiag.recipes import counter_list

    names = [name.strip() for text in sources for name in text.split(",") if name.strip()]
    with client_of(target) as client:
        found = counter_list.list_counters(client, sources=names)
    for notice in found.notices:
        echo(f"meters may be missing: {notice}", err=True)
    show(form, found.table, people=lambda: _show(found))


def _show(found: CounterList) -> None:
    for (is_source, provider, version, tags), some in groupby(sorted(found, key=_whose), key=_whose):
        kind = "EventCounters" if is_source else "meter"
        said = ", ".join(f"{key}={value}" for key, value in tags)
        echo(f"[{provider}]  {kind}{f' {version}' if version else ''}{f'  {{{said}}}' if said else ''}")
        table(_COLUMNS, [(one.instrument, one.type, one.unit, one.description) for one in some])
        echo()
    count = len(found)
    echo(
        f"{count} instruments and counters; {len(found.asked)} EventSources were asked, one of your own has to be named"
    )


def _whose(one: ListedCounter) -> tuple[bool, str, str, tuple[tuple[str, str], ...]]:
    """What it is listed under: a program may have several meters of one name, of other versions or tags. Meters stand first."""
    return one.kind != "meter", one.provider, one.version, tuple(sorted(one.meter_tags.items()))
