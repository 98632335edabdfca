"""What a recording answers, as functions with the names that they have at the root: ``dd.gc("app.nettrace")``.

The recording is given as a path, or as a ``Trace``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dotnetdiag.recipes.sources import PathText, opened

if TYPE_CHECKING:
    from dotnetdiag.analysis.advice_report import AdviceReport
    from dotnetdiag.analysis.allocations import AllocationReport
    from dotnetdiag.analysis.counters import Counters
    from dotnetdiag.analysis.exceptions import ExceptionReport
    from dotnetdiag.analysis.gc_collections import GcReport
    from dotnetdiag.analysis.jit import JitReport
    from dotnetdiag.analysis.loader import LoaderReport
    from dotnetdiag.analysis.logs import LogReport
    from dotnetdiag.analysis.requests import RequestReport
    from dotnetdiag.analysis.stack_profile import StackProfile
    from dotnetdiag.analysis.startup import StartupReport
    from dotnetdiag.analysis.tasks import TaskReport
    from dotnetdiag.analysis.thread_pool import ThreadPoolReport
    from dotnetdiag.analysis.threads import ThreadReport
    from dotnetdiag.analysis.waits import WaitReport
    from dotnetdiag.query.dataset import Dataset
    from dotnetdiag.recipes.verbs import Runtime
    from dotnetdiag.table import Table
    from dotnetdiag.trace.trace import Trace


def advice(source: PathText | Trace) -> AdviceReport:
    """What stands out in a recording: ``.findings`` is a table, the most important first: ``severity`` (per cent of the time that it costs,
    about), ``question`` (the kind of report that has more of it) and ``text``, a sentence; empty where all is well. ``.lacking``: of what could
    not be looked at, what the recording lacks. ``.seconds``: how long was recorded.

    Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.advice import advice as ask

    with opened(source) as trace:
        return ask(trace)


def cpu(source: PathText | Trace, *, weight: str = "time", marks: str = "none") -> StackProfile:
    """Sampled time of all threads of a recording, in ms, or with ``weight="samples"`` the number of samples.

    Takes the kernel's samples where the recording has some. One without samples gives an empty profile, with a note. ``marks`` are other
    events that count as samples: ``allocations``, or ``events`` (those, and events of EventSources), as dotnet-trace has them.
    Raises UsageError for another weight or other marks; InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.cpu import cpu as ask

    with opened(source) as trace:
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

    with opened(source) as trace:
        return ask(trace, events, weight=weight, unit=unit)


def spans(
    source: PathText | Trace,
    start: str,
    stop: str,
    *,
    by: str | Sequence[str] | None = None,
    where: str | None = None,
) -> Table:
    """What begins with an event ``start`` and ends with an event ``stop``: a row for each start, by its time.

    Columns: ``start_ms``, ``stop_ms``, ``duration_ms`` (the last two None where the recording has no stop), ``pid``, ``tid``, ``stop_tid``, the
    fields of the start, and those of the stop as ``stop_Name``. Stops without a start are counted in ``notes``, whose first line says by what
    the two were brought together.

    ``by`` names the columns that both have and that say which belong together, always within a process: the start that came last and is still
    open is the one that ends. None: the activity ids if every event of both has one; else the first field of whole numbers with the same name
    in both, in which no two starts and no two stops are equal and more than half of the values are in both (``Count`` of ``GC/Start``); else
    the thread. What happened in one tick is in the order of the thread; of several threads, starts come before stops.

    ``where`` is a filter of the starts, as of ``Trace.events`` (the page Filters has the language): ``"Reason == SuspendForGC"``. Which belong
    together is found out of all, and those that pass are told.

    Raises UnknownName for events, columns or fields that are not there, UsageError where an event is both, GrammarError for a filter that does
    not parse.
    """
    from dotnetdiag.analysis.spans import spans as ask

    with opened(source) as trace:
        return ask(trace, start, stop, by=by, where=where)


def allocations(source: PathText | Trace) -> AllocationReport:
    """What a program allocated: ``.by_type`` (``type count bytes percent objects error_bytes``), ``.by_method`` (who asked), ``.by_thread``,
    ``.by_type_and_method``, and ``.large`` (large objects alone) are tables, those with most bytes first; ``.by_second`` (``second bytes``);
    ``.profile`` the stacks, which end in the type, in bytes; ``.totals``; ``.notes`` how the figures came to be, and what the recording lacks.

    ``count`` is how many events that is from. Ticks (keyword gc at level verbose: profile gc-verbose) come once for about 100 KB and stand for
    these; samples (.NET 10, keyword allocationsampling) are drawn by chance, each byte as likely as any other: then ``bytes`` and ``objects`` are
    right on average, and ``error_bytes`` is one standard deviation. Where there are both, samples count.

    Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.allocations import allocations as ask

    with opened(source) as trace:
        return ask(trace)


