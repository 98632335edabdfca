"""``profiler``."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.options import client_of, target_options
from dotnetdiag.cli.processes import ps

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Target


@click.group(commands=[ps])
def profiler() -> None:
    """Load a native profiler into a runtime."""


@profiler.command("attach", cls=Command)
@target_options
@click.argument("clsid", type=click.UUID)
@click.argument("path")
@click.option("--data", default="", help="Client data for the profiler, sent as UTF-8.")
def profiler_attach(target: Target, clsid: UUID, path: str, data: str) -> None:
    """Attach the profiler CLSID in the library PATH, as the target sees it.

    \b
    dotnetdiag profiler attach -p 1234 cf0d821e-299b-5307-a3d8-b283c03916dd /opt/profiler/libprofiler.so
    """
    from dotnetdiag.recipes.details import attach_profiler

    with client_of(target) as client:
        attach_profiler(client, clsid, path, data)


@profiler.command("startup", cls=Command)
@target_options
@click.argument("clsid", type=click.UUID)
@click.argument("path")
def profiler_startup(target: Target, clsid: UUID, path: str) -> None:
    """Register a profiler with a runtime that is suspended at startup; it loads when the runtime is resumed.

    PATH is one of the target's file system, and is looked at first.

    \b
    dotnetdiag profiler startup -p 1234 cf0d821e-299b-5307-a3d8-b283c03916dd /opt/profiler/libprofiler.so
    """
    from dotnetdiag.recipes.details import startup_profiler

    with client_of(target) as client:
        startup_profiler(client, clsid, path)
