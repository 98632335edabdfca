"""A question to a process that runs, instead of to a file: a session with the providers that the question needs, whose windows its fold is fed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dotnetdiag.errors import UnknownName, near
from dotnetdiag.live import LiveEvents
from dotnetdiag.live.symbols import LiveSymbols
from dotnetdiag.providers.keywords import CLR_PROVIDER
from dotnetdiag.recipes.live_names import read_names
from dotnetdiag.recipes.suspension import Hold, is_held
from dotnetdiag.recipes.watching import WatchOptions, start_watching

if TYPE_CHECKING:
    from dotnetdiag.client import Client

SAMPLER = "Microsoft-DotNETCore-SampleProfiler:0:4"
NAMES = f"{CLR_PROVIDER}:0x38:5"
"""Methods as they are compiled; what was compiled before is named by a short session of its own."""
_TPL = "System.Threading.Tasks.TplEventSource"
_WEB = (
    "Microsoft.AspNetCore.Hosting:0xffffffffffffffff:5,System.Net.Http:0xffffffffffffffff:5,System.Net.NameResolution:0xffffffffffffffff:5,"
    f"System.Net.Sockets:0xffffffffffffffff:5,System.Net.Security:0xffffffffffffffff:5,{_TPL}:0x80:4"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveKind:
    """A question: its fold, by module and name, the providers that it needs, as texts, and whether it wants to know how long was recorded."""

    module: str
    fold: str
    providers: str
    is_timed: bool = False

    def asked(self, seconds: Callable[[], float]) -> Any:
        """The fold."""
        made = getattr(import_module(f"dotnetdiag.analysis.{self.module}"), self.fold)
        return made(seconds=seconds) if self.is_timed else made()


def _kind(module: str, fold: str, *providers: str, is_timed: bool = False) -> LiveKind:
    return LiveKind(module=module, fold=fold, providers=",".join((*providers, NAMES)), is_timed=is_timed)


KINDS: Mapping[str, LiveKind] = {
    "allocations": _kind("allocations", "AllocationsFold", f"{CLR_PROVIDER}:0x1:5", is_timed=True),
    "contention": _kind("waits", "ContentionFold", f"{CLR_PROVIDER}:0x4000:4"),
    "exceptions": _kind("exceptions", "ExceptionsFold", f"{CLR_PROVIDER}:0x8000:4", is_timed=True),
    "gc": _kind("gc_collections", "GcFold", f"{CLR_PROVIDER}:0x1:4", is_timed=True),
    "jit": _kind("jit", "JitFold", f"{CLR_PROVIDER}:0x1000000010:5"),
    "loader": _kind("loader", "LoaderFold", f"{CLR_PROVIDER}:0x1c:4"),
    "logs": _kind("logs", "LogsFold", "Microsoft-Extensions-Logging:0x4:5", _WEB),
    "requests": _kind("requests", "RequestsFold", _WEB, f"{CLR_PROVIDER}:0xc001:5", SAMPLER),
    "tasks": _kind("tasks", "TasksFold", f"{_TPL}:0xb:4"),
    "threadpool": _kind(
        "thread_pool",
        "ThreadPoolFold",
        f"{CLR_PROVIDER}:0x10000:4",
        "System.Diagnostics.Eventing.FrameworkEventSource:0x2:5",
    ),
    "threads": _kind("threads", "ThreadsFold", f"{CLR_PROVIDER}:0x4001c001:5", SAMPLER),
    "waits": _kind("waits", "WaitsFold", f"{CLR_PROVIDER}:0x40000004000:5"),
}
"""By the name of the report."""


class LiveReport:
    """A session that runs, and its question. Leaving the ``with`` block closes the session."""

    def __init__(self, live: LiveEvents, kind: LiveKind, name_methods: Callable[[], object]) -> None:
        """``name_methods`` takes the names of what was compiled until now."""
        self.live, self._name_methods = live, name_methods
        self._begun, self._ended = time.monotonic(), math.inf
        self._fold = kind.asked(lambda: self._ended - self._begun)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.close()

    def result(self) -> Any:
        """What came until the session ended, which is waited for: an object as the functions of :mod:`questions` give. Raises UsageError where
        nothing came at all.
        """
        for window in self.live.windows():
            self._fold.feed(window)
        self._ended = time.monotonic()
        self._name_methods()  # methods that were compiled ahead are not announced when they are called for the first time
        return self._fold.result()


def live_kind(name: str) -> LiveKind:
    """A question by the name of its report. Raises UnknownName."""
    if name not in KINDS:
        raise UnknownName("report of a session", name, near(name, KINDS))
    return KINDS[name]


def start_report(
    client: Client,
    kind: str,
    options: WatchOptions,
    *,
    over: str | None = None,
    suspended: Callable[[tuple[Hold, ...]], None] = lambda _: None,
) -> LiveReport:
    """A question whose session runs when this returns; without providers in ``options`` those that it needs. ``over`` and ``suspended`` as of
    :func:`watching.start_watching`. Raises UnknownName for a question that there is not, and what that raises.
    """
    asked = live_kind(kind)
    if not (options.providers or options.presets or options.clr_events):
        options = replace(options, providers=asked.providers)
    was_held = is_held(client)
    symbols = LiveSymbols()
    live = start_watching(client, options, over=over, suspended=suspended, symbols=symbols)
    try:
        if not was_held:  # otherwise nothing was compiled yet
            read_names(client, symbols)
    except BaseException:
        live.close()
        raise
    return LiveReport(live, asked, lambda: read_names(client, symbols))
