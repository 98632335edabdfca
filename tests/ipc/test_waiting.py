"""Who is kept, who is resumed, who is dropped, in the orders that nobody expects."""

from __future__ import annotations

from uuid import UUID

from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.waiting import MOST_REMEMBERED, Decision, Waiting, WaitingRuntimes

KEEP, RESUME = Decision.KEEP, Decision.RESUME


def said(cookie: int, pid: int = 1) -> Advertise:
    return Advertise(cookie=UUID(int=cookie), pid=pid)


def all_live(_: str) -> bool:
    return True


def test_nobody_waits_at_first() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    assert len(table) == 0
    assert table.choose(all_live) is None
    assert table.chosen is None
    assert (table.to_resume(), table.gone(all_live), table.clear(), table.take(UUID(int=1))) == ([], [], [], None)


# rule 1: the key is the cookie ------------------------------------------------------------------------------------------------


def test_a_newer_connection_of_a_cookie_replaces_the_older_one() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    assert table.admit(said(1, pid=5), "a") == (KEEP, None)
    assert table.admit(said(1, pid=6), "b") == (KEEP, "a")
    assert len(table) == 1
    assert table.choose(all_live) == Waiting(advertise=said(1, pid=6), connection="b")
    assert table.take(UUID(int=1)) == "b"
    assert table.take(UUID(int=1)) is None


def test_two_cookies_of_one_pid_are_two_runtimes() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1, pid=5), "a")
    assert table.admit(said(2, pid=5), "b") == (KEEP, None)
    assert len(table) == 2


def test_the_chosen_one_dials_again_and_is_kept_each_time() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "a")
    table.choose(all_live)
    assert table.take(UUID(int=1)) == "a"
    assert table.choose(all_live) is None  # it is chosen, and has not dialled again yet
    assert table.chosen == UUID(int=1)
    for connection, replaced in (("b", None), ("c", "b"), ("d", "c")):
        assert table.admit(said(1), connection) == (KEEP, replaced)
    found = table.choose(all_live)
    assert found is not None
    assert found.connection == "d"
    # even when somebody has said of it that it was resumed
    table.resumed(UUID(int=1))
    assert table.admit(said(1), "e") == (KEEP, "d")
    assert table.to_resume() == []


# rule 2: all others are resumed -----------------------------------------------------------------------------------------------


def test_before_anybody_was_chosen_all_are_kept() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    for number in range(5):
        assert table.admit(said(number), str(number)) == (KEEP, None)
    assert table.to_resume() == []
    assert len(table) == 5


def test_the_one_that_has_waited_longest_and_lives_is_chosen_and_stays_so() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    for number, connection in enumerate(("dead", "a", "b")):
        table.admit(said(number), connection)
    found = table.choose(lambda connection: connection != "dead")
    assert found is not None
    assert found.connection == "a"
    assert table.chosen == UUID(int=1)
    assert table.choose(lambda _: False) == found  # once chosen, its life is not asked about
    # the two others are the caller's now
    assert [one.connection for one in table.to_resume()] == ["dead", "b"]
    assert table.to_resume() == []
    assert len(table) == 1


def test_none_is_chosen_when_all_are_dead() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "a")
    assert table.choose(lambda _: False) is None
    assert table.chosen is None
    assert table.admit(said(2), "b") == (KEEP, None)


def test_a_newer_connection_goes_to_the_end_of_the_queue() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    for number, connection in ((1, "a"), (2, "b"), (1, "c")):
        table.admit(said(number), connection)
    found = table.choose(all_live)
    assert found is not None
    assert found.connection == "b"


def test_a_stranger_is_resumed_whether_it_dialled_before_the_choice_or_after() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "chosen")
    table.admit(said(2), "before")
    table.choose(all_live)
    assert table.admit(said(3), "after") == (RESUME, None)
    assert [one.connection for one in table.to_resume()] == ["before"]
    assert len(table) == 1


def test_a_stranger_that_dialled_before_and_again_after_the_choice_replaces_its_own_connection() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "chosen")
    table.admit(said(2), "old")
    table.choose(all_live)
    assert table.admit(said(2), "new") == (RESUME, "old")
    assert table.to_resume() == []


