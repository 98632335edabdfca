"""All questions to a recording at once: the reports by their kinds, from one pass over its events."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.analysis.advice import Answers, advice, advice_of
from dotnetdiag.analysis.allocations import AllocationsFold
from dotnetdiag.analysis.exceptions import ExceptionsFold
from dotnetdiag.analysis.fold import FOLDED_ROWS, Fold, fold, seconds_of
from dotnetdiag.analysis.gc_collections import GcFold
from dotnetdiag.analysis.jit import JitFold
from dotnetdiag.analysis.loader import LoaderFold
from dotnetdiag.analysis.logs import LogsFold
from dotnetdiag.analysis.native import facts_of, native_of
from dotnetdiag.analysis.requests import RequestsFold
from dotnetdiag.analysis.sample_sums import SampledFold
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.startup import StartupFold
from dotnetdiag.analysis.tasks import TasksFold
from dotnetdiag.analysis.thread_pool import ThreadPoolFold
from dotnetdiag.analysis.threads import ThreadsFold
from dotnetdiag.analysis.waits import ContentionFold, WaitsFold
from dotnetdiag.trace.lost_between import lost_by
from dotnetdiag.trace.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Everything:
    """``reports`` by the names of their kinds, advice first; ``topN`` is the profile ``cpu``."""

    reports: Mapping[str, Any]
    cpu: StackProfile


def everything(trace: Trace) -> Everything:
    """What all questions are answered with."""
    seconds = seconds_of(trace)
    folds: Mapping[str, Fold[Any]] = {
        "gc": GcFold(seconds=seconds),
        "allocations": AllocationsFold(seconds=seconds),
        "exceptions": ExceptionsFold(seconds=seconds),
        "requests": RequestsFold(runtime=facts_of(trace)),
        "contention": ContentionFold(seconds=seconds, runtime=facts_of(trace)),
        "waits": WaitsFold(runtime=facts_of(trace)),
        "threadpool": ThreadPoolFold(seconds=seconds),
        "tasks": TasksFold(),
        "jit": JitFold(is_native=native_of(trace)),
        "loader": LoaderFold(),
        "threads": ThreadsFold(runtime=facts_of(trace)),
        "logs": LogsFold(),
        "startup": StartupFold(seconds=seconds, runtime=facts_of(trace)),
        "topN": SampledFold(),
    }
    made = dict(zip(folds, fold(trace, *folds.values(), rows=FOLDED_ROWS // 2), strict=True))
    asked = ("gc", "allocations", "exceptions", "contention", "waits", "threadpool", "requests", "jit", "logs")
    answers = Answers(
        **{name: made[name] for name in asked},
        cpu=made["topN"],
        losses=trace.raw.losses,
        lost_by=partial(lost_by, trace.raw),
        recorded=seconds(),
        runtime=facts_of(trace)(),
    )
    cpu = made["topN"].profile
    told = advice(trace) if trace.raw.meaning.is_of_several else advice_of(answers)  # which asks each process
    return Everything(reports={"advice": told, **made, "topN": cpu}, cpu=cpu)
