"""What waits for a collector, with a sender that does as it is told."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from dotnetdiag.recipes.collector import Delivery, Signal
from dotnetdiag.recipes.outbox import BATCH_SIZE, CollectorAway, CollectorBack, Dropped, Notice, Outbox, Parcel, Refused

PATIENCE_S = 60.0
TAKEN = Delivery(taken=True)
AWAY = Delivery(taken=False, again=True, why="Connection refused")
NO = Delivery(taken=False, why="401 Unauthorized")


class Sender:
    """Answers each delivery with the next of ``answers``, then takes all. With ``held`` it waits for :attr:`gate`, or to be closed."""

    def __init__(self, *answers: Delivery, held: bool = False) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[Signal, list[Any]]] = []
        self.gate = threading.Event()
        self.asked = threading.Semaphore(0)
        self.closed = False
        if not held:
            self.gate.set()

    def send(self, signal: Signal, contents: Sequence[Any]) -> Delivery:
        self.asked.release()
        assert self.gate.wait(PATIENCE_S)
        if self.closed:
            return AWAY
        answer = self.answers.pop(0) if self.answers else TAKEN
        if answer.taken:
            self.sent.append((signal, list(contents)))
        return answer

    def close(self) -> None:
        self.closed = True
        self.gate.set()

    def await_asked(self) -> None:
        assert self.asked.acquire(timeout=PATIENCE_S)


def parcel(content: object, records: int = 1, signal: Signal = Signal.METRICS) -> Parcel:
    return Parcel(signal=signal, content=content, records=records)


def outbox(sender: Sender, said: list[Notice], **limits: Any) -> Outbox:
    return Outbox(sender, said.append, **{"first_wait_s": 0.01, **limits})


def contents(sender: Sender) -> list[Any]:
    return [one for _, some in sender.sent for one in some]


def test_everything_is_sent_in_its_order() -> None:
    sender, said = Sender(), list[Notice]()
    box = outbox(sender, said)
    for number in range(10):
        box.put(parcel(number))
    sent = box.finish(PATIENCE_S)
    assert contents(sender) == list(range(10))
    assert (sent.sent, sent.dropped, sent.refused, said) == ({Signal.METRICS: 10}, {}, {}, [])
    assert sender.closed


def test_what_waits_goes_together_up_to_the_size_of_a_batch() -> None:
    sender = Sender(held=True)
    box = outbox(sender, [], batch=5)
    box.put(parcel(0))
    sender.await_asked()
    for number in range(1, 5):
        box.put(parcel(number, 2))
    box.put(parcel("large", 100))
    sender.gate.set()
    box.finish(PATIENCE_S)
    assert [some for _, some in sender.sent] == [[0], [1, 2], [3, 4], ["large"]]


def test_a_collector_that_is_away_is_said_once_and_gets_everything_when_it_is_back() -> None:
    sender, said = Sender(AWAY, AWAY, AWAY), list[Notice]()
    box = outbox(sender, said)
    for number in range(3):
        box.put(parcel(number))
    for _ in range(4):
        sender.await_asked()
    sent = box.finish(PATIENCE_S)
    assert contents(sender) == [0, 1, 2]
    assert sent.sent == {Signal.METRICS: 3}
    away, back = said
    assert away == CollectorAway(why="Connection refused")
    assert isinstance(back, CollectorBack)


def test_when_there_is_no_room_the_oldest_goes_and_it_is_counted() -> None:
    sender, said = Sender(held=True), list[Notice]()
    box = outbox(sender, said, room=5, batch=1)
    box.put(parcel("being sent"))
    sender.await_asked()
    for number in range(8):
        box.put(parcel(number))
    assert said == [Dropped(records=1)], "the others are said later, together"
    sender.gate.set()
    sent = box.finish(PATIENCE_S)
    assert contents(sender) == ["being sent", 3, 4, 5, 6, 7]
    assert (sent.sent, sent.dropped) == ({Signal.METRICS: 6}, {Signal.METRICS: 3})


def test_a_batch_that_was_not_taken_is_older_than_what_came_meanwhile() -> None:
    sender = Sender(AWAY, held=True)
    box = outbox(sender, [], room=2, batch=1)
    box.put(parcel("first"))
    sender.await_asked()
    box.put(parcel("second"))
    box.put(parcel("third"))
    sender.gate.set()
    sent = box.finish(PATIENCE_S)
    assert contents(sender) == ["second", "third"]
    assert sent.dropped == {Signal.METRICS: 1}


def test_what_is_refused_is_not_sent_again() -> None:
    sender, said = Sender(NO, NO), list[Notice]()
    box = outbox(sender, said, batch=1)
    for number in range(3):
        box.put(parcel(number, 2 if not number else 1))
    sent = box.finish(PATIENCE_S)
    assert contents(sender) == [2]
    assert (sent.sent, sent.refused) == ({Signal.METRICS: 1}, {Signal.METRICS: 3})
    assert said == [Refused(signal=Signal.METRICS, records=2, why="401 Unauthorized")]


def test_signals_do_not_wait_for_each_other() -> None:
    sender = Sender(AWAY)
    box = outbox(sender, [], first_wait_s=PATIENCE_S)
    box.put(parcel("metrics"))
    sender.await_asked()
    box.put(parcel("logs", signal=Signal.LOGS))
    sender.await_asked()
    box.finish(PATIENCE_S)
    assert sender.sent == [(Signal.LOGS, ["logs"]), (Signal.METRICS, ["metrics"])]


def test_at_the_end_what_waits_is_tried_once_more_and_then_dropped() -> None:
    sender = Sender(AWAY, AWAY)
    box = outbox(sender, [], first_wait_s=PATIENCE_S)
    box.put(parcel(1, 7))
    sender.await_asked()
    sent = box.finish(PATIENCE_S)
    assert (sent.sent, sent.dropped, sender.answers) == ({}, {Signal.METRICS: 7}, [])


def test_the_end_does_not_wait_for_a_collector_that_does_not_answer() -> None:
    sender = Sender(held=True)
    box = outbox(sender, [])
    box.put(parcel(1))
    sender.await_asked()
    box.put(parcel(2))
    sent = box.finish(0.01)
    assert sent.dropped == {Signal.METRICS: 2}
    assert not any(one.name == "dotnetdiag outbox" for one in threading.enumerate())


@pytest.mark.parametrize("records", [0, 1])
def test_an_empty_outbox_ends_at_once(records: int) -> None:
    sender = Sender()
    box = outbox(sender, [])
    for number in range(records):
        box.put(parcel(number))
    assert box.finish(PATIENCE_S).sent == ({Signal.METRICS: records} if records else {})


def test_what_is_being_sent_when_nobody_waits_any_longer_counts_as_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    class Deaf(Sender):
        def close(self) -> None:
            """What is being sent goes on."""

    monkeypatch.setattr("dotnetdiag.recipes.outbox.CLOSING_S", 0.01)
    sender, said = Deaf(held=True), list[Notice]()
    box = outbox(sender, said)
    box.put(parcel(1, 7))
    sender.await_asked()
    assert box.finish(0.01).dropped == {Signal.METRICS: 7}
    sender.gate.set()
    box._thread.join(PATIENCE_S)
    assert (box.totals().dropped, box.totals().sent, said) == ({Signal.METRICS: 7}, {}, [])


class Choosy(Sender):
    """Has a reason against requests with ``bad`` in them: raises it, or answers it."""

    def __init__(self, bad: object, reason: Exception | Delivery, held: bool = True) -> None:
        super().__init__(held=held)
        self.bad, self.reason = bad, reason

    def send(self, signal: Signal, contents: Sequence[Any]) -> Delivery:
        if self.bad not in contents:
            return super().send(signal, contents)
        self.asked.release()
        if isinstance(self.reason, Exception):
            raise self.reason
        return self.reason


@pytest.mark.parametrize(
    "reason", [ValueError("no such time"), Delivery(taken=False, why="ValueError: no such time", apart=True)]
)
def test_what_cannot_be_sent_costs_only_its_own_parcel(reason: Exception | Delivery) -> None:
    sender, said = Choosy(5, reason), list[Notice]()
    box = outbox(sender, said)
    box.put(parcel(0))
    sender.await_asked()
    for number in range(1, 10):
        box.put(parcel(number))
    sender.gate.set()
    sent = box.finish(PATIENCE_S)
    assert contents(sender) == [0, 1, 2, 3, 4, 6, 7, 8, 9]
    assert (sent.sent, sent.refused) == ({Signal.METRICS: 9}, {Signal.METRICS: 1})
    assert said == [Refused(signal=Signal.METRICS, records=1, why="ValueError: no such time")]


def test_a_request_that_may_be_too_large_is_halved_when_it_is_sent_again() -> None:
    class Small(Sender):
        def send(self, signal: Signal, contents: Sequence[Any]) -> Delivery:
            if len(contents) > 2:
                return Delivery(taken=False, again=True, why="RESOURCE_EXHAUSTED", apart=True)
            return super().send(signal, contents)

    sender = Small(held=True)
    box = outbox(sender, [])
    box.put(parcel(0))
    sender.await_asked()
    for number in range(1, 7):
        box.put(parcel(number))
    sender.gate.set()
    sent = box.finish(PATIENCE_S)
    assert contents(sender) == list(range(7))
    assert (sent.sent, sent.dropped, sent.refused) == ({Signal.METRICS: 7}, {}, {})


def test_requests_are_limited_in_bytes_too() -> None:
    sender = Sender(held=True)
    box = outbox(sender, [])
    box.put(parcel(0))
    sender.await_asked()
    for number in range(1, 6):
        box.put(Parcel(signal=Signal.METRICS, content=number, records=1, size=BATCH_SIZE // 2))
    sender.gate.set()
    box.finish(PATIENCE_S)
    assert [some for _, some in sender.sent] == [[0], [1, 2], [3, 4], [5]]


def test_records_that_a_collector_rejects_of_a_request_are_refused() -> None:
    sender, said = Sender(Delivery(taken=True, rejected=2, why="too old")), list[Notice]()
    box = outbox(sender, said)
    box.put(parcel(1, 5))
    sent = box.finish(PATIENCE_S)
    assert (sent.sent, sent.refused) == ({Signal.METRICS: 3}, {Signal.METRICS: 2})
    assert said == [Refused(signal=Signal.METRICS, records=2, why="too old")]
