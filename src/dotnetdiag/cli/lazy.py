"""A group whose commands are imported when they are called: ``dotnetdiag ps`` must start faster than ``dotnet-trace ps``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """``entries``: name → (module of ``dotnetdiag.cli``, attribute, short help). Commands may be added as usual, too."""

    def __init__(self, *args: Any, entries: Mapping[str, tuple[str, str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.entries, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(import_module(f"dotnetdiag.cli.{entry[0]}"), entry[1])
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches

            root = ctx.find_root()
            if (
                ctx is not root
                and isinstance(root.command, click.Group)
                and args[0] in root.command.list_commands(root)
            ):
                raise click.UsageError(f"{error.message} Did you mean 'dotnetdiag {args[0]}'?", ctx) from None
            close = get_close_matches(args[0], self.list_commands(ctx), n=1) if args else []
            if close:
                raise click.UsageError(f"{error.message} Did you mean '{close[0]}'?", ctx) from None
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, entry[2]) for name, entry in self.entries.items()]
        for name in super().list_commands(ctx):
            command = super().get_command(ctx, name)
            if command is not None and not command.hidden:
                rows.append((name, command.get_short_help_str(80)))
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def is_option(word: str) -> bool:
    """Whether a word of a command line is one; ``-`` is a file."""
    return word.startswith("-") and word != "-"


def leading(args: Sequence[str]) -> Sequence[str]:
    """The words before the first option."""
    return args[: next((at for at, word in enumerate(args) if is_option(word)), len(args))]


IMPLIED = "dotnetdiag.cli.implied_kind"
"""Whether a kind may still be named behind the files that stand there."""


def kinds_or_files(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """What may stand where a file is read, and a kind where none is named yet."""
    from click.shell_completion import CompletionItem

    group = next((one.command for one in (ctx, ctx.parent) if one is not None and isinstance(one.command, Kinds)), None)
    kinds = group.entries if group is not None and ctx.meta.get(IMPLIED) else {}
    found = [CompletionItem(name, help=kinds[name][2]) for name in kinds if name.startswith(incomplete)]
    return [
        CompletionItem(incomplete, type="file"),
        *found,
    ]  # bash forgets what stands before a file, and takes files where nothing is behind it


class Kinds(LazyGroup):
    """A verb in several kinds, each with options of its own; without one it is the first. A kind may stand behind the files too, where dotnet-trace
    has its own, ``trace report FILE gc``, and behind options: ``trace report --json FILE gc``.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        files = leading(args)
        if not {*files[:1]} & {*self.entries}:
            place = next((at for at, word in enumerate(files) if word in self.entries), 0)
            if place and files[place] not in self.others:
                place = 0
            elif not place and not ctx.resilient_parsing:
                place = self.behind_options(ctx, args)
                for word in () if place else files[1:]:
                    self._refuse_misspelled(ctx, word)
            if place:
                args = [args[place], *args[:place], *args[place + 1 :]]
        if args and args[0] in self.entries:
            return super().parse_args(ctx, args)
        ctx.meta[IMPLIED] = len(files) == len(args)
        if ctx.resilient_parsing and not args:  # what is completed may be the kind
            return super().parse_args(ctx, args)
        return super().parse_args(ctx, [self.kind_of(args), *args])

    def behind_options(self, ctx: click.Context, args: Sequence[str]) -> int:
        """Where behind an option a kind is named, and behind ``--`` behind the first file; 0: nowhere."""
        from dotnetdiag.cli.command import Command

        until = args.index("--") if "--" in args else len(args)
        for place in range(len(leading(args)) + 1, until):
            kind = self.get_command(ctx, args[place]) if args[place] in self.entries else None
            if isinstance(kind, Command) and kind.has_as_argument(ctx, args, place):
                return place
        files = range(until + (1 if leading(args) else 2), len(args))
        return next((place for place in files if args[place] in self.others), 0)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Kinds, options of the kind that is meant without one, and else files."""
        if is_option(incomplete):
            kind = self.get_command(ctx, self.kind_of(()))
            assert kind is not None
            return kind.shell_complete(click.Context(kind, parent=ctx, resilient_parsing=True), incomplete)
        return kinds_or_files(ctx, incomplete)

    def _refuse_misspelled(self, ctx: click.Context, word: str) -> None:
        from difflib import get_close_matches

        if os.path.exists(word):
            return
        lowered = {name.lower(): name for name in self.entries}
        close = get_close_matches(word.lower(), lowered, n=1)
        if close:
            raise click.UsageError(f"{word!r} is no kind of {ctx.info_name}. Did you mean '{lowered[close[0]]}'?", ctx)
        if word.isidentifier():  # files have ends
            kinds = ", ".join(self.entries)
            raise click.UsageError(f"{word!r} is no file, and no kind of {ctx.info_name}: these are {kinds}.", ctx)

    @property
    def others(self) -> Sequence[str]:
        """The kinds that may stand behind the first argument."""
        return tuple(self.entries)[1:]

    def kind_of(self, args: Sequence[str]) -> str:  # noqa: ARG002
        """The kind that is meant by arguments that name none."""
        return next(iter(self.entries))
