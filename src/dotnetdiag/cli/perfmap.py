"""``perfmap``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.options import client_of, target_options
from dotnetdiag.cli.processes import ps

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Target


@click.group(commands=[ps])
def perfmap() -> None:
    """Write a map of jitted code for perf."""


@perfmap.command("enable", cls=Command)
@target_options
@click.option(
    "--type",
    "kind",
    type=click.Choice(["All", "JitDump", "PerfMap"], case_sensitive=False),
    default="All",
    show_default=True,
)
def perfmap_enable(target: Target, kind: str) -> None:
    """Start writing /tmp/perf-PID.map and /tmp/jit-PID.dump (.NET 8 and newer).

    \b
    dotnetdiag perfmap enable -p 1234 --type PerfMap && perf record -g -p 1234
    """
    from dotnetdiag.recipes.details import enable_perf_map

    with client_of(target) as client:
        enable_perf_map(client, kind)


@perfmap.command("disable", cls=Command)
@target_options
def perfmap_disable(target: Target) -> None:
    """Stop writing them.

    \b
    dotnetdiag perfmap disable -p 1234
    """
    with client_of(target) as client:
        client.disable_perf_map()
