"""A question to a process that runs, instead of to a file: a session with the providers that the question needs, whose windows its fold is fed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.analysis import nameless
from dotnetdiag.analysis.native import RuntimeFacts
from dotnetdiag.errors import UnknownName, near
from dotnetdiag.live import LiveEvents
from dotnetdiag.live.symbols import LiveSymbols
from dotnetdiag.providers.composition import with_needed
from dotnetdiag.providers.questions import ADVISED, QUESTIONS, SAMPLER, SOCKETS, without_sockets
from dotnetdiag.recipes.live_names import RUNDOWN_FALLBACK, RUNDOWN_KEYWORD, read_names
from dotnetdiag.recipes.runtime_facts import runtime_facts
from dotnetdiag.recipes.slow_start import Late, say_nothing
from dotnetdiag.recipes.suspension import Hold, is_held
from dotnetdiag.recipes.watching import WatchOptions, start_watching

if TYPE_CHECKING:
    from dotnetdiag.client import Client
    from dotnetdiag.events import EventSchema
    from dotnetdiag.trace.table import EventTable

_SHARES_IDS = 10
"""From this version on the runtime gives many requests one activity id where sockets are recorded too."""
_USUAL = RuntimeFacts()
_NO_START = "no start was told of: the program ran already (give the COMMAND that starts it), or it is of NativeAOT, which tells of none"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveKind:
    """A question: its fold, by module and name, the providers that it needs, as texts, and whether it wants to know how long was recorded, and of
    what runtime.
    ``instead``: what is said in the place of a note of the module, by the name of that, which tells what to record: it is asked for here.
    ``parts``: the questions that it is made of, whose notes it has too.
    """

    module: str
    fold: str
    providers: str
    is_timed: bool = False
    asks_runtime: bool = False
    instead: Mapping[str, str]
    parts: tuple[LiveKind, ...] = ()

    def needed(self, runtime: RuntimeFacts) -> str:
        """The providers of a session of such a runtime."""
        if runtime.major < _SHARES_IDS:
            return self.providers
        return without_sockets(self.providers)

    def asked(self, seconds: Callable[[], float], runtime: RuntimeFacts = _USUAL) -> Any:
        """The fold."""
        made = getattr(import_module(f"dotnetdiag.analysis.{self.module}"), self.fold)
        told: dict[str, Any] = {"seconds": seconds} if self.is_timed else {}
        return made(**told, runtime=lambda: runtime) if self.asks_runtime else made(**told)

    def noted(self, made: Any) -> Any:
        """An answer, of a session with all of ``providers``, with what is to be said in the place of its notes."""
        texts = {
            getattr(import_module(f"dotnetdiag.analysis.{one.module}"), name): text
            for one in (self, *self.parts)
            for name, text in one.instead.items()
        }
        for one in (self, *self.parts):
            texts |= getattr(import_module(f"dotnetdiag.analysis.{one.module}"), "said_of_all", dict)()
        return made.saying(texts)


def _kind(
    name: str, module: str, fold: str, *, is_timed: bool = False, asks_runtime: bool = False, **instead: str
) -> LiveKind:
    return LiveKind(
        module=module,
        fold=fold,
        providers=QUESTIONS.get(name, SAMPLER),
        is_timed=is_timed,
        asks_runtime=asks_runtime,
        instead=instead,
    )


_BEFORE = "the stacks of its threads tell who has waited since before"
_ALONE: Mapping[str, LiveKind] = {
    "allocations": _kind(
        "allocations",
        "allocations",
        "AllocationsFold",
        is_timed=True,
        NO_EVENTS="no allocations: no thread came to a tick, of which there is one for some 100 KB",
    ),
    "contention": _kind(
        "contention",
        "waits",
        "ContentionFold",
        is_timed=True,
        asks_runtime=True,
        NO_CONTENTION=f"no contention: no wait for a lock began; {_BEFORE}",
    ),
    "exceptions": _kind(
        "exceptions",
        "exceptions",
        "ExceptionsFold",
        is_timed=True,
        NO_EVENTS="no exceptions: none was thrown",
    ),
    "gc": _kind(
        "gc",
        "gc_collections",
        "GcFold",
        is_timed=True,
        NO_EVENTS="no collections: none took place",
        UNTOLD_ALLOCATED="how much was allocated before some collections is not told, and in all it is more than what the others come to",
    ),
    "jit": _kind("jit", "jit", "JitFold", NO_EVENTS="no methods: none was compiled"),
    "loader": _kind(
        "loader",
        "loader",
        "LoaderFold",
        NO_EVENTS="no assemblies: none was loaded; most are at the start",
        NO_BINDS="how long binds took and which failed is not told: there were none, or the runtime does not (.NET 5 and later do)",
    ),
    "logs": _kind(
        "logs",
        "logs",
        "LogsFold",
        NO_EVENTS="no messages: nothing was logged",
        NO_REQUESTS="no message is of a request: there were none",
    ),
    "requests": _kind(
        "requests",
        "requests",
        "RequestsFold",
        asks_runtime=True,
        NO_EVENTS="no requests: there were none",
        NO_ACTIVITIES="no activity ids: what is within what is not known, nor what a request spent",
    ),
    "startup": _kind(
        "startup",
        "startup",
        "StartupFold",
        asks_runtime=True,
        is_timed=True,
        NO_START=_NO_START,
        TOO_LATE=_NO_START,
        NO_LOADS="it began, and told of no assembly that it loaded",
    ),
    "tasks": _kind("tasks", "tasks", "TasksFold", NO_EVENTS="no tasks: none was awaited"),
    "threadpool": _kind(
        "threadpool",
        "thread_pool",
        "ThreadPoolFold",
        is_timed=True,
        NO_EVENTS="no thread pool: no work of it began",
        NO_QUEUE="how long work waited is not told: none was queued",
    ),
    "threads": _kind(
        "threads",
        "threads",
        "ThreadsFold",
        asks_runtime=True,
        NO_EVENTS="no threads: none was seen to do anything",
        NO_SAMPLES="how long threads ran is not told: the runtime took no samples",
    ),
    "waits": _kind(
        "waits",
        "waits",
        "WaitsFold",
        NO_WAITS=f"no waits: none began or ended, or the runtime does not tell (.NET 9 and later do); {_BEFORE}",
    ),
}
"""Those that have providers of their own."""
_ADVISED = (
    *(_ALONE[name] for name in ADVISED),
    _kind("cpu", "cpu", "CpuFold", NO_SAMPLES="no samples: the runtime takes none"),
)
KINDS: Mapping[str, LiveKind] = {
    "advice": LiveKind(
        module="advice",
        fold="AdviceFold",
        providers=QUESTIONS["advice"],
        is_timed=True,
        asks_runtime=True,
        instead={},
        parts=_ADVISED,
    ),
    **_ALONE,
}
"""By the name of the report."""


class LiveReport:
    """A session that runs, and its question. Leaving the ``with`` block closes the session."""

    def __init__(
        self,
        live: LiveEvents,
        kind: LiveKind,
        name_methods: Callable[[], str | None],
        *,
        has_all: bool = True,
        runtime: RuntimeFacts = _USUAL,
        begun: float | None = None,
        unnamed: str | None = None,
    ) -> None:
        """``name_methods`` takes the names of what was compiled until now, and tells what kept it from that; ``unnamed`` is what did when it was
        called before: it is not called again then. ``has_all``: the session has the providers of the question. ``begun``:
        when it began, by the clock of ``time.monotonic``; None: now.
        """
        self.live, self._name_methods, self._unnamed = live, name_methods, unnamed
        self._kind, self._has_all = kind, has_all
        self._begun, self._ended = time.monotonic() if begun is None else begun, math.inf
        self._latest_s = 0.0
        self._fold = kind.asked(self._recorded_s, runtime)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.close()

    def _recorded_s(self) -> float:
        """How long was recorded. A runtime that is slow to stop goes on: what it tells of is part of the time."""
        asked_s = self._ended - self._begun
        return max(asked_s, self._latest_s) if asked_s > 0 else 0.0

    def result(self) -> Any:
        """What came until the session ended, which is waited for: an object as the functions of :mod:`questions` give."""
        is_empty = True
        for window in self.live.windows():
            is_empty = False
            self._fold.feed(window)
            self._latest_s = max(self._latest_s, _latest_s(window, self._fold.wants))
        if is_empty:
            self._fold.feed(self.live.nothing())
        # what comes once the end was asked for takes as long as it takes, and nothing is recorded meanwhile
        ends = time.monotonic() - self.live.over_for_s
        self._ended = ends if self.live.rundown_since is None else min(ends, self.live.rundown_since)
        # methods that were compiled ahead are not announced when they are called for the first time
        if self.live.has_named:
            self._unnamed = None
        elif self._unnamed is None:
            self._unnamed = self._name_methods()
        made = self._fold.result()
        made = made.saying(nameless.of_process_asked(made.notes))
        return self._kind.noted(made) if self._has_all else made

    @property
    def notes(self) -> tuple[str, ...]:
        """What is to be said beside the answer, one line each."""
        unnamed = () if self._unnamed is None else (f"names of methods are missing: {self._unnamed}",)
        return (*self.live.notes, *unnamed)


def _latest_s(window: EventTable, wants: Callable[[EventSchema], bool]) -> float:
    """When the last event was of the types that are wanted: others of a session tell names behind its end."""
    rows = window.rows_of_types([number for number, schema in window.schemas.items() if wants(schema)])
    return float(window.slice(int(rows[-1]), int(rows[-1]) + 1).numpy("ms")[0]) / 1000 if len(rows) else 0.0


def live_kind(name: str) -> LiveKind:
    """A question by the name of its report. Raises UnknownName."""
    if name not in KINDS:
        raise UnknownName(
            "question", name, near(name, KINDS), where=f"to a process that runs; there are {', '.join(KINDS)}"
        )
    return KINDS[name]


def start_report(
    client: Client,
    kind: str,
    options: WatchOptions,
    *,
    over: str | None = None,
    suspended: Callable[[tuple[Hold, ...]], None] = lambda _: None,
    late: Late = say_nothing,
) -> LiveReport:
    """A question whose session runs when this returns, with the providers that it needs, and those of ``options`` too. ``over``,
    ``suspended`` and ``late`` as of :func:`watching.start_watching`. Raises UnknownName for a question that there is not, and what that raises.
    """
    asked = live_kind(kind)
    runtime = runtime_facts(client) if asked.asks_runtime or SOCKETS in asked.providers else _USUAL
    needed = asked.needed(runtime)
    if not (options.providers or options.presets or options.clr_events):
        options = replace(options, providers=needed)
    was_held = is_held(client)
    symbols = LiveSymbols()
    # a process that ends by itself tells names in its own session alone
    chosen = replace(
        with_needed(options.composed(), needed),
        rundown_keyword=RUNDOWN_KEYWORD,
        rundown_fallback=RUNDOWN_FALLBACK,
    )
    live = start_watching(
        client, options, over=over, suspended=suspended, late=late, chosen=chosen, symbols=symbols, settled=True
    )
    begun = time.monotonic()
    try:
        unnamed = None if was_held else read_names(client, symbols)  # of one that was held nothing was compiled yet
    except BaseException:
        live.close()
        raise
    return LiveReport(
        live,
        asked,
        lambda: read_names(client, symbols),
        has_all=not options.event_filters,
        runtime=runtime,
        begun=begun,
        unnamed=unnamed,
    )
