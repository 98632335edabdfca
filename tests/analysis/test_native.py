"""Recordings of NativeAOT, as they say who they are of."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.analysis.traces import managed, traced

from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.jit import NO_EVENTS, JitFold, jit
from dotnetdiag.analysis.native import NO_COMPILER, NO_LOADER, is_of_native
from dotnetdiag.analysis.startup import NO_START, StartupFold, startup
from dotnetdiag.trace.trace import Trace


@pytest.mark.parametrize(
    ("os", "runtime", "processors", "is_native"),
    [
        ("Linux", None, None, True),
        ("Linux", "10.0.0", None, False),
        ("Linux", None, 4, False),
        (None, None, None, False),
    ],
)
def test_it_tells_its_system_but_not_its_runtime(os: Any, runtime: Any, processors: Any, is_native: bool) -> None:
    one = SimpleNamespace(os=os, runtime=runtime, processors=processors)
    assert is_of_native(cast("Trace", SimpleNamespace(processes=[one]))) == is_native
    assert not is_of_native(cast("Trace", SimpleNamespace(processes=[])))


def test_it_compiles_nothing_whatever_is_recorded() -> None:
    trace = traced(managed(0, 1))
    assert jit(trace).notes == (NO_EVENTS,)
    (made,) = fold(trace, JitFold(is_native=lambda: True))
    assert made.notes == made.methods.notes == (NO_COMPILER,)


def test_it_tells_nothing_of_its_start_wherever_a_recording_begins() -> None:
    trace = traced(managed(0, 1))
    assert startup(trace).notes == (NO_START,)
    (made,) = fold(trace, StartupFold(is_native=lambda: True))
    assert made.notes == made.phases.notes == (NO_LOADER,)
