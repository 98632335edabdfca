"""``completion``."""

from __future__ import annotations

import click

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.render import write_raw


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script for a shell; it completes verbs, options, their values, process ids and names.

    \b
    dotnetdiag completion bash >> ~/.bashrc
    dotnetdiag completion zsh >> ~/.zshrc
    dotnetdiag completion fish > ~/.config/fish/completions/dotnetdiag.fish
    """
    from click.shell_completion import get_completion_class

    from dotnetdiag.cli.commands import commands

    kind = get_completion_class(shell)
    assert kind is not None
    write_raw(kind(commands, {}, "dotnetdiag", "_DOTNETDIAG_COMPLETE").source() + "\n")
