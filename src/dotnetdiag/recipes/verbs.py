"""The verbs of the command line as functions, with the names that they have at the root: ``dd.trim("app.nettrace", "part.nettrace")``.

A recording is given as a path, or as a ``Trace`` where nothing is written of its bytes; a runtime as a pid, a name, the address of a
diagnostic port, or a ``Client``. Times are seconds since the start, or texts (``"1.5s"``, ``"2m"``).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, Union, Unpack

from dotnetdiag.durations import time_of
from dotnetdiag.errors import UsageError
from dotnetdiag.recipes.target import Client, Target, connected

if TYPE_CHECKING:
    from dotnetdiag.analysis.advice import AdviceReport
    from dotnetdiag.analysis.counters import Counters
    from dotnetdiag.analysis.diff import ProfileDiff
    from dotnetdiag.analysis.exceptions import ExceptionReport
    from dotnetdiag.analysis.gc_collections import GcReport
    from dotnetdiag.analysis.jit import JitReport
    from dotnetdiag.analysis.requests import RequestReport
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.analysis.tasks import TaskReport
    from dotnetdiag.analysis.thread_pool import ThreadPoolReport
    from dotnetdiag.analysis.waits import WaitReport
    from dotnetdiag.query.dataset import Dataset
    from dotnetdiag.recipes.collect import Collected
    from dotnetdiag.recipes.contents import TraceContents
    from dotnetdiag.recipes.exporting import Converted
    from dotnetdiag.recipes.follow import Followed, FollowObserver
    from dotnetdiag.recipes.report import Report, View
    from dotnetdiag.recipes.startup import Startup
    from dotnetdiag.recipes.stop import Stop
    from dotnetdiag.recipes.thread_stacks import StackReport
    from dotnetdiag.recipes.trace_rewrite import Rewritten
    from dotnetdiag.table import Table
    from dotnetdiag.trace.trace import Trace

PathText: TypeAlias = Union[str, "os.PathLike[str]"]
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
        output=None if output is None else _path(output),
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
        output=_path(folder),
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


def advice(source: PathText | Trace) -> AdviceReport:
    """What stands out in a recording: ``.findings`` is a table, the most important first: ``severity`` (per cent of the time that it costs,
    about), ``question`` (the kind of report that has more of it) and ``text``, a sentence; empty where all is well. ``.lacking``: of what could
    not be looked at, what the recording lacks. ``.seconds``: how long was recorded.

    Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.advice import advice as ask

    with _opened(source) as trace:
        return ask(trace)


def cpu(source: PathText | Trace, *, weight: str = "time", marks: str = "none") -> StackProfile:
    """Sampled time of all threads of a recording, in ms, or with ``weight="samples"`` the number of samples.

    Takes the kernel's samples where the recording has some. One without samples gives an empty profile, with a note. ``marks`` are other
    events that count as samples: ``allocations``, or ``events`` (those, and events of EventSources), as dotnet-trace has them.
    Raises UsageError for another weight or other marks; InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.cpu import cpu as ask

    with _opened(source) as trace:
        return ask(trace, weight=weight, marks=marks)


def stacks(
    source: PathText | Trace, events: str | Sequence[str] | None = None, *, weight: str | None = None, unit: str = ""
) -> StackProfile:
    """The stacks of events of a recording by name (None: of all events), each counting one.

    ``weight`` is the name of a field to add up instead: ``dd.stacks(trace, "GC/AllocationTick", weight="AllocationAmount64",
    unit="bytes")``; events without the field count 0. Raises UnknownName for names that are not there, UsageError for a field that is no
    number; InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.stacks import stacks as ask

    with _opened(source) as trace:
        return ask(trace, events, weight=weight, unit=unit)


def spans(source: PathText | Trace, start: str, stop: str, *, by: str | Sequence[str] | None = None) -> Table:
    """What begins with an event ``start`` and ends with an event ``stop``: a row for each start, by its time.

    Columns: ``start_ms``, ``stop_ms``, ``duration_ms`` (the last two None where the recording has no stop), ``pid``, ``tid``, ``stop_tid``, the
    fields of the start, and those of the stop as ``stop_Name``. Stops without a start are counted in ``notes``, whose first line says by what
    the two were brought together.

    ``by`` names the columns that both have and that say which belong together, always within a process: the start that came last and is still
    open is the one that ends. None: the activity ids if every event of both has one; else the first field of whole numbers with the same name
    in both, in which no two starts and no two stops are equal and more than half of the values are in both (``Count`` of ``GC/Start``); else
    the thread. What happened in one tick is in the order of the thread; of several threads, starts come before stops.

    Raises UnknownName for events or columns that are not there, UsageError where an event is both.
    """
    from dotnetdiag.analysis.spans import spans as ask

    with _opened(source) as trace:
        return ask(trace, start, stop, by=by)


