"""The options of ``trace collect`` that say when a recording stops and what of it is kept, and what asks a flight recorder for a dump."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.cli.files import shown_path
from dotnetdiag.cli.signals import handled

if TYPE_CHECKING:
    from dotnetdiag.recipes.collect import Keeping
    from dotnetdiag.recipes.kept_files import KeptFile
    from dotnetdiag.recipes.ring_files import DumpTrigger

SIGNALS = {"signal": ("SIGUSR1", "SIGUSR2"), "sigusr1": ("SIGUSR1",), "sigusr2": ("SIGUSR2",)}
KEY = "key"

_OPTIONS = (
    click.option(
        "--stop-on",
        metavar="EVENT",
        help="Stop at an event: 'GC/Start', 'Provider/Event where Field > 5' (conditions as in trace events --where).",
    ),
    click.option("--stop-on-hit", type=click.IntRange(min=1), default=1, show_default=True, help="At which of them."),
    click.option("--stop-delay", help="How long it still records then: 5s."),
    click.option(
        "--max-size", help="Stop at this size: 100MB, 64MiB. What the runtime tells at the end comes behind it."
    ),
    click.option(
        "--rotate", metavar="SIZE", help="Files of this size, NAME.1.nettrace, NAME.2.nettrace …, each whole."
    ),
    click.option("--keep", type=click.IntRange(min=1), help="Of the files of --rotate or --ring, the last so many."),
    click.option(
        "--ring",
        metavar="DURATION",
        help="Flight recorder: keep only the last 60s, in memory, and write them when asked.",
    ),
    click.option("--ring-size", metavar="SIZE", help="What it may hold.  [default: 256MB]"),
    click.option(
        "--dump-on",
        multiple=True,
        metavar="EVENT|signal|key",
        help="Write NAME.1.nettrace, NAME.2.nettrace …: at an event (as --stop-on), at SIGUSR1 or SIGUSR2 (signal), at Enter (key). "
        "Also several.  [default: signal]",
    ),
    click.option(
        "--dump-at-end/--no-dump-at-end", default=True, show_default=True, help="Also write the last when it ends."
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOptions:
    """What the options mean. ``signals_named`` and ``on_key`` ask for dumps."""

    keeping: Keeping
    signals_named: tuple[str, ...]
    on_key: bool

    @property
    def enter_says(self) -> str | None:
        """What Enter does, when it does not end the recording."""
        return f"write the last {self.keeping.ring}" if self.on_key else None

    def trigger(self) -> DumpTrigger | None:
        """What asks for dumps; None where there is no flight recorder."""
        if self.keeping.ring is None:
            return None
        from dotnetdiag.recipes.ring_files import DumpTrigger

        return DumpTrigger()

    def signals(self, trigger: DumpTrigger | None) -> AbstractContextManager[None]:
        """Within the block they ask for dumps, also while nothing is recorded yet: they would end the program."""
        if trigger is None or not self.signals_named:
            return nullcontext()
        return handled(self.signals_named, lambda *_: trigger.ask())


def keeping_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options; the command gets them as ``kept``."""

    @functools.wraps(command)
    def with_kept(
        *,
        stop_on: str | None,
        stop_on_hit: int,
        stop_delay: str | None,
        max_size: str | None,
        rotate: str | None,
        keep: int | None,
        ring: str | None,
        ring_size: str | None,
        dump_on: tuple[str, ...],
        dump_at_end: bool,
        **others: Any,
    ) -> None:
        from dotnetdiag.errors import NotPossible, UsageError
        from dotnetdiag.recipes.collect import Keeping

        words = [word.strip() for word in dump_on]
        names = tuple(dict.fromkeys(one for word in words for one in SIGNALS.get(word.lower(), ())))
        on_key = any(word.lower() == KEY for word in words)
        if words and ring is None:
            raise UsageError("--dump-on says when a flight recorder writes what it holds: it needs --ring")
        if names and sys.platform == "win32":
            raise NotPossible("--dump-on signal", "Windows has no such signals; use --dump-on key, or an event")
        if on_key and not sys.stdin.isatty():
            raise NotPossible("--dump-on key", "standard input is no terminal; use --dump-on signal, or an event")
        if ring is not None and not dump_on and sys.platform != "win32":
            names = SIGNALS["signal"]
        keeping = Keeping(
            stop_on=stop_on,
            stop_on_hit=stop_on_hit,
            stop_delay=stop_delay,
            max_size=max_size,
            rotate=rotate,
            keep=keep,
            ring=ring,
            ring_size=ring_size,
            dump_on=tuple(word for word in words if word.lower() not in (KEY, *SIGNALS)),
            dump_at_end=dump_at_end,
        )
        command(kept=KeptOptions(keeping=keeping, signals_named=names, on_key=on_key), **others)

    for option in reversed(_OPTIONS):
        with_kept = option(with_kept)
    return with_kept


def file_line(file: KeptFile) -> str:
    """A file in a line."""
    from dotnetdiag.cli.render import size_text

    parts = [size_text(file.size_bytes)]
    if file.window_s is not None:
        parts.append(f"the last {file.window_s:.1f} s{' (the ring was full)' if file.is_cut else ''}")
    if file.lost_events:
        parts.append(f"{file.lost_events:,} events lost")
    if file.named is False:
        parts.append("names of methods may be missing")
    return f"{shown_path(file.path)}  {', '.join(parts)}"
