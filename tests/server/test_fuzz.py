"""A little of ``fuzz/server.py``, which knows what each message is to be answered; the whole of it is run by hand."""

from __future__ import annotations

import random

from fuzz.server import CROWD, fuzz_crowd, fuzz_dialogues, fuzz_socket


def test_every_message_is_answered_as_the_rules_say() -> None:
    said = fuzz_dialogues(random.Random(14), 8000)
    assert said.total() == 8000
    assert {"OK", "BAD_ENCODING", "UNKNOWN_MAGIC", "UNKNOWN_COMMAND", "NOT_SUPPORTED"} <= set(said)


def test_clients_of_any_manners_leave_nothing_behind_and_a_good_one_is_served() -> None:
    found = fuzz_socket(random.Random(14), 400)
    assert found["good client"]


def test_two_hundred_slow_and_half_closed_clients_leave_nothing_behind_and_a_good_one_is_served() -> None:
    found = fuzz_crowd(14, 1.0)
    assert int(str(found["connections"])) >= CROWD
    assert found["good client"]
