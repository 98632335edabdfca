"""What every verb takes: options as the dotnet-* tools write them, a pid without ``-p``, no option twice, ``--traceback``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from dotnetdiag.cli import verdict
from dotnetdiag.durations import DURATION
from dotnetdiag.errors import GrammarError

_BOOLEANS = ("true", "false", "1", "0", "yes", "no")
_TARGETS = ("pid", "pids", "name", "names", "wait_for", "port", "ports", "router")
PID_DIGITS = 10
"""Of 32 bits. A GUID may be all digits, but has more of them."""


def traceback_option(*, hidden: bool) -> click.Option:
    """``--traceback``. ``main`` looks for it among the words: an error may come before they are understood."""
    return click.Option(
        ["--traceback"], is_flag=True, expose_value=False, hidden=hidden, help="Show where an error comes from."
    )


class Command(click.Command):
    """A verb. Before click sees the words they are brought into its form:

    ``--output:x``, ``-o:x`` and ``-o=x`` are ``--output=x`` and ``-ox``; ``--rundown``, an option of true or false, is
    ``--rundown=true``; ``--json:false`` is left out; a number where a process may be named is ``-p``. An option that has one value
    is refused when it is given twice: the first would be forgotten.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.append(traceback_option(hidden=True))

    @property
    def takes_pid(self) -> bool:
        """Whether a process may be named by ``-p``."""
        return any(one.name in ("pid", "pids") for one in self.params)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        pieces = super().collect_usage_pieces(ctx)
        return [*pieces[:1], "[PID]", *pieces[1:]] if self.takes_pid else pieces

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        verdict.settle(0)  # what another verb of this process came to
        return super().parse_args(ctx, args if ctx.resilient_parsing else _Words(self, ctx).plain(args))

    def invoke(self, ctx: click.Context) -> Any:
        """Of a duration that is none it is said which option has it."""
        try:
            return super().invoke(ctx)
        except GrammarError as error:
            having = [one for one in self.params if one.name and ctx.params.get(one.name) == error.text]
            if error.what != DURATION or len(having) != 1 or not isinstance(having[0], click.Option):
                raise
            named = GrammarError(max(having[0].opts, key=len), error.text, error.position, error.problem)
            named.what = error.what  # the exit code of --compat goes by it
            raise named from error

    def has_as_argument(self, ctx: click.Context, args: Sequence[str], at: int) -> bool:
        """Whether the word at a place of a command line of this verb is an argument: no option, and not what one has as its value."""
        mark = "\0"  # no word is that
        own = click.Context(self, parent=ctx, resilient_parsing=True)
        try:
            words = _Words(self, own).plain([*args[:at], mark, *args[at + 1 :]])
            found, left, _ = self.make_parser(own).parse_args(words)
        except click.UsageError:
            return False  # who parses it as a whole says what is wrong
        named = [found.get(one.name or "") for one in self.params if isinstance(one, click.Argument)]
        return mark in left or any(mark in (one if isinstance(one, tuple) else (one,)) for one in named)


class LaunchingCommand(Command):
    """A verb that takes a command to start behind ``--``, whatever arguments it has: its words are in ``ctx.meta`` (:data:`LAUNCHED`)."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args and not ctx.resilient_parsing:
            at = args.index("--")
            ctx.meta[LAUNCHED] = tuple(args[at + 1 :])
            args = args[:at]
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- COMMAND...]"]


LAUNCHED = "dotnetdiag.cli.launched"


class _Words:
    def __init__(self, command: Command, ctx: click.Context) -> None:
        options = [one for one in command.get_params(ctx) if isinstance(one, click.Option)]
        self._options = {text: one for one in options for text in (*one.opts, *one.secondary_opts)}
        self._may_be_pid = command.takes_pid
        self._given: dict[str | None, tuple[click.Option, str]] = {}
        self._ctx = ctx

    def plain(self, args: Sequence[str]) -> list[str]:
        """The words as click takes them. Raises click's UsageError for an option given twice."""
        made: list[str] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if word == "--":
                return [*made, word, *rest]
            spelling, value = self._split(word)
            option = self._options.get(spelling)
            if option is not None:
                made += self._option(option, spelling, value, rest)
            elif self._may_be_pid and not word.startswith("-"):
                is_pid = (
                    word.isdecimal() and len(word) <= PID_DIGITS and not any(name in self._given for name in _TARGETS)
                )
                made += self._option(self._options["-p"], "-p", word, rest) if is_pid else [word]
                self._may_be_pid = False
            else:
                made.append(word)
        return made

    def _split(self, word: str) -> tuple[str, str | None]:
        """The option as it is spelled, and the value that is joined to it."""
        if word.startswith("--"):
            found = re.fullmatch(r"(--[^=:]+)[=:](.*)", word, re.DOTALL)
            return (found[1], found[2]) if found else (word, None)
        option = self._options.get(word[:2])
        if len(word) > 2 and option is not None and not option.is_flag:
            return word[:2], word[3:] if word[2] in "=:" else word[2:]
        return word, None

    def _option(self, option: click.Option, spelling: str, value: str | None, rest: list[str]) -> list[str]:
        self._require_once(option, spelling)
        if option.is_flag:
            said = None if value is None else value.lower()
            return [] if said == "false" else [spelling] if said in (None, "true") else [f"{spelling}={value}"]
        if value is None and option.type is click.BOOL:
            value = rest.pop(0) if rest and rest[0].lower() in _BOOLEANS else "true"
        if value is None:
            return [spelling, *([rest.pop(0)] if rest else [])]
        return [f"{spelling}={value}"] if spelling.startswith("--") else [spelling, value]

    def _require_once(self, option: click.Option, spelling: str) -> None:
        before = self._given.get(option.name)
        self._given[option.name] = option, spelling
        if before is None:
            return
        first, other = before
        if first is option and (option.multiple or (option.is_flag and not option.secondary_opts)):
            return
        both = f"'{spelling}'" if spelling == other else f"'{other}' and '{spelling}'"
        raise click.UsageError(f"{both}: only one of them would count. Give it once.", self._ctx)
