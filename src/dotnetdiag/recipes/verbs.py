"""The verbs of the command line as functions, with the names that they have at the root: ``dd.trim("app.nettrace", "part.nettrace")``.

A recording is given as a path, or as a ``Trace`` where nothing is written of its bytes; a runtime as a pid, a name, the address of a
diagnostic port, or a ``Client``. Times are seconds since the start, or texts (``"1.5s"``, ``"2m"``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, Unpack

from dotnetdiag._dataclasses import replace
from dotnetdiag.durations import time_of
from dotnetdiag.errors import UsageError
from dotnetdiag.recipes.sources import PathText, opened, path_of
from dotnetdiag.recipes.target import Client, Target, connected

if TYPE_CHECKING:
    from dotnetdiag.analysis.diff import ProfileDiff
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.recipes.collect import Collected
    from dotnetdiag.recipes.contents import TraceContents
    from dotnetdiag.recipes.exporting import Converted
    from dotnetdiag.recipes.follow import Followed, FollowObserver
    from dotnetdiag.recipes.report import Report, View
    from dotnetdiag.recipes.startup import Startup
    from dotnetdiag.recipes.stop import Stop
    from dotnetdiag.recipes.thread_stacks import StackReport
    from dotnetdiag.recipes.trace_rewrite import Rewritten
    from dotnetdiag.trace.trace import Trace

Seconds: TypeAlias = float | str | None
Runtime: TypeAlias = int | str | Client | Target
"""A pid; a name, or the address of a port (``/run/port``, ``host:9000``, either with ``,connect`` or ``,listen``); what was made of one."""


def target_of(runtime: Runtime) -> Target:
    """Which runtime is meant. Raises UsageError for what can be none."""
    if isinstance(runtime, Target):
        return runtime
    if isinstance(runtime, Client):
        return Target(client=runtime)
    if isinstance(runtime, int) and not isinstance(runtime, bool):
        return Target(pid=runtime)
    if not isinstance(runtime, str) or not runtime:
        raise UsageError(f"{runtime!r} is no runtime: give a pid, a name, the address of a port, or a Client")
    if runtime.isdecimal():
        return Target(pid=int(runtime))
    is_address = any(sign in runtime for sign in "/\\:,")
    return Target(port=runtime) if is_address else Target(name=runtime)


def collect(
    runtime: Runtime | None = None,
    output: PathText | None = None,
    *,
    providers: str | None = None,
    preset: str | None = None,
    duration: Seconds = None,
    command: str | Sequence[str] = (),
    clr_events: str | None = None,
    clr_event_level: str | None = None,
    formats: str | Sequence[str] = (),
    buffer_mb: int = 256,
    rundown: bool | None = None,
    stacks: bool = True,
    resume: bool = True,
    startup: Startup | None = None,
    force: bool = False,
    stop_on: str | None = None,
    stop_on_hit: int = 1,
    stop_delay: Seconds = None,
    max_size: int | str | None = None,
    rotate: int | str | None = None,
    keep: int | None = None,
    progress: Callable[[int, float], None] | None = None,
    stop: Stop | None = None,
) -> Collected:
    """Record a runtime, or a ``command`` from its first instruction, until ``duration`` is over, it ends, or ``stop.stop()`` is called.
    ``startup`` is what a runtime is given while it waits at its start.

    ``preset`` is a named set of providers (``gc-verbose``, ``dotnet-sampled-thread-time``, several with commas), ``providers`` a provider text; both
    add up. ``output`` is overwritten; None: named after the program. ``formats`` are written beside it. ``progress`` gets the bytes so
    far and the seconds, several times a second.

    ``stop_on`` names an event, ``"GC/Start where Depth >= 2"``, with a provider before it or without: the recording ends ``stop_delay`` after
    its ``stop_on_hit``-th. ``max_size`` (``"100MB"``): it ends when it has that. ``rotate``: into files of that size, ``app.1.nettrace``,
    ``app.2.nettrace`` …, each a recording by itself; the last ``keep`` stay. The result's ``files`` are those that are there.

    Raises UsageError, GrammarError, the errors of the client, OutputError; Cancelled after
    ``stop.cancel()``: ``output`` has what had come; where nothing was recorded yet it is as it was.
    """
    from dotnetdiag.recipes.collect import CollectOptions, Keeping, Observer, convert_recording
    from dotnetdiag.recipes.collect import collect as record
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.startup import Startup

    if (runtime is None) == (not command):
        raise UsageError("give a runtime or a command to record")
    options = CollectOptions(
        target=None if runtime is None else replace(target_of(runtime), startup=startup or Startup()),
        launch=Launch(command=_some(command), startup=startup or Startup()) if command else None,
        output=None if output is None else path_of(output),
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
        keeping=Keeping(
            stop_on=stop_on,
            stop_on_hit=stop_on_hit,
            stop_delay=stop_delay,
            max_size=max_size,
            rotate=rotate,
            keep=keep,
        ),
    )
    done = record(options, Observer() if progress is None else Observer(progress=progress), stop)
    convert_recording(done, options)
    return done


def follow(
    command: str | Sequence[str],
    folder: PathText,
    *,
    providers: str | None = None,
    preset: str | None = None,
    duration: Seconds = None,
    formats: str | Sequence[str] = (),
    buffer_mb: int = 256,
    rundown: bool | None = None,
    stacks: bool = True,
    startup: Startup | None = None,
    stop_on_exit: bool = False,
    observer: FollowObserver | None = None,
    stop: Stop | None = None,
) -> Followed:
    """Start a program, and record it and everything .NET that it starts, each from its first instruction, into a file of its own in
    ``folder``, named by entry assembly and pid.

    Ends when nothing that it has started runs any more, with the program itself (``stop_on_exit``), after ``duration``, or with
    ``stop.stop()``. ``observer`` is told of each. Raises what ``collect`` raises; of one process that could not be recorded the result tells.
    """
    from dotnetdiag.recipes.collect import CollectOptions
    from dotnetdiag.recipes.follow import follow as record
    from dotnetdiag.recipes.launch import Launch
    from dotnetdiag.recipes.startup import Startup

    options = CollectOptions(
        launch=Launch(command=_some(command), startup=startup or Startup(), stop_on_exit=stop_on_exit),
        output=path_of(folder),
        providers=providers,
        presets=preset,
        duration=duration,
        formats=_some(formats),
        buffer_mb=buffer_mb,
        rundown=rundown,
        stacks=stacks,
    )
    return record(options, observer, stop)


def stack(runtime: Runtime, *, thread: int | str | None = None, style: str = "full") -> StackReport:
    """The stacks of all managed threads now, or of one, by its id (``0x1f`` and ``"31"`` too) or name. ``style`` of the methods' names is
    ``full``, ``short``, ``source`` or ``traceevent``, as ``Style`` has them.

    Raises ProcessNotFound, AmbiguousName and the other TargetErrors where the runtime is not found, NotPossible for NativeAOT, which has no
    sample profiler, UsageError for a thread or a style that is not there, and what all commands of a ``Client`` raise; DiagnosticsError for a
    runtime that is suspended at startup.
    """
    from dotnetdiag.recipes.stack_report import take_stacks
    from dotnetdiag.trace.method_names import Style

    try:
        chosen = Style(style)
    except ValueError as error:
        raise UsageError(f"style {style!r}: one of {', '.join(Style)}") from error
    with connected(target_of(runtime)) as client:
        report = take_stacks(client, style=chosen)
    return report if thread is None else report.only(str(thread))


def info(source: PathText | Trace) -> TraceContents:
    """What is in a recording: events (by type, with counts, bytes, and events a second from the first to the last of them), losses, threads,
    processes, whether it is whole.

    Raises InputError for a file that cannot be read, FormatError for one that is no recording.
    """
    from dotnetdiag.recipes.contents import describe

    with opened(source) as trace:
        return describe(trace)


def report(source: PathText | Trace, number: int = 5, *, inclusive: bool = False, **view: Unpack[View]) -> Report:
    """The ``number`` methods of a recording that took the most time, by their own, or by ``inclusive`` time with all that they called.

    ``view``: ``by="module"``, ``state="cpu"``, ``focus="Sql"`` (or several), ``start="2s"``, …, all of which ``View`` has. Raises UsageError for
    what makes no sense, GrammarError for what is no pattern, UnknownName for a state of .NET 9, which does not tell it; InputError and
    FormatError for a path, as ``open``.
    """
    from dotnetdiag.recipes.report import ReportOptions, report_of, view_options

    options = view_options(view)
    with opened(source) as trace:
        return report_of(trace, ReportOptions(number=number, inclusive=inclusive, view=options))


def diff(
    before: PathText | Trace | StackProfile,
    after: PathText | Trace | StackProfile,
    *,
    shares: bool = False,
    **view: Unpack[View],
) -> ProfileDiff:
    """What changed from one profile, or recording, to another, per method and per call path. A recording is compared by what ran
    (``state="cpu"``): waiting depends on how long was recorded. ``shares``: the second is scaled to the total of the first. ``view`` is of
    recordings, as in :func:`report`.

    Raises UsageError when their units differ, or one of them has no samples, UnknownName when it has none in the state; InputError and
    FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.diff import diff as compare

    profiles = [_profile(before, view), _profile(after, view)]
    for profile in profiles:
        if not len(profile):
            raise UsageError(f"{profile.origin.name or 'a profile'} has no samples: nothing can be said of it")
    return compare(*profiles, shares=shares)


