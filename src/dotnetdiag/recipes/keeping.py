"""When a recording stops, and what of it is kept: options, and what they mean for a session."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import UsageError, WrongCombination
from dotnetdiag.recipes.sizes import size_bytes_of

if TYPE_CHECKING:
    from dotnetdiag.client import Client
    from dotnetdiag.providers.composition import Composition
    from dotnetdiag.recipes.kept_files import Keeper, KeptFile
    from dotnetdiag.recipes.ring_files import DumpTrigger
    from dotnetdiag.recipes.stopping import EventWatcher, StoppingEvent


class StopCause(StrEnum):
    """What ended a recording that was not ended by its caller, its duration or its target."""

    EVENT = "event"
    SIZE = "size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    """``stop_on`` names an event, ``Provider/Event where Field > x`` (``stopping.parse_event``): the recording ends ``stop_delay`` after its
    ``stop_on_hit``-th. ``max_size``: it ends when it has so many bytes. ``rotate``: into files of that size, of which the last ``keep``
    stay. ``ring``: only the last seconds of it, in ``ring_size`` bytes at most, which are written when an event of ``dump_on`` comes, when a
    ``DumpTrigger`` asks, and in the end (unless ``dump_at_end`` is false); of these files, too, the last ``keep`` stay.

    Sizes and times are numbers of bytes and seconds, or texts (``"100MB"``, ``"60s"``).
    """

    stop_on: str | None = None
    stop_on_hit: int = 1
    stop_delay: float | str | None = None
    max_size: int | str | None = None
    rotate: int | str | None = None
    keep: int | None = None
    ring: float | str | None = None
    ring_size: int | str | None = None
    dump_on: tuple[str, ...] = ()
    dump_at_end: bool = True

    @property
    def in_several_files(self) -> bool:
        """Whether the recording is not one file."""
        return self.rotate is not None or self.ring is not None

    def check(self, providers: Sequence[str]) -> None:
        """Raises what is wrong with it for a session of these providers: UsageError, GrammarError, UnknownName."""
        if self.rotate is not None and self.ring is not None:
            raise WrongCombination("a recording is rotated, or kept in a ring: not both")
        if self.ring is None and (self.dump_on or self.ring_size is not None or not self.dump_at_end):
            raise WrongCombination("dumps are of a ring: say how many seconds it is to hold", lacking="ring")
        if self.ring is not None and self.max_size is not None:
            raise WrongCombination("a ring does not grow: give the size of the ring", lacking="ring_size")
        if self.keep is not None and not self.in_several_files:
            raise WrongCombination(
                "files to keep are those of a rotation or of a ring: there is one file", lacking="rotate"
            )
        if self.stop_on is None and (self.stop_on_hit != 1 or self.stop_delay is not None):
            raise WrongCombination("hits and a delay are of an event to stop on", lacking="stop_on")
        if self.keep is not None and self.keep < 1:
            raise UsageError(f"{self.keep} files to keep: must be 1 or more")
        if self.max_size is not None:
            size_bytes_of(self.max_size)
        if self.rotate is not None:
            size_bytes_of(self.rotate)
        if self.ring is not None:
            from dotnetdiag.recipes.ring_files import window_s_of

            window_s_of(self.ring)
            if self.ring_size is not None:
                size_bytes_of(self.ring_size)
        seconds_of(self.stop_delay, "delay")
        if self.stop_on is not None or self.dump_on:
            from dotnetdiag.recipes.stopping import parse_event

            for text in (*(() if self.stop_on is None else (self.stop_on,)), *self.dump_on):
                parse_event(text, providers, hit=self.stop_on_hit)

    def keeper(
        self,
        path: Path,
        client: Client,
        chosen: Composition,
        trigger: DumpTrigger | None,
        dumped: Callable[[KeptFile], None],
        *,
        is_cancelled: Callable[[], bool],
        force: bool,
    ) -> Keeper | None:
        """What takes the session's bytes; None where they go into one file."""
        if not self.in_several_files:
            return None
        from dotnetdiag.recipes.kept_files import FileNames
        from dotnetdiag.recipes.ring_files import DEFAULT_RING_BYTES, DumpTrigger, RingFiles, window_s_of
        from dotnetdiag.recipes.rotated_files import RotatedFiles
        from dotnetdiag.recipes.rundown import Rundown

        names = FileNames(path, force=force)
        rundown = Rundown(client, keyword=chosen.rundown_keyword, fallback=chosen.rundown_fallback)
        if self.rotate is not None:
            return RotatedFiles(
                names,
                size_bytes=size_bytes_of(self.rotate),
                keep=self.keep,
                rundown=rundown,
                is_cancelled=is_cancelled,
            )
        assert self.ring is not None
        return RingFiles(
            names,
            window_s=window_s_of(self.ring),
            size_bytes=size_bytes_of(DEFAULT_RING_BYTES if self.ring_size is None else self.ring_size),
            rundown=rundown,
            trigger=trigger or DumpTrigger(),
            keep=self.keep,
            dump_at_end=self.dump_at_end,
            dumped=dumped,
            is_cancelled=is_cancelled,
        )


class Watch:
    """Looks at a session's bytes for what ends it, and for what a dump is written for."""

    def __init__(
        self,
        keeping: Keeping,
        event: StoppingEvent | None,
        providers: Sequence[str],
        *,
        stop: Callable[[], None],
        dump: Callable[[], None],
    ) -> None:
        """``event`` is another one that ends it, as the options of dotnet-trace name it."""
        self.cause: StopCause | None = None
        """What has ended it."""
        self._stop, self._size_bytes = stop, 0
        self._max_bytes = None if keeping.max_size is None else size_bytes_of(keeping.max_size)
        self._stopping: list[EventWatcher] = []
        self._dumping: list[EventWatcher] = []
        if event is None and keeping.stop_on is None and not keeping.dump_on:
            return
        from dotnetdiag.recipes.stopping import EventWatcher, parse_event

        if event is not None:
            self._stopping.append(EventWatcher(event, self._on_event))
        if keeping.stop_on is not None:
            wanted = parse_event(keeping.stop_on, providers, hit=keeping.stop_on_hit)
            delay_s = seconds_of(keeping.stop_delay, "delay") or 0.0
            self._stopping.append(EventWatcher(wanted, self._on_event, delay_s=delay_s))
        self._dumping = [
            EventWatcher(parse_event(text, providers), dump, again=True) for text in dict.fromkeys(keeping.dump_on)
        ]

    def feed(self, data: memoryview) -> None:
        """Take the next bytes."""
        self._size_bytes += len(data)
        if self._max_bytes is not None and self._size_bytes >= self._max_bytes:
            self._max_bytes = None
            self._end(StopCause.SIZE)
        for watcher in (*self._stopping, *self._dumping):
            watcher.feed(data)

    def look(self) -> None:
        """To be called now and then, also when nothing comes."""
        for watcher in self._stopping:
            watcher.look()

    def notes(self) -> list[str]:
        """What to tell in the end, one line each."""
        made = [note for watcher in self._stopping for note in watcher.notes()]
        if self.cause is StopCause.SIZE:
            made.append("Stopped at the size that it was to have; what the runtime tells at the end came behind it.")
        for watcher in self._dumping:
            if not watcher.hits:
                missing = f": it has no field {', '.join(sorted(watcher.missing))}" if watcher.missing else ""
                made.append(f"The event to dump on, {watcher.wanted.title}, did not come{missing}.")
        return made

    def _on_event(self) -> None:
        self._end(StopCause.EVENT)

    def _end(self, cause: StopCause) -> None:
        if self.cause is None:
            self.cause = cause
        self._stop()