def exceptions(source: PathText | Trace) -> ExceptionReport:
    """The exceptions that were thrown in a recording, caught or not: ``.by_type`` (``type count messages threads first_ms last_ms``),
    ``.by_message`` (``type message count``) and ``.by_second`` (``second count``) are tables, the most frequent first; ``.count`` is of all.
    One that is thrown again counts again. ``.notes``: what the recording lacks.

    Where they were thrown: ``dd.stacks(source, "Exception/Start")``. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.exceptions import exceptions as ask

    with _opened(source) as trace:
        return ask(trace)


def gc(source: PathText | Trace) -> GcReport:
    """Every collection of the garbage collector in a recording: ``.collections`` is a table with a row for each, in the order of their begins,
    process by process, ``.totals`` what they come to, ``.notes`` what the recording lacks.

    Columns: ``pid``, ``number``, ``generation``, ``reason`` and ``type`` (as TraceEvent writes them), ``start_ms``, ``duration_ms`` (to its
    end), ``pause_start_ms``, ``pause_ms`` (how long it stopped the program; of one in the background all its pauses), ``suspend_ms``, and of the
    pause ``mark_ms``, ``plan_ms``, ``relocate_ms``, ``compact_ms``, ``sweep_ms`` (.NET 5 and later); ``before_bytes``, ``after_bytes``,
    ``promoted_bytes``, ``allocated_bytes`` (since the one before), these also for ``gen0``, ``gen1``, ``gen2``, ``loh`` and ``poh``
    (``gen0_before_bytes``, and ``after``, ``survived``, ``free``, ``budget``); ``heaps``, ``pinned_objects``, ``finalized_objects``,
    ``handles``, ``memory_load_percent``. What the recording does not tell is None.

    It needs the keyword gc: profiles gc-collect, gc-verbose, dotnet-common. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.gc_collections import gc as ask

    with _opened(source) as trace:
        return ask(trace)


