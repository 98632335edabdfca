"""The verbs of the command line as functions, with the names that they have at the root: ``dd.trim("app.nettrace", "part.nettrace")``.

A recording is given as a path, or as a ``Trace`` where nothing is written of its bytes; a runtime as a pid, a name, the address of a
diagnostic port, or a ``Client``. Times are seconds since the start, or texts (``"1.5s"``, ``"2m"``).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from dotnetdiag.durations import parse_duration
from dotnetdiag.errors import UsageError
from dotnetdiag.recipes.target import Client, Target, connected

if TYPE_CHECKING:
    from dotnetdiag.analysis.diff import ProfileDiff
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.recipes.collect import Collected
    from dotnetdiag.recipes.contents import TraceContents
    from dotnetdiag.recipes.exporting import Converted
    from dotnetdiag.recipes.report import Report
    from dotnetdiag.recipes.thread_stacks import StackReport
    from dotnetdiag.recipes.trace_rewrite import Rewritten
    from dotnetdiag.trace.trace import Trace

PathText: TypeAlias = Union[str, "os.PathLike[str]"]
Seconds: TypeAlias = float | str | None
Runtime: TypeAlias = int | str | Client | Target
"""A pid; a name, or the address of a port (``/run/port``, ``host:9000``, either with ``,connect`` or ``,listen``); what was made of one."""


def target_of(runtime: int | str | Target) -> Target:
    """Which runtime is meant. Raises UsageError for what can be none."""
    if isinstance(runtime, Target):
        return runtime
    if isinstance(runtime, int) and not isinstance(runtime, bool):
        return Target(pid=runtime)
    if not isinstance(runtime, str) or not runtime:
        raise UsageError(f"{runtime!r} is no runtime: give a pid, a name, or the address of a port")
    if runtime.isdecimal():
        return Target(pid=int(runtime))
    is_address = any(sign in runtime for sign in "/\\:,")
    return Target(port=runtime) if is_address else Target(name=runtime)


@contextmanager
def client_of(runtime: Runtime) -> Iterator[Client]:
    """A client of it; the caller's own stays open."""
    if isinstance(runtime, Client):
        yield runtime
        return
    with connected(target_of(runtime)) as client:
        yield client


def collect(
    runtime: int | str | Target | None = None,
    output: PathText | None = None,
    *,
    providers: str | None = None,
    preset: str | None = None,
    duration: Seconds = None,
    command: Sequence[str] = (),
    clr_events: str | None = None,
    clr_event_level: str | None = None,
    formats: str | Sequence[str] = (),
    buffer_mb: int = 256,
    rundown: bool | None = None,
    stacks: bool = True,
    resume: bool = True,
    force: bool = False,
) -> Collected:
    """Record a runtime, or a ``command`` from its first instruction, until ``duration`` is over or it ends.

    ``preset`` is a named set of providers (``cpu-sampling``, ``gc-verbose``, several with commas), ``providers`` a provider text; both
    add up. ``output`` is overwritten; None: named after the program. ``formats`` are written beside it. Raises UsageError, GrammarError,
    the errors of the client, OutputError.
    """
    from dotnetdiag.recipes.collect import CollectOptions, convert_recording
    from dotnetdiag.recipes.collect import collect as record

    if (runtime is None) == (not command):
        raise UsageError("give a runtime or a command to record")
    options = CollectOptions(
        target=None if runtime is None else target_of(runtime),
        command=tuple(command),
        output=None if output is None else Path(output),
        providers=providers,
        presets=preset,
        duration=duration,
        clr_events=clr_events,
        clr_event_level=clr_event_level,
        formats=_some(formats),
        buffer_mb=buffer_mb,
        rundown=rundown,
        stacks=stacks,
        resume=resume,
        force=force,
    )
    done = record(options)
    convert_recording(done, options)
    return done


def stack(runtime: Runtime) -> StackReport:
    """The stacks of all managed threads now. Raises NotPossible for NativeAOT, which has no sample profiler."""
    from dotnetdiag.recipes.stack_report import take_stacks

    with client_of(runtime) as client:
        return take_stacks(client)


def info(source: PathText | Trace) -> TraceContents:
    """What is in a recording: events, losses, threads, processes, whether it is whole."""
    from dotnetdiag.recipes.contents import describe

    with _opened(source) as trace:
        return describe(trace)


