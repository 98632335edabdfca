"""Every recording, whole and cut, gives a profile that holds together."""

from __future__ import annotations

import pytest
from tests.analysis.test_filters import check
from tests.nettrace.recordings import data_of, recordings
from tests.nettrace.traces import SMALL

from dotnetdiag.analysis import filters
from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.errors import FormatError
from dotnetdiag.trace.trace import Trace


def made(trace: Trace) -> list[StackProfile]:
    return [cpu(trace), cpu(trace, weight="samples", marks="events"), stacks(trace)]


@pytest.mark.parametrize("name", recordings())
def test_recordings_give_profiles(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    timed, counted, everything = made(trace)
    for profile in (timed, counted, everything):
        check(profile)
        check(filters.with_states(filters.with_threads(filters.group_by(profile, "namespace"))))
    assert everything.total == len(trace)
    assert timed.origin.lost == (trace.lost.total if trace.lost.known else None)
    assert bool(timed.notes) == (len(timed) == 0)


@pytest.mark.parametrize("name", recordings())
def test_cut_recordings_give_profiles(name: str) -> None:
    data = data_of(name)
    for part in (0.31, 0.62, 0.93):
        for profile in made(Trace(data[: int(part * len(data))], name=name)):
            check(profile)
            assert not profile.origin.complete


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_small_traces_of_every_format_give_profiles(kind: str) -> None:
    for profile in made(Trace(SMALL[kind])):
        check(profile)


@pytest.mark.parametrize("kind", sorted(SMALL))
def test_turned_bytes_give_profiles_or_a_format_error(kind: str) -> None:
    data = SMALL[kind]
    for place in range(0, len(data), 7):
        turned = bytearray(data)
        turned[place] ^= 0xFF
        try:
            trace = Trace(bytes(turned))
        except FormatError:
            continue
        for profile in made(trace):
            check(profile)