def merge(*paths: PathText | Sequence[PathText], force: bool = False) -> Rewritten:
    """Make one trace (nettrace 6), the last path, of several, in time order: ``dd.merge("a.nettrace", "b.nettrace", "all.nettrace")``, or
    with the recordings in a list.

    Raises OutputExists for a file that is there, unless ``force``, OutputError for what the system refuses, InputError and FormatError for a
    recording, as ``open``, UsageError for less than two names.
    """
    from dotnetdiag.recipes.trace_rewrite import merge_files

    given = [one for some in paths for one in ([some] if isinstance(some, str | os.PathLike) else some)]
    if len(given) < 2:
        raise UsageError("give the recordings, and at the end the file to write")
    *sources, output = map(path_of, given)
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
    """The events from ``start`` up to ``end`` after the start (seconds, or texts such as ``"1.5s"``; None: open), and those that name
    methods, types and processes unless ``strict``.

    Raises UsageError for a time after the end, and without any; OutputExists for a file that is there, unless ``force``, OutputError for what
    the system refuses; InputError and FormatError for the recording, as ``open``.
    """
    from dotnetdiag.recipes.trace_rewrite import trim as cut

    if start is None and end is None:
        raise UsageError("give a start, an end, or both")
    return cut(path_of(source), path_of(output), start_s=time_of(start), end_s=time_of(end), strict=strict, force=force)