def report(source: PathText | Trace, number: int = 5, *, inclusive: bool = False, **view: Any) -> Report:
    """The methods of a recording that took the most time; ``view`` as ``recipes.report.ViewOptions`` has it: ``by="module"``,
    ``state="cpu"``, ``focus="Sql"`` (or several), ...

    Raises UsageError for what makes no sense.
    """
    from dotnetdiag.recipes.report import ReportOptions, ViewOptions, report_of

    try:
        for name in _SEVERAL & view.keys():
            view[name] = _some(view[name])
        options = ViewOptions(**view)
    except TypeError as error:
        raise UsageError(f"no such view of a report: {error}") from error
    with _opened(source) as trace:
        return report_of(trace, ReportOptions(number=number, inclusive=inclusive, view=options))


def diff(
    before: PathText | Trace | StackProfile, after: PathText | Trace | StackProfile, *, shares: bool = False
) -> ProfileDiff:
    """What changed from one profile, or recording, to another, per method and per call path. A recording is compared by what ran
    (``State.CPU``): waiting depends on how long was recorded. ``shares``: the second is scaled to the total of the first.

    Raises UsageError when their units differ, or one of them has no samples.
    """
    from dotnetdiag.analysis.diff import diff as compare

    profiles = [_profile(before), _profile(after)]
    for profile in profiles:
        if not len(profile):
            raise UsageError(f"{profile.origin.name or 'a profile'} has no samples: nothing can be said of it")
    return compare(*profiles, shares=shares)


def merge(*paths: PathText, force: bool = False) -> Rewritten:
    """Make one trace (nettrace 6), the last path, of several, in time order: ``dd.merge("a.nettrace", "b.nettrace", "all.nettrace")``.

    Raises OutputExists for a file that is there, unless ``force``.
    """
    from dotnetdiag.recipes.trace_rewrite import merge_files

    if len(paths) < 2:
        raise UsageError("give the recordings, and at the end the file to write")
    *sources, output = map(Path, paths)
    return merge_files(sources, output, force=force)


def trim(
    source: PathText,
    output: PathText,
    *,
    start: Seconds = None,
    end: Seconds = None,
    strict: bool = False,
    force: bool = False,
) -> Rewritten:
    """The events from ``start`` up to ``end`` after the start, and those that name methods, types and processes unless ``strict``."""
    from dotnetdiag.recipes.trace_rewrite import trim as cut

    if start is None and end is None:
        raise UsageError("give a start, an end, or both")
    return cut(Path(source), Path(output), start_s=_seconds(start), end_s=_seconds(end), strict=strict, force=force)


def filter(
    source: PathText,
    output: PathText,
    *,
    providers: str | Sequence[str] = (),
    events: str | Sequence[str] = (),
    strict: bool = False,
    force: bool = False,
) -> Rewritten:
    """The events of some providers, and events by name; and those that name methods, types and processes unless ``strict``."""
    from dotnetdiag.recipes.trace_rewrite import filter_events

    return filter_events(
        Path(source), Path(output), providers=_some(providers), names=_some(events), strict=strict, force=force
    )


def redact(
    source: PathText,
    output: PathText,
    *,
    fields: str | Sequence[str] = (),
    force_partial: bool = False,
    force: bool = False,
) -> Rewritten:
    """A copy with command lines, environments and ``fields`` (``Provider/Event.Field``) made unreadable.

    Raises NotUnderstood for a file of which a part was not understood; with ``force_partial`` all that is blanked.
    """
    from dotnetdiag.recipes.trace_rewrite import redact_file

    return redact_file(Path(source), Path(output), fields=_some(fields), force_partial=force_partial, force=force)


def convert(source: PathText, *formats: str, output: PathText | None = None, force: bool = False) -> list[Converted]:
    """Write a recording in some formats, beside it or named after ``output``: ``dd.convert("app.nettrace", "speedscope")``.

    Raises UsageError for an unknown format, OutputExists for a file that is there, unless ``force``.
    """
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file

    return convert_file(Path(source), formats, None if output is None else Path(output), ConvertOptions(force=force))


@contextmanager
def _opened(source: PathText | Trace) -> Iterator[Trace]:
    from dotnetdiag.recipes.trace_files import open_trace
    from dotnetdiag.trace.trace import Trace

    if isinstance(source, Trace):
        yield source
    else:
        yield open_trace(source)


def _profile(source: PathText | Trace | StackProfile) -> StackProfile:
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.recipes.report import ViewOptions, view

    if isinstance(source, StackProfile):
        return source
    with _opened(source) as trace:
        return view(trace, ViewOptions(state="cpu"))


_SEVERAL = frozenset({"threads", "focus", "ignore"})


def _some(texts: str | Sequence[str]) -> tuple[str, ...]:
    """One text, or several."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def _seconds(value: Seconds) -> float | None:
    if value is None or not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return parse_duration(value)
