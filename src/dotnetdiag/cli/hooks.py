"""``startup-hook``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.options import client_of, target_options

if TYPE_CHECKING:
    from dotnetdiag.recipes.target import Target


@click.command("startup-hook", cls=Command)
@target_options
@click.argument("path")
def startup_hook(target: Target, path: str) -> None:
    """Run the startup hook in the assembly PATH, an absolute path as the target sees it.

    The file is looked at first, through the target's own root: a hook that cannot be used would kill .NET 9 and 10.

    \b
    dotnetdiag startup-hook -p 1234 /opt/hooks/MyHook.dll
    """
    with client_of(target) as client:
        client.apply_startup_hook(path)
