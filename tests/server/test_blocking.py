from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dotnetdiag.server import blocking
from dotnetdiag.server.blocking import may_wait, never_wait, own_lock


def test_a_thread_that_never_waits_is_that_thread_alone() -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        assert one.submit(may_wait).result()
        one.submit(never_wait).result()
        assert not one.submit(may_wait).result()
        assert other.submit(may_wait).result()


def test_who_holds_a_lock_of_ours_does_not_wait_and_others_do() -> None:
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        lock = own_lock()
        for count in (1, 2):
            one.submit(lock.acquire).result()
            assert not one.submit(may_wait).result(), count
        assert other.submit(may_wait).result()
        one.submit(lock.release).result()
        assert not one.submit(may_wait).result()
        one.submit(lock.release).result()
        assert one.submit(may_wait).result()


def test_locks_that_are_gone_are_forgotten() -> None:
    gc.collect()
    before = len(blocking._locks)
    locks = [own_lock() for _ in range(10)]
    assert len(blocking._locks) == before + 10
    del locks
    assert len(blocking._locks) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_child_that_a_serving_thread_has_forked_may_wait() -> None:
    ended: list[int] = []

    def fork() -> None:
        never_wait()
        pid = os.fork()
        if not pid:
            os._exit(0 if may_wait() else 1)
        ended.append(os.waitpid(pid, 0)[1])

    thread = threading.Thread(target=fork)
    thread.start()
    thread.join()
    assert ended == [0]