def exceptions(source: PathText | Trace) -> ExceptionReport:
    """The exceptions that were thrown in a recording, caught or not: ``.by_type`` (``type count messages threads first_ms last_ms caught catch_ms
    max_catch_ms``), ``.by_message`` (``type message count catch_ms``), ``.by_method`` (who threw), ``.by_catch`` (who caught) and ``.by_second``
    (``second count``) are tables, the most frequent first; ``.thrown`` has a row for each; ``.profile`` the stacks, which end in the type;
    ``.totals`` are of all, ``.notes`` what the recording lacks. One that is thrown again counts again: by an await, which stacks tell, and
    up to .NET 8 by ``throw;``.

    Columns of ``thrown``: ``start_ms``, ``pid``, ``tid``, ``type``, ``message``, ``method`` (the first of the program in the stack, else .NET's),
    ``caught_by``, ``catch_ms`` (from the throw to the catch), ``handled_ms`` (in the catch), ``finallys``, ``finally_ms`` and ``filters`` (those that
    ran before the next throw of the thread; None where a block of finally has no end, as one that another exception left), ``again`` (thrown
    again), ``nested`` (while another was handled). None where nobody is known to have caught it; NativeAOT tells of no catches.

    Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.exceptions import exceptions as ask

    with opened(source) as trace:
        return ask(trace)


def gc(source: PathText | Trace) -> GcReport:
    """Every collection of the garbage collector in a recording: ``.collections`` is a table with a row for each, in the order of their begins,
    process by process, ``.totals`` what they come to, ``.notes`` what the recording lacks.

    Columns: ``pid``, ``number``, ``generation``, ``reason`` and ``type`` (as TraceEvent writes them), ``condemned`` (why it was of
    its generation, in words; empty: it was asked for that), ``start_ms``, ``duration_ms`` (to its
    end), ``pause_start_ms``, ``pause_ms`` (how long it stopped the program; of one in the background all its pauses), ``suspend_ms``, and of the
    pause ``mark_ms``, ``plan_ms``, ``relocate_ms``, ``compact_ms``, ``sweep_ms`` (.NET 5 and later), and ``rest_ms``, what is left of it: letting
    the threads go is most of that; of one in the background ``initial_mark_ms`` and ``final_mark_ms`` (within pauses), ``concurrent_mark_ms`` and
    ``concurrent_sweep_ms`` (profile gc-collect); ``before_bytes``, ``after_bytes``, ``promoted_bytes``, ``allocated_bytes``
    (since the one before, or since the recording or the process began), ``committed_bytes`` (at its end, none of one in the background; .NET 6 and
    later); sizes also for ``gen0``, ``gen1``, ``gen2``, ``loh`` and ``poh`` (``gen0_before_bytes``, and ``after``, ``survived``, ``free``,
    ``budget``); ``heaps``, ``pinned_objects``, ``finalized_objects``, ``handles``, ``memory_load_percent``, ``induced_by`` (the method that asked for
    it). What the recording does not tell is None. ``.by_heap`` has a row for each heap of a process, of which the server's collector has several:
    ``pid``, ``heap``, ``collections`` that tell of it, ``before_bytes`` (the mean of its size before them), ``survived_bytes`` in all, and
    ``survived_percent`` of what survived on all heaps of the process. ``.by_stack`` has who asked for induced ones: ``collections``, ``stack``
    (names, leaf first).

    It needs the keyword gc: profiles gc-collect, gc-verbose, dotnet-common. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.gc_collections import gc as ask

    with opened(source) as trace:
        return ask(trace)


