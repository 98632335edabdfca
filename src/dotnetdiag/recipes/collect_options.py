"""What a recording is asked for, what it tells while it runs, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dotnetdiag._dataclasses import as_dict, dataclass, field
from dotnetdiag.errors import UsageError
from dotnetdiag.providers.composition import Composition, compose
from dotnetdiag.recipes.keeping import Keeping, StopCause
from dotnetdiag.recipes.kept_files import KeptFile
from dotnetdiag.recipes.outputs import check_outputs, is_stdout
from dotnetdiag.recipes.slow_start import Late, say_nothing
from dotnetdiag.recipes.suspension import Hold
from dotnetdiag.recipes.target import Target

if TYPE_CHECKING:
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.ring_files import DumpTrigger
    from dotnetdiag.recipes.stopping import StoppingEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectOptions:
    """What to record and where to put it; the texts are those of ``trace collect``.

    ``launch``: a program to start and to record from its first instruction, instead of ``target``. ``formats``: what
    :func:`convert_recording` is to write beside it; their files are overwritten with ``force`` only. ``keeping``: when it ends by itself, and
    what of it is kept.
    """

    target: Target | None = None
    launch: Launch | None = None
    output: Path | None = None
    providers: str | None = None
    presets: str | None = None
    clr_events: str | None = None
    clr_event_level: str | None = None
    event_filters: tuple[str, ...] = ()
    rundown: bool | None = None
    stacks: bool = True
    buffer_mb: int = 256
    block: bool = False
    duration: float | str | None = None
    resume: bool = True
    stopping_event: StoppingEvent | None = None
    keeping: Keeping = field(default_factory=Keeping)
    formats: tuple[str, ...] = ()
    force: bool = False

    def check_outputs(self, path: Path) -> None:
        """Raises what keeps the recording at ``path``, or a file that it is to be converted to, from being written."""
        if self.keeping.in_several_files:  # their names are free, as far as they are not to be overwritten
            if is_stdout(path):
                raise UsageError("several files are not written to stdout: name a file")
            check_outputs([path.with_name(f"{path.name}.part")], force=True)
            return
        if self.formats:
            from dotnetdiag.recipes.exporting import plan_outputs

            check_outputs(plan_outputs(path, self.formats).values(), force=self.force)
        check_outputs([path], force=True)

    def composed(self) -> Composition:
        """The session that the options mean. Raises GrammarError, UsageError, UnknownName for a stopping event that it does not have."""
        made = compose(
            providers=self.providers,
            presets=self.presets,
            clr_events=self.clr_events,
            clr_event_level=self.clr_event_level,
            rundown=self.rundown,
            event_filters=self.event_filters,
        )
        names = [provider.name or "" for provider in made.providers]
        if self.stopping_event is not None:
            from dotnetdiag.recipes.stopping import require_recorded

            require_recorded(self.stopping_event, names)
        self.keeping.check(names)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Collected:
    """A finished recording. ``child_exit_code`` of a program that was started for it, as a shell gives it: 128 and the number of the
    ``child_signal`` that ended it; ``notes`` are for people.

    ``complete``: the stream came to its end; None: not known. ``was_stopped``: by us, not by the target's exit (``target_exited``).
    ``lost_events`` is the runtime's own count; None where it is not known. ``files`` are those that are there, the oldest first: one, or those of
    a rotation or of a flight recorder, of which ``path`` is the last; ``size_bytes`` is of all. ``stopped_by``: an event or a size that was
    waited for.
    """

    path: Path
    size_bytes: int
    duration_s: float
    command: str
    pid: int | None
    buffer_mb: int
    complete: bool | None
    lost_events: int | None
    was_stopped: bool
    target_exited: bool
    child_exit_code: int | None = None
    child_signal: str | None = None
    notes: tuple[str, ...] = ()
    files: tuple[KeptFile, ...] = ()
    stopped_by: StopCause | None = None

    @property
    def was_cut(self) -> bool:
        """Whether the stream broke off although nobody had stopped it: what stands between has gone, or the target itself."""
        return self.complete is False and not self.was_stopped

    @property
    def target_died(self) -> bool:
        """Whether the target was gone before the trace had its end: names of methods may be missing."""
        return self.target_exited and self.complete is False

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            **as_dict(self),
            "target_died": self.target_died,
            "path": str(self.path),
            "notes": list(self.notes),
            "files": [file.to_json() for file in self.files],
        }


@dataclass(slots=True, kw_only=True)
class Observer:
    """What a face wants to be told of a recording, in the thread that records.

    ``started`` gets what is recorded and the file (of several the form of their names); ``progress`` the bytes so far and the seconds, several
    times a second; ``waiting`` the address that a runtime is waited for at; ``suspended`` is called when nothing will come because the
    runtime waits at its start, and nobody resumes it: with what holds it, where a resume did not help; ``stopping`` when the end has begun;
    ``late`` when the runtime does not begin the session for long;
    ``held`` gets the seconds and bytes that a ring has, before ``progress``; ``dumped`` a file that was written of it, in the thread that
    writes them.
    """

    started: Callable[[Composition, Path, int | None], None] = lambda *_: None
    progress: Callable[[int, float], None] = lambda *_: None
    waiting: Callable[[str], None] = lambda *_: None
    suspended: Callable[[tuple[Hold, ...]], None] = lambda _: None
    stopping: Callable[[], None] = lambda: None
    late: Late = say_nothing
    held: Callable[[float, int], None] = lambda *_: None
    dumped: Callable[[KeptFile], None] = lambda _: None
    trigger: DumpTrigger | None = None
    """Whoever has it asks a flight recorder for a dump."""
    child_signal: int | None = None
    """To be passed on to a program that was started for the recording; set when it comes."""