def test_a_stranger_is_resumed_as_often_as_it_dials_until_it_has_said_that_it_runs() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "chosen")
    table.choose(all_live)
    for connection in "abc":
        assert table.admit(said(2), connection) == (RESUME, None)
        table.not_resumed(UUID(int=2))
    assert table.admit(said(2), "asked") == (RESUME, None)
    # meanwhile nobody knows: kept, and asked again when the first answer does not come
    assert table.admit(said(2), "newer") == (KEEP, None)
    assert table.to_resume() == []
    table.not_resumed(UUID(int=2))
    assert [one.connection for one in table.to_resume()] == ["newer"]
    table.resumed(UUID(int=2))
    # rule 3: kept, not closed
    assert table.admit(said(2), "d") == (KEEP, None)
    assert table.admit(said(2), "e") == (KEEP, "d")
    assert table.to_resume() == []
    assert len(table) == 2
    found = table.choose(all_live)
    assert found is not None
    assert found.connection == "chosen"


# rule 4: who is gone is dropped -----------------------------------------------------------------------------------------------


def test_connections_whose_runtimes_are_gone_are_given_back() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    for number, connection in enumerate(("a", "dead", "b", "dead too")):
        table.admit(said(number), connection)
    assert table.gone(lambda connection: not connection.startswith("dead")) == ["dead", "dead too"]
    assert table.gone(lambda connection: not connection.startswith("dead")) == []
    assert len(table) == 2
    assert table.clear() == ["a", "b"]
    assert len(table) == 0


def test_the_chosen_one_may_be_gone_and_remains_the_chosen_one() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "a")
    table.choose(all_live)
    assert table.gone(lambda _: False) == ["a"]
    assert table.choose(all_live) is None
    assert table.admit(said(2), "other") == (RESUME, None)
    assert table.admit(said(1), "again") == (KEEP, None)
    found = table.choose(all_live)
    assert found is not None
    assert found.connection == "again"


# what is remembered -------------------------------------------------------------------------------------------------------------


def test_so_many_resumed_runtimes_are_remembered_and_the_oldest_are_forgotten_first() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(0), "chosen")
    table.choose(all_live)
    for number in range(1, 5001):
        assert table.admit(said(number), "x") == (RESUME, None)
        table.resumed(UUID(int=number))
    assert MOST_REMEMBERED == 4096
    forgotten = 5000 - MOST_REMEMBERED
    assert table.admit(said(forgotten), "x") == (RESUME, None)  # once more, which harms nobody
    assert table.admit(said(forgotten + 1), "x") == (KEEP, None)
    assert table.admit(said(5000), "x") == (KEEP, None)
    # the same one twice is remembered once
    for _ in range(10):
        table.resumed(UUID(int=5000))
    assert table.admit(said(forgotten + 2), "x") == (KEEP, None)


def test_a_stranger_that_is_being_resumed_and_dials_again_is_kept_till_it_has_answered() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "chosen")
    table.admit(said(2), "stranger")
    assert table.choose(all_live) is not None
    assert [one.connection for one in table.to_resume()] == ["stranger"]
    assert table.admit(said(2), "again") == (KEEP, None)
    assert table.to_resume() == []
    table.not_resumed(UUID(int=2))
    assert [one.connection for one in table.to_resume()] == ["again"]


# one program after another ------------------------------------------------------------------------------------------------------


def test_when_the_chosen_one_is_let_go_the_next_is_chosen_and_nobody_is_resumed_for_its_sake() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    table.admit(said(1), "a")
    assert table.choose(all_live) == Waiting(advertise=said(1), connection="a")
    table.release()
    assert table.admit(said(2), "b") == (KEEP, None)
    table.gone(lambda connection: connection != "a")
    assert table.choose(all_live) == Waiting(advertise=said(2), connection="b")
    assert table.admit(said(3), "c") == (RESUME, None)


def test_a_runtime_is_away_without_a_living_connection() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    cookie = UUID(int=1)
    assert table.is_away(cookie, all_live)
    table.admit(said(1), "a")
    assert not table.is_away(cookie, all_live)
    assert table.is_away(cookie, lambda _: False)
    table.take(cookie)
    assert not table.is_away(cookie, all_live)  # in use
    table.admit(said(1), "b")
    assert not table.is_away(cookie, lambda connection: connection == "b")
    assert table.is_away(cookie, lambda _: False)


def test_the_connection_that_a_runtime_keeps_can_be_looked_at() -> None:
    table: WaitingRuntimes[str] = WaitingRuntimes()
    assert table.waiting(UUID(int=1)) is None
    table.admit(said(1), "a")
    assert table.waiting(UUID(int=1)) == Waiting(advertise=said(1), connection="a")
    table.take(UUID(int=1))
    assert table.waiting(UUID(int=1)) is None
