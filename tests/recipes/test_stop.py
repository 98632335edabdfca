"""What ends a job from elsewhere, whenever it comes."""

from __future__ import annotations

import threading

import pytest

from dotnetdiag.errors import Cancelled
from dotnetdiag.recipes.stop import Stop


class Job:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told = list[str]()
        self.was_stopped = False

    def stop(self) -> None:
        self.told.append("stop")

    def abort(self) -> None:
        self.told.append("abort")


@pytest.mark.parametrize(("verb", "told"), [("stop", "stop"), ("cancel", "abort")])
def test_a_job_is_told_before_it_begins_or_while_it_runs(verb: str, told: str) -> None:
    early, late, stop = Job(), Job(), Stop()
    with stop.ending(late):
        assert late.told == []
        getattr(stop, verb)()
        assert late.told == [told]
        with stop.ending(early):
            assert early.told == [told]


def test_a_job_that_is_over_is_told_nothing() -> None:
    job, stop = Job(), Stop()
    with stop.ending(job):
        pass
    stop.stop()
    stop.cancel()
    assert job.told == []
    assert stop.has_begun


def test_the_end_has_begun_when_a_job_was_told_to_or_ends_by_itself() -> None:
    job, stop = Job(), Stop()
    with stop.ending(job):
        assert not stop.end_has_begun
        job.was_stopped = True
        assert stop.end_has_begun
    assert not stop.end_has_begun
    stop.stop()
    assert stop.end_has_begun


def test_a_stop_is_no_cancel() -> None:
    stop = Stop()
    stop.stop()
    stop.check()
    assert (stop.is_stopping, stop.is_cancelled, repr(stop)) == (True, False, "<Stop: stopping>")


def test_a_cancelled_job_does_not_begin_to_wait() -> None:
    stop = Stop()
    stop.cancel()
    with pytest.raises(Cancelled):
        stop.check()
    with pytest.raises(Cancelled), stop.waiting():
        raise AssertionError("it was cancelled before")
    assert not stop.may_raise
    assert repr(stop) == "<Stop: cancelled>"


def test_only_the_thread_that_waits_may_be_ended_by_an_exception() -> None:
    stop, elsewhere = Stop(), list[bool]()
    assert not stop.may_raise
    with stop.waiting():
        assert stop.may_raise
        other = threading.Thread(target=lambda: elsewhere.append(stop.may_raise))
        other.start()
        other.join()
    assert elsewhere == [False]
    assert not stop.may_raise


def test_it_has_not_begun_before_there_is_a_session() -> None:
    stop = Stop()
    with stop.waiting():
        assert not stop.has_begun
    with stop.ending(Job()):
        assert stop.has_begun