def jit(source: PathText | Trace) -> JitReport:
    """The methods that were compiled in a recording: ``.methods`` is a table with a row for each compilation, in the order of their begins,
    ``.totals`` what they come to, ``.notes`` what the recording lacks.

    Columns: ``method``, ``tier`` (as TraceEvent writes it), ``kind`` (``Foreground``: a thread waited for it; ``TieredCompilationBackground``),
    ``start_ms``, ``compile_ms``, ``il_bytes``, ``native_bytes``, ``pid``, ``tid``; None where the end of a compilation was not recorded.

    It needs the keyword jit at level verbose, and the keyword compilation for ``kind``. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.jit import jit as ask

    with _opened(source) as trace:
        return ask(trace)


def contention(source: PathText | Trace) -> WaitReport:
    """Who wanted a lock that another thread had: ``.waits`` is a table with a row for each time, in the order of their begins; ``.by_method``,
    ``.by_lock`` and ``.by_owner`` (who waited for whom) are what these come to (``count total_ms max_ms``), ``.profile`` their stacks weighted by
    ms, ``.totals`` of all (``count total_ms max_ms unfinished threads``, and quantiles as ``waits_ms``), ``.notes`` what the recording lacks.

    Columns: ``start_ms``, ``duration_ms`` (as the runtime measures it; None where the end was not recorded), ``pid``, ``tid``, ``thread`` (its
    name), ``method`` (the first of the program in the stack, else the leaf), ``lock``, ``owner_tid`` and ``owner`` (who had it when the wait
    began; of NativeAOT the runtime's own number), ``object``. What the recording does not tell is None.

    It needs the keyword contention (``--clrevents contention``). Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.waits import contention as ask

    with _opened(source) as trace:
        return ask(trace)


def waits(source: PathText | Trace) -> WaitReport:
    """What threads waited for in the runtime (.NET 9 and later): handles, joins, sleepers on monitors, contended locks too. As
    :func:`contention`, with ``source`` in the place of lock and owner: ``Wait``, ``MonitorWait``, or ``Contention`` for a wait within one.

    It needs the keyword waithandle at level verbose. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.waits import waits as ask

    with _opened(source) as trace:
        return ask(trace)


def requests(source: PathText | Trace) -> RequestReport:
    """What came in and what went out because of it, with what is within what: ``.requests`` is a table with a row for each span, in the order of
    their begins; ``.by_route`` what is alike together (names without numbers and ids: ``GET /items/*``), those that took most time first;
    ``.totals`` of all, ``.notes`` what the recording lacks.

    Columns of ``.requests``: ``start_ms``, ``duration_ms`` (None where the end was not recorded), ``pid``, ``tid``, ``kind`` (``server``,
    ``kestrel``, ``connection``, ``client`` and its parts, ``dns``, ``connect``, ``tls``, ``sql``, ``grpc server``, ``grpc client``), ``name``,
    ``status``, ``failure`` (why), ``queue_ms`` (a client waits for a connection), ``cpu_ms``, ``gc_ms``, ``lock_ms`` and ``allocated_bytes``
    (what it and all within it spent; of a pause of the collector all that are under way), ``parent`` (the number of a row) and ``depth``.

    It needs the EventSources of what is asked for, and ``System.Threading.Tasks.TplEventSource:0x80:4`` for the ids of activities; samples, ticks
    and contention for what is spent. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.requests import requests as ask

    with _opened(source) as trace:
        return ask(trace)


def tasks(source: PathText | Trace) -> TaskReport:
    """What awaited what: ``.awaits`` is a table with a row for each await, in the order of their begins; ``.by_method`` the methods that awaited
    (``count total_ms own_ms max_ms``; ``own_ms`` is without what the awaited tasks awaited themselves), ``.chains`` the longest, with who awaited
    what in them, ``.profile`` the logical stacks, weighted by ms, whatever threads they ran on, ``.totals`` of all, ``.notes`` what the
    recording lacks.

    Columns of ``.awaits``: ``start_ms``, ``duration_ms`` (None where the end was not recorded), ``pid``, ``tid``, ``task`` and its ``name``,
    ``awaited_by`` (a task; None: a thread), ``kind`` (``Asynchronous``, or ``Synchronous``: it blocks its thread), ``method`` (who awaits),
    ``depth`` (of awaits in each other).

    It needs ``System.Threading.Tasks.TplEventSource:0xB:4``. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.tasks import tasks as ask

    with _opened(source) as trace:
        return ask(trace)


def threadpool(source: PathText | Trace) -> ThreadPoolReport:
    """What the thread pool did: ``.work`` is a table with a row for each piece of work that was queued (``queued_ms queue_ms pid tid worker_tid
    method``: who queued it), ``.by_method`` what these come to, ``.starvation`` the times in which some work had waited for more than 100 ms
    (``start_ms duration_ms pid late longest_ms``), ``.adjustments`` each change of the number of threads (``ms pid threads reason throughput``, by
    the runtime's words), ``.threads`` how many were active, when that changed (``ms pid active``), ``.profile`` the stacks of who queued,
    weighted by how long it waited, ``.totals`` of all, ``.notes`` what the recording lacks.

    It needs the keyword threading of the runtime, and for what is queued ``System.Diagnostics.Eventing.FrameworkEventSource:0x2:5`` or, of
    tasks alone, ``System.Threading.Tasks.TplEventSource:0x2:5``. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.thread_pool import threadpool as ask

    with _opened(source) as trace:
        return ask(trace)


def counters(source: PathText | Trace, *, sessions: Collection[str] | None = None) -> Counters:
    """The values of counters of a recording: EventCounters, and what System.Diagnostics.Metrics measures. ``.rows`` is a table, in time order;
    ``.series`` what the rows are of; ``.summary()`` has a row for each series.

    ``sessions`` are ids of sessions of System.Diagnostics.Metrics, should the values of some alone be meant. One without counters gives an
    empty result, with a note. Raises UsageError for a text in the place of a list of sessions; InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.counters import counters as ask

    with _opened(source) as trace:
        return ask(trace, sessions=sessions)


def sql(sources: PathText | Trace | Iterable[PathText | Trace], query: str, *, external_access: bool = False) -> Table:
    """What a query of SQL answers, in DuckDB's words: ``dd.sql("*.nettrace", "select file, count(*) from events group by file")``. ``sources`` are
    paths, URLs of fsspec, patterns of either, traces, or several of them.

    Tables: events by name (``"GC/Start"``, with ``Provider/`` where that is needed), ``events`` (all, without payloads), the reports by the
    names that functions have here (``gc``, ``jit``, ``requests``, ``cpu_samples``, …), ``spans('GC/Start', 'GC/Stop')``, ``stacks('GC/Start')``;
    ``show tables`` has all. Each has a column ``file``. Only what a query uses is decoded, a window of events at a time; its answer is in memory.

    ``external_access``: it may read and write files, and load what DuckDB can; otherwise it reads recordings alone. Raises UsageError for what
    DuckDB refuses, UnknownName for a table that is not there, MissingDependency without the extra ``sql``; InputError and FormatError for a
    path, as ``open``.
    """
    from dotnetdiag.recipes.queries import database

    made = database(sources, external_access=external_access)
    try:
        return made.sql(query)
    finally:
        made.close()


def dataset(
    sources: PathText | Trace | Iterable[PathText | Trace], *, storage_options: Mapping[str, Any] | None = None
) -> Dataset:
    """Recordings as one set of tables: ``dd.dataset("s3://bucket/*.nettrace")``. ``sources`` as for :func:`sql`; ``storage_options`` are those of
    the file system that fsspec makes (keys, endpoints).

    ``dataset.batches("GC/Start", columns=["file", "ms", "Reason"])`` are record batches of Arrow, file by file and window by window;
    ``to_polars``, ``to_dask``, ``to_ray``, ``to_arrow`` and ``sql`` hand the same to engines, and ``tasks`` to any other. A recording that is
    elsewhere is fetched into a temporary file by who reads it.

    Raises InputError for a pattern that no file has, UsageError without a recording, MissingDependency without the extra ``dataset``.
    """
    from dotnetdiag.query.dataset import Dataset
    from dotnetdiag.recipes.queries import recordings_of

    return Dataset(recordings_of(sources, storage_options))


def info(source: PathText | Trace) -> TraceContents:
    """What is in a recording: events (by type, with counts, bytes, and events a second from the first to the last of them), losses, threads,
    processes, whether it is whole.

    Raises InputError for a file that cannot be read, FormatError for one that is no recording.
    """
    from dotnetdiag.recipes.contents import describe

    with _opened(source) as trace:
        return describe(trace)


def report(source: PathText | Trace, number: int = 5, *, inclusive: bool = False, **view: Unpack[View]) -> Report:
    """The ``number`` methods of a recording that took the most time, by their own, or by ``inclusive`` time with all that they called.

    ``view``: ``by="module"``, ``state="cpu"``, ``focus="Sql"`` (or several), ``start="2s"``, …, all of which ``View`` has. Raises UsageError for
    what makes no sense, GrammarError for what is no pattern, UnknownName for a state of .NET 9, which does not tell it; InputError and
    FormatError for a path, as ``open``.
    """
    from dotnetdiag.recipes.report import ReportOptions, report_of, view_options

    options = view_options(view)
    with _opened(source) as trace:
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
    *sources, output = map(_path, given)
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
    return cut(_path(source), _path(output), start_s=time_of(start), end_s=time_of(end), strict=strict, force=force)


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
        _path(source), _path(output), providers=_some(providers), names=_some(events), strict=strict, force=force
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

    return redact_file(_path(source), _path(output), fields=_some(fields), force_partial=force_partial, force=force)


def convert(source: PathText, *formats: str, output: PathText | None = None, force: bool = False) -> list[Converted]:
    """Write a recording in some formats, beside it or named after ``output``: ``dd.convert("app.nettrace", "speedscope")``.

    Raises UsageError for an unknown format, MissingDependency for one whose library is not installed; OutputExists for a file that is there,
    unless ``force``, OutputError for what the system refuses; InputError and FormatError for the recording, as ``open``.
    """
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file

    return convert_file(_path(source), formats, None if output is None else _path(output), ConvertOptions(force=force))


def _path(source: object) -> Path:
    """Raises UsageError for what is none."""
    if not isinstance(source, str | os.PathLike):
        raise UsageError(f"give the path of a file, not a {type(source).__name__}")
    return Path(source)


@contextmanager
def _opened(source: PathText | Trace) -> Iterator[Trace]:
    from dotnetdiag.recipes.trace_files import open_trace
    from dotnetdiag.trace.trace import Trace

    if isinstance(source, Trace):
        yield source
    else:
        yield open_trace(_path(source))


def _profile(source: PathText | Trace | StackProfile, arguments: View) -> StackProfile:
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.recipes.diffing import profile_to_compare
    from dotnetdiag.recipes.report import View, view_options

    if isinstance(source, StackProfile):
        if arguments:
            raise UsageError("a profile is compared as it is: the view is of recordings")
        return source
    options = view_options(View(**{"state": "cpu", **arguments}))
    with _opened(source) as trace:
        return profile_to_compare(trace, options)


def _some(texts: str | Sequence[str]) -> tuple[str, ...]:
    """One text, or several."""
    return (texts,) if isinstance(texts, str) else tuple(texts)