def filter(
    source: PathText,
    output: PathText,
    *,
    providers: str | Sequence[str] = (),
    events: str | Sequence[str] = (),
    strict: bool = False,
    force: bool = False,
) -> Rewritten:
    """The events of some providers, and events by name; and those that name methods, types and processes unless ``strict``.

    Raises UnknownName for what the recording does not have, UsageError without any name; OutputExists for a file that is there, unless
    ``force``, OutputError for what the system refuses; InputError and FormatError for the recording, as ``open``.
    """
    from dotnetdiag.recipes.trace_rewrite import filter_events

    return filter_events(
        path_of(source), path_of(output), providers=_some(providers), names=_some(events), strict=strict, force=force
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

    Raises NotUnderstood for a file of which a part was not understood; with ``force_partial`` all that is blanked. Raises UnknownName for
    fields that the recording does not have, UsageError for one that is no text; OutputExists for a file that is there, unless ``force``,
    OutputError for what the system refuses; InputError and FormatError for the recording, as ``open``.
    """
    from dotnetdiag.recipes.trace_rewrite import redact_file

    return redact_file(path_of(source), path_of(output), fields=_some(fields), force_partial=force_partial, force=force)


def convert(source: PathText, *formats: str, output: PathText | None = None, force: bool = False) -> list[Converted]:
    """Write a recording in some formats, beside it or named after ``output``: ``dd.convert("app.nettrace", "speedscope")``.

    Raises UsageError for an unknown format, MissingDependency for one whose library is not installed; OutputExists for a file that is there,
    unless ``force``, OutputError for what the system refuses; InputError and FormatError for the recording, as ``open``.
    """
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file

    return convert_file(
        path_of(source), formats, None if output is None else path_of(output), ConvertOptions(force=force)
    )


def _profile(source: PathText | Trace | StackProfile, arguments: View) -> StackProfile:
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.recipes.diffing import profile_to_compare
    from dotnetdiag.recipes.report import View, view_options

    if isinstance(source, StackProfile):
        if arguments:
            raise UsageError("a profile is compared as it is: the view is of recordings")
        return source
    options = view_options(View(**{"state": "cpu", **arguments}))
    with opened(source) as trace:
        return profile_to_compare(trace, options)


def _some(texts: str | Sequence[str]) -> tuple[str, ...]:
    """One text, or several."""
    return (texts,) if isinstance(texts, str) else tuple(texts)
