"""Ends find their begins the same, however little is looked at together, and wherever what is open lies."""

from __future__ import annotations

from random import Random

import pytest
from tests.analysis.test_thread_pool import begun, queued
from tests.analysis.test_waits import begins, ends
from tests.analysis.traces import Seen, traced

from dotnetdiag.analysis import followed
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.thread_pool import ThreadPoolFold
from dotnetdiag.analysis.waits import WaitsFold


def waited(random: Random) -> list[Seen]:
    """Threads that wait, now and then within another wait, or for ever."""
    made = list[Seen]()
    for at in range(300):
        thread = random.randrange(1, 40)
        made.append(begins(at // 2, thread, "App.M") if random.random() < 0.6 else ends(at // 2, thread))
    return made


def worked(random: Random) -> list[Seen]:
    """Work whose ids are addresses, some of which come again."""
    made = list[Seen]()
    for at in range(300):
        work = 64 * random.randrange(1, 60)
        one = queued(at // 2, 1, work, "App.Ask") if random.random() < 0.6 else begun(at // 2, 2, work)
        made.append(one)
    return made


@pytest.mark.parametrize("seed", range(6))
def test_ends_are_found_in_parts_as_at_once(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (
        (WaitsFold, "waits", traced(*waited(Random(seed)))),
        (ThreadPoolFold, "work", traced(*worked(Random(seed)))),
    )
    expected = [getattr(fold(trace, kind())[0], name).to_pylist() for kind, name, trace in asked]
    assert all(any(row["duration_ms" if "duration_ms" in row else "queue_ms"] for row in rows) for rows in expected)
    for name, value in {"FOLLOWED_EVENTS": 5, "_OPEN_TOGETHER": 4, "_HELD": 8, "_ENDS_TOGETHER": 2}.items():
        monkeypatch.setattr(followed, name, value)
    for rows in (1, 7, 1 << 16):
        made = [getattr(fold(trace, kind(), rows=rows)[0], name).to_pylist() for kind, name, trace in asked]
        assert made == expected
