"""Sums of samples are what all samples at once come to, wherever they are settled."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest
from tests.analysis.traces import Seen, external, managed, off_cpu, on_cpu, traced

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.profile import Profile, State
from dotnetdiag.analysis.running import without_idle
from dotnetdiag.analysis.sample_sums import TOGETHER, Sampled, SampledFold, SampleSums
from dotnetdiag.trace.trace import Trace

PROCESSES = {3: 79, 4: 79, 5: 79}
MANAGED = managed(0, 1).payload[:1]


def made_up(number: int, *, kernel: bool = False) -> Trace:
    """A recording of that."""
    return traced(*seen(number, kernel=kernel), version=6, processes=PROCESSES)


def seen(number: int, *, kernel: bool = False) -> list[Seen]:
    """Threads of two processes that come and go, by a sampler that skips some, stands still, and sees two at one time."""
    chance = random.Random(number)
    events: list[Seen] = []
    ms = 0.0
    for _ in range(300):
        ms += chance.choice([1.0, 1.0, 1.0, 7.0, 40.0])
        for thread in range(1, 7):
            if chance.random() < (0.9, 0.5, 0.02)[thread % 3]:
                what = chance.choice([managed, external])
                at = ms + 0.01 * chance.randrange(3)
                events.append(what(at, thread, f"P.F{chance.randrange(3)}", f"P.M{thread % 2}"))
            if kernel and thread in (1, 2) and chance.random() < 0.3:
                at = ms + 0.5
                more = on_cpu(at, thread, "P.K", value=chance.randrange(1, 3))
                events.append(more if chance.random() < 0.7 else off_cpu(at, thread, "P.K", length_ms=chance.random()))
    return sorted(events, key=lambda one: one.ms)


def ran_ms(number: int) -> float:
    """How long threads ran: each until it was sampled again, or until another of its process was twice since."""
    by_process: dict[int, list[Seen]] = defaultdict(list)
    for one in seen(number):
        by_process[PROCESSES.get(one.thread, 0)].append(one)
    total = 0.0
    for events in by_process.values():
        for place, one in enumerate(events):
            later = [other for other in events[place + 1 :] if other.ms > one.ms or other.thread == one.thread]
            own = next((other.ms for other in later if other.thread == one.thread), None)
            if own is None or one.payload[:1] != MANAGED:
                continue
            met: set[int] = set()
            for other in later:
                if other.ms == one.ms:
                    continue
                if other.thread in met:
                    own = min(own, other.ms)
                    break
                met.add(other.thread)
            total += own - one.ms
    return total


def sums(profile: Profile) -> dict[tuple[object, ...], float]:
    """The weight by thread, stack and state."""
    made: dict[tuple[object, ...], float] = defaultdict(float)
    rows = zip(
        profile.thread.tolist(), profile.node.tolist(), profile.state.tolist(), profile.weight.tolist(), strict=True
    )
    for thread, node, state, weight in rows:
        path, at = [], node
        while at > 0:
            path.append(profile.frames.name(int(profile.tree.frame[at])))
            at = int(profile.tree.parent[at])
        made[(*profile.threads[thread].key, profile.threads[thread].name, *path, state)] += weight
    return dict(made)


@pytest.mark.parametrize("kernel", [False, True])
@pytest.mark.parametrize("number", range(6))
def test_sums_are_those_of_all_samples(number: int, kernel: bool) -> None:
    whole = cpu(made_up(number, kernel=kernel))
    most = random.Random(number).choice([1, 7, 50, 400])
    (found,) = fold(
        made_up(number, kernel=kernel), SampledFold(most=most), rows=random.Random(number).choice([16, 64, 300])
    )
    assert isinstance(found, Sampled)
    assert sums(found.profile) == pytest.approx(sums(whole))
    assert found.profile.samples == len(whole) == int(found.count.sum())
    assert len(found.profile) < len(whole)
    assert found.ran.weight[found.ran.state != State.CPU].sum() == pytest.approx(
        whole.weight[whole.state != State.CPU].sum()
    )
    assert found.profile.notes == (*whole.notes, TOGETHER)
    first, last = whole.start_ns.min(), whole.start_ns.max()
    assert (found.profile.start_ns.min(), found.last_ns.max()) == (first, last)


@pytest.mark.parametrize("most", [1, 7, 50, 100_000])
@pytest.mark.parametrize("number", range(4))
def test_what_ran_is_what_one_after_the_other_tells(number: int, most: int) -> None:
    asked = SampleSums(most=most)
    trace = made_up(number)
    for window in trace.windows(asked.wants, size=32):
        asked.feed(window)
    rows = asked.rows()
    assert float(rows["ran"].sum()) == pytest.approx(ran_ms(number), abs=0.01)
    assert float(rows["waited"].sum()) == pytest.approx(float(rows["weight"].sum()) - ran_ms(number), abs=0.01)


def test_few_samples_have_a_row_each() -> None:
    whole = cpu(made_up(1))
    (found,) = fold(made_up(1), SampledFold())
    assert found.profile.samples is None
    assert found.profile.weight.tolist() == whole.weight.tolist()
    assert found.ran.weight.tolist() == without_idle(whole).weight.tolist()
    assert found.count.tolist() == [1] * len(whole)