def jit(source: PathText | Trace) -> JitReport:
    """The methods that were compiled in a recording: ``.methods`` is a table with a row for each compilation, in the order of their begins,
    ``.by_method`` has those of one method together (``method count compile_ms il_bytes native_bytes pid``; ``il_bytes`` is how large the method is,
    the others are what all of its compilations come to), ``.inlining`` tells why calls were not inlined (``reason always caller callee count``),
    ``.totals`` what all come to, ``.notes`` what the recording lacks.

    Columns: ``method``, ``tier`` (as TraceEvent writes it), ``kind`` (``Foreground``: a thread waited for it;
    ``TieredCompilationBackground``; None: it has no end, which would tell),
    ``start_ms``, ``compile_ms``, ``il_bytes``, ``native_bytes``, ``pid``, ``tid``, ``rejected`` (1: looked for in code that was compiled ahead,
    and not there or not usable), ``dynamic`` (1: made as the program ran, as by Expression.Compile or Reflection.Emit, which nothing compiles ahead);
    None where the end of a compilation, or what else it takes, was not recorded.

    It needs the keyword jit at level verbose, the keyword compilation for ``kind`` (without it the tier tells), compilationdiagnostic for
    ``rejected``, loader for what Reflection.Emit makes, and jittracing for ``.inlining``. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.jit import jit as ask

    with opened(source) as trace:
        return ask(trace)


def contention(source: PathText | Trace) -> WaitReport:
    """Who wanted a lock that another thread had: ``.waits`` is a table with a row for each time, in the order of their begins; ``.by_method``,
    ``.by_lock`` and ``.by_owner`` (who waited for whom) are what these come to (``count total_ms max_ms unfinished``), ``.profile`` their stacks
    weighted by ms, ``.totals`` of all (``count total_ms max_ms unfinished threads``, and quantiles as ``waits_ms``), ``.notes`` what the recording
    lacks.

    Columns: ``start_ms``, ``duration_ms`` (as the runtime measures it; None where the end was not recorded), ``pid``, ``tid``, ``thread`` (its
    name), ``method`` (the first of the program in the stack, else .NET's), ``lock``, ``owner_tid`` and ``owner`` (who had it when the wait
    began; of NativeAOT the runtime's own number), ``object``. What the recording does not tell is None.

    It needs the keyword contention (``--clrevents contention``). Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.waits import contention as ask

    with opened(source) as trace:
        return ask(trace)


def waits(source: PathText | Trace) -> WaitReport:
    """What threads waited for in the runtime (.NET 9 and later): handles, joins, sleepers on monitors, contended locks too. As
    :func:`contention`, with ``source`` in the place of the lock: ``Wait``, ``MonitorWait``, or ``Contention`` for a wait within one, of which the
    object and the owner are told.

    It needs the keyword waithandle at level verbose. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.waits import waits as ask

    with opened(source) as trace:
        return ask(trace)


def requests(source: PathText | Trace) -> RequestReport:
    """What came in and what went out because of it, with what is within what: ``.requests`` is a table with a row for each span, in the order of
    their begins; ``.by_route`` what is alike together (names without numbers and ids: ``GET /items/*``), those that took most time first, with sums
    of what they spent, the ``failure`` of most that failed and the ``exception`` that was thrown in most of them, how many waited for a connection
    (``queued``: for over a ms), and how many are ``unfinished``, the first of them since ``open_since_ms``, in process ``open_pid``; how many are
    ``slow`` (from 40 ms and five times the median on, where more than one in twenty are, without those of its start), what these took
    (``slow_ms``), and what took most of that (``slow_by``, for ``slow_by_ms``); ``.totals`` of all (``count`` are requests, ``parts`` what else has
    a row), ``.notes`` what the recording lacks.

    Columns of ``.requests``: ``start_ms``, ``duration_ms`` (None where the end was not recorded), ``pid``, ``tid``, ``kind`` (``server``,
    ``kestrel``, ``connection``, ``client`` and its parts, ``dns``, ``connect``, ``tls``, ``sql``, ``grpc server``, ``grpc client``), ``name``,
    ``route`` (the name without what varies in it), ``status``, ``failure`` (why), ``queue_ms`` (a client waits for a connection), ``cpu_ms``,
    ``gc_ms``, ``lock_ms``, ``allocated_bytes`` and ``exceptions`` (what it and all within it spent and threw; of a pause of the collector all that
    are under way), ``exception`` (the last that was logged as an error in it, else thrown: type and message), ``parent`` (the number of a row) and
    ``depth``.

    It needs the EventSources of what is asked for, and ``System.Threading.Tasks.TplEventSource:0x80:4`` for the ids of activities; samples, ticks
    and contention for what is spent. Without those ids, or where several have one at once, the ends are known of what was alone of its kind under
    way (``.totals.unknown`` others).
    Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.requests import requests as ask

    with opened(source) as trace:
        return ask(trace)


def tasks(source: PathText | Trace) -> TaskReport:
    """What awaited what: ``.awaits`` is a table with a row for each await, in the order of their begins; ``.by_method`` the methods that awaited
    (``count total_ms own_ms max_ms``; ``own_ms`` is without what the awaited tasks awaited themselves), ``.chains`` the longest, with who awaited
    what in them, ``.profile`` the logical stacks, weighted by ms, whatever threads they ran on, ``.totals`` of all, ``.notes`` what the
    recording lacks.

    Columns of ``.awaits``: ``start_ms``, ``duration_ms`` (None where the end was not recorded), ``pid``, ``tid``, ``task`` and its ``name``,
    ``awaited_by`` (a task; None: a thread), ``kind`` (``Asynchronous``, or ``Synchronous``: it blocks its thread), ``method`` (who awaits),
    ``depth`` (of awaits in each other).

    It needs ``System.Threading.Tasks.TplEventSource:0xB:5``. Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.tasks import tasks as ask

    with opened(source) as trace:
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

    with opened(source) as trace:
        return ask(trace)


def counters(source: PathText | Trace, *, sessions: Collection[str] | None = None) -> Counters:
    """The values of counters of a recording: EventCounters, and what System.Diagnostics.Metrics measures. ``.rows`` is a table, in time order;
    ``.series`` what the rows are of; ``.summary()`` has a row for each series.

    ``sessions`` are ids of sessions of System.Diagnostics.Metrics, should the values of some alone be meant. One without counters gives an
    empty result, with a note. Raises UsageError for a text in the place of a list of sessions; InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.counters import counters as ask

    with opened(source) as trace:
        return ask(trace, sessions=sessions)


def loader(source: PathText | Trace) -> LoaderReport:
    """What was loaded: ``.assemblies`` is a table with a row for each that was loaded (``start_ms pid tid assembly path``), ``.binds`` for each
    look for one, ``.types`` has types by name (``type count total_ms max_ms pid``; each load of one counts, they come in levels), ``.profile`` the
    stacks of binds in ms, ``.totals``, ``.notes`` what the recording lacks.

    Columns of ``binds``: ``start_ms``, ``duration_ms``, ``pid``, ``tid``, ``assembly``, ``requested_by``, ``context``, ``success``, ``cached``,
    ``path``, ``stage`` (the last way that was tried), ``error`` (why that failed), ``method``.

    It needs the keyword loader, assemblyloader for binds (.NET 5 and later), typediagnostic for types. Raises InputError and FormatError for a
    path, as ``open``.
    """
    from dotnetdiag.analysis.loader import loader as ask

    with opened(source) as trace:
        return ask(trace)


def logs(source: PathText | Trace) -> LogReport:
    """What was logged with ``Microsoft.Extensions.Logging``: ``.messages`` is a table with a row for each, ``.by_event`` has those of one logger,
    event and level together (``level logger event_id event count example exception``), those without an event by the text that they are made of
    (``cart {Id} is lost``), ``.totals``, ``.notes`` what the recording lacks.

    Columns of ``messages``: ``ms``, ``pid``, ``tid``, ``level``, ``logger``, ``event_id``, ``event``, ``message``, ``exception_type`` and
    ``exception`` (what it was logged with: all that it says of itself), ``request`` (the name of the request in which it was logged) and
    ``request_row`` (its row in ``dd.requests(source).requests``), None outside of requests.

    It needs the provider Microsoft-Extensions-Logging (``:0x8:5``; ``:0x4:5`` has no exceptions), and for requests what :func:`requests` needs.
    Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.logs import logs as ask

    with opened(source) as trace:
        return ask(trace)


def startup(source: PathText | Trace, first: float | str | None = None, *, process: int | None = None) -> StartupReport:
    """What the ``first`` seconds (or ``"800ms"``; None: 5) of a recording from the start of a program went into: ``.phases`` is a table with a row
    for each phase, ``.longest`` what took longest (``kind name start_ms duration_ms``), ``.profile`` the samples of that time, ``.totals`` with
    ``program``, ``main_ms`` (when its first method was compiled) and ``others`` (processes that are left out), ``.notes`` what the recording lacks.

    Columns of ``phases``: ``phase``, ``start_ms``, ``duration_ms``, ``assemblies``, ``bind_ms``, ``methods``, ``compile_ms``, ``collections``,
    ``pause_ms``, ``exceptions``, ``cpu_ms`` (None without samples; the others too where the process has no event of their kind).

    ``process`` is the id of one, in a recording of several; None: the one that started first.

    Raises UsageError and GrammarError for a time that is none, UnknownName for a process that the recording has nothing of; InputError and
    FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.startup import startup as ask
    from dotnetdiag.durations import time_of

    with opened(source) as trace:
        return ask(trace, time_of(first), process)


def threads(source: PathText | Trace) -> ThreadReport:
    """The threads of a recording: ``.threads`` is a table with a row for each, the one that ran longest first; ``.totals``; ``.notes`` what the
    recording lacks.

    Columns: ``pid``, ``tid``, ``name``, ``kind`` (``gc``, ``finalizer``, ``pool worker``), ``created_ms`` and ``ended_ms``, ``cpu_ms`` (samples in
    managed code), ``waiting_ms`` (samples elsewhere), ``samples``, ``lock_ms``, ``wait_ms``, ``allocated_bytes``, ``exceptions``; None where the
    recording does not tell. An id that the system has given again has a row for each thread that had it: the one that was there before has no
    ``created_ms``.

    Raises InputError and FormatError for a path, as ``open``.
    """
    from dotnetdiag.analysis.threads import threads as ask

    with opened(source) as trace:
        return ask(trace)


def sql(
    sources: PathText | Trace | Iterable[PathText | Trace],
    query: str,
    *,
    external_access: bool = False,
    skip_unreadable: bool = False,
) -> Table:
    """What a query of SQL answers, in DuckDB's words: ``dd.sql("*.nettrace", "select file, count(*) from events group by file")``. ``sources`` are
    paths, URLs of fsspec, patterns of either, traces, or several of them.

    Tables: events by name (``"GC/Start"``, with ``Provider/`` where that is needed), ``events`` (all, without payloads), the reports by the
    names that functions have here (``gc``, ``jit``, ``requests``, ``cpu_samples``, …), ``spans('GC/Start', 'GC/Stop')``, ``stacks('GC/Start')``;
    ``show tables`` has all. Case does not count in names: events that differ in nothing else are one table. Each has a column ``file``;
    ``.notes`` are those of the reports. Only what a query uses is decoded, a window of events at a time; its answer is in memory.

    ``external_access``: it may read and write files, and load what DuckDB can; otherwise it reads recordings alone. ``skip_unreadable``: those
    that cannot be opened are passed over, and ``.notes`` tell of them; InputError where none can be.

    Raises UsageError for what DuckDB refuses, UnknownName for a table that is not there, MissingDependency without the extra ``sql``; InputError
    and FormatError for a path, as ``open``.
    """
    from dotnetdiag.recipes.queries import database

    made = database(sources, external_access=external_access, skip_unreadable=skip_unreadable)
    try:
        return made.sql(query)
    finally:
        made.close()


def dataset(
    sources: PathText | Trace | Iterable[PathText | Trace],
    *,
    storage_options: Mapping[str, Any] | None = None,
    skip_unreadable: bool = False,
) -> Dataset:
    """Recordings as one set of tables: ``dd.dataset("s3://bucket/*.nettrace")``. ``sources`` as for :func:`sql`; ``storage_options`` are those of
    the file system that fsspec makes (keys, endpoints).

    ``dataset.batches("GC/Start", columns=["file", "ms", "Reason"])`` are record batches of Arrow, file by file and window by window;
    ``to_polars``, ``to_dask``, ``to_ray``, ``to_arrow`` and ``sql`` hand the same to engines, and ``tasks`` to any other. A recording that is
    elsewhere is fetched into a temporary file by who reads it; an open trace goes to another process by the path of its file.

    ``skip_unreadable``: recordings that cannot be opened (empty, no traces, gone) are passed over, and ``dataset.skipped`` tells what was wrong with
    each; InputError where none can be. One that is cut or damaged is read as far as it is whole, either way.

    Raises InputError for a pattern that no file has, UsageError without a recording, MissingDependency without the extra ``dataset``.
    """
    from dotnetdiag.query.dataset import Dataset
    from dotnetdiag.recipes.queries import recordings_of

    return Dataset(recordings_of(sources, storage_options), skip_unreadable=skip_unreadable)


def ask(
    runtime: Runtime, kind: str, *, duration: float | str, providers: str | None = None, buffer_mb: int = 256
) -> Any:
    """What a runtime answers in the next ``duration`` (seconds, or ``"30s"``), without a file: ``dd.ask("MyApp", "gc", duration="30s").totals``.
    Returns what the function of that name gives for a recording.

    ``kind``: ``advice``, ``allocations``, ``contention``, ``exceptions``, ``gc``, ``jit``, ``loader``, ``logs``, ``requests``, ``startup``,
    ``tasks``, ``threadpool``, ``threads``, ``waits``. The session has the providers that this needs, or ``providers``. Raises UnknownName for
    another kind, GrammarError for a provider text, and what ``Client.trace`` raises.
    """
    from dotnetdiag.recipes.live_report import start_report
    from dotnetdiag.recipes.target import connected
    from dotnetdiag.recipes.verbs import target_of
    from dotnetdiag.recipes.watching import WatchOptions

    target = target_of(runtime)
    options = WatchOptions(providers=providers, duration=duration, buffer_mb=buffer_mb)
    with (
        connected(target) as client,
        start_report(client, kind, options, over=target.address if target.port else None) as asked,
    ):
        return asked.result()
