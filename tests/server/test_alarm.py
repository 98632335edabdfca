from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.server.recorded import LIMIT_S

from dotnetdiag.server import kernels
from dotnetdiag.server.alarm import Alarm
from dotnetdiag.server.sampling import _thread_clock

FORMS = [Alarm, *([] if kernels.KERNELS is None else [kernels.KERNELS.Alarm])]
FORM_IDS = ["python", "compiled"][: len(FORMS)]
forms = pytest.mark.parametrize("form", FORMS, ids=FORM_IDS)
compiled = pytest.mark.skipif(kernels.KERNELS is None, reason="the kernels are not compiled")
linux = pytest.mark.skipif(sys.platform != "linux", reason="the kernel's way to name the clock of a thread")


@forms
def test_it_goes_off_when_its_time_has_come(form: type[Alarm]) -> None:
    alarm = form()
    begin = time.monotonic_ns()
    assert not alarm.wait(20_000_000)
    assert time.monotonic_ns() - begin >= 19_000_000
    assert not alarm.wait(0)


@forms
def test_who_is_rung_goes_on_at_once(form: type[Alarm]) -> None:
    alarm = form()
    ended: list[bool] = []
    thread = threading.Thread(target=lambda: ended.append(alarm.wait(int(LIMIT_S * 1e9))))
    thread.start()
    alarm.ring()
    thread.join(LIMIT_S / 2)
    assert ended == [True]


@forms
def test_it_may_be_rung_before_and_again(form: type[Alarm]) -> None:
    alarm = form()
    alarm.ring()
    alarm.ring()
    assert alarm.wait()
    assert not alarm.wait(0)


@forms
def test_frames_and_ids_are_those_of_all_other_threads(form: type[Alarm]) -> None:
    alarm, goes_on = form(), threading.Event()
    threads = [threading.Thread(target=goes_on.wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        frames, ids = alarm.frames(), alarm.native_ids()
        assert {thread.ident for thread in threads} <= frames.keys()
        assert threading.get_ident() not in frames, "it would have the frames for a local"
        frame = frames[threads[0].ident or 0]
        while frame.f_code.co_name != "run":
            assert frame.f_back is not None
            frame = frame.f_back
        for thread in threads:
            assert ids[thread.ident or 0] == thread.native_id
    finally:
        goes_on.set()
        for thread in threads:
            thread.join()


@contextmanager
def computing() -> Iterator[threading.Thread]:
    """A thread that always has the interpreter's lock, and would keep it for minutes."""
    until, usual_s = time.monotonic() + LIMIT_S, sys.getswitchinterval()
    goes_on = True

    def compute() -> None:
        while goes_on and time.monotonic() < until:
            pass

    thread = threading.Thread(target=compute)
    thread.start()
    sys.setswitchinterval(10 * LIMIT_S)
    try:
        yield thread
        assert thread.is_alive(), "it was waited for"
        assert sys.getswitchinterval() == 10 * LIMIT_S, "what the program has set is changed"
    finally:
        goes_on = False
        sys.setswitchinterval(usual_s)
        thread.join()


@compiled
@linux
def test_a_thread_that_computes_gives_up_the_lock_where_it_is() -> None:
    assert kernels.KERNELS is not None
    alarm = kernels.KERNELS.Alarm()
    with computing() as thread:
        alarm.watch([_thread_clock(thread.native_id or 0)])
        ran: list[bool] = []
        for _ in range(10):
            assert not alarm.wait(1_000_000)
            frame = sys._current_frames()[thread.ident or 0]
            assert frame.f_code.co_name == "compute"
            ran += [alarm.holder_then() == thread.ident]
        # on a busy machine it may just have been put off a processor by others, and the lock be on its way
        assert sum(ran) > len(ran) // 2, f"it was not seen to hold the lock: {ran}"


@compiled
def test_the_main_thread_gives_up_the_lock_where_it_is() -> None:
    """The only one that is asked by what is public."""
    assert kernels.KERNELS is not None
    alarm, went_off, usual_s = kernels.KERNELS.Alarm(), [], sys.getswitchinterval()
    thread = threading.Thread(target=lambda: went_off.append(alarm.wait(1_000_000)))
    until = time.monotonic() + LIMIT_S
    thread.start()
    sys.setswitchinterval(10 * LIMIT_S)
    try:
        while not went_off and time.monotonic() < until:
            pass
    finally:
        sys.setswitchinterval(usual_s)
        thread.join()
    assert went_off == [False]
    assert time.monotonic() < until


@linux
@forms
def test_the_clocks_of_a_thread_that_waits_stand_still(form: type[Alarm]) -> None:
    alarm, goes_on = form(), threading.Event()
    thread = threading.Thread(target=goes_on.wait)
    thread.start()
    try:
        assert alarm.moved_then() == alarm.used_now() == []
        alarm.watch([_thread_clock(thread.native_id or 0)])
        assert alarm.moved_then() == []
        until, before, now = time.monotonic() + LIMIT_S, [-1], [0]
        while before != now:  # it has yet to begin to wait
            assert time.monotonic() < until
            before = alarm.used_now()
            assert not alarm.wait(1_000_000)
            now = alarm.used_now()
        assert alarm.moved_then() == ([] if form is Alarm else [False])
    finally:
        goes_on.set()
        thread.join()


@linux
@forms
def test_a_thread_that_has_ended_has_no_clock(form: type[Alarm]) -> None:
    alarm, thread = form(), threading.Thread(target=int)
    thread.start()
    thread.join()
    alarm.watch([_thread_clock(threading.get_native_id()), _thread_clock(thread.native_id or 0)])
    until = time.monotonic() + LIMIT_S
    while alarm.used_now()[1] != -1:  # the kernel takes a moment to forget it
        assert time.monotonic() < until
    assert alarm.used_now()[0] > 0


@compiled
@linux
def test_of_too_many_clocks_the_first_are_watched() -> None:
    assert kernels.KERNELS is not None
    alarm = kernels.KERNELS.Alarm()
    alarm.watch([_thread_clock(threading.get_native_id())] * 5000)
    assert not alarm.wait(0)
    assert len(alarm.moved_then()) == len(alarm.used_now()) == 4096
    alarm.watch([])
    assert alarm.used_now() == []


@compiled
def test_a_program_ends_while_alarms_go_off() -> None:
    """Whoever gave up the lock at the end, for a thread that exits instead of taking it, would wait for ever."""
    program = """if True:
        import threading, time
        from dotnetdiag.server.alarm import new_alarm

        class Late:
            def __del__(self, now=time.perf_counter):
                until = now() + 0.02
                while now() < until:
                    pass

        def ring():
            alarm = new_alarm()
            while True:
                alarm.wait(20_000)

        for _ in range(3):
            threading.Thread(target=ring, daemon=True).start()
        late = [Late() for _ in range(3)]
        time.sleep(0.02)
    """
    for _ in range(5):
        assert subprocess.run([sys.executable, "-c", program], check=False, timeout=LIMIT_S).returncode == 0
