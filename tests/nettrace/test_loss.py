"""Lost events, exactly: per thread, per segment, in time (nettrace.md §5.9, §8)."""

from __future__ import annotations

import numpy as np
import pytest

from dotnetdiag.nettrace import LossAccount, loss


def add(account: LossAccount, events: list[tuple[int, int]], *, segment: int = 0, start: int = 0) -> None:
    """(thread, number) rows as one block; the time of a row is 10 x its place."""
    threads = np.array([thread for thread, _ in events], np.uint64)
    numbers = np.array([number for _, number in events], np.uint32)
    times = 10 * (start + np.arange(len(events), dtype=np.int64))
    account.add_block(segment, threads, numbers, times, np.arange(len(events), dtype=np.int64))


def test_numbers_in_a_row_lose_nothing() -> None:
    account = LossAccount()
    add(account, [(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)])
    account.add_sequence_point(0, 99, [(1, 3), (2, 2)])
    assert account.total == 0
    assert account.gaps == []


def test_gap_is_counted_between_its_neighbours() -> None:
    account = LossAccount()
    add(account, [(1, 1), (1, 5)], segment=3)
    assert account.by_thread == {1: 3}
    assert account.by_segment == {3: 3}
    gap = account.gaps[0]
    assert (gap.capture_thread, gap.segment, gap.after, gap.before, gap.count) == (1, 3, 0, 10, 3)


def test_runtimes_count_from_one_so_a_late_first_number_is_a_loss() -> None:
    account = LossAccount()
    add(account, [(1, 5)])
    assert account.total == 4
    assert account.gaps[0].after is None


def test_version_6_counts_from_anywhere() -> None:
    account = LossAccount(starts_at_one=False)
    add(account, [(1, 5)])
    assert account.total == 0


def test_sequence_point_counts_what_came_after_the_last_event() -> None:
    account = LossAccount()
    add(account, [(1, 1)])
    account.add_sequence_point(0, 50, [(1, 4), (2, 6), (3, 0)])
    assert account.by_thread == {1: 3, 2: 6}
    add(account, [(1, 5), (2, 7)], segment=1)
    assert account.total == 9


def test_sequence_point_that_lags_behind_changes_nothing() -> None:
    account = LossAccount()
    add(account, [(1, 1), (1, 2), (1, 3)])
    account.add_sequence_point(0, 50, [(1, 2)])
    add(account, [(1, 4)], segment=1)
    assert account.total == 0


def test_numbers_wrap_at_32_bits() -> None:
    account = LossAccount(starts_at_one=False)
    add(account, [(1, 0xFFFFFFFE), (1, 0xFFFFFFFF), (1, 0), (1, 3)])
    account.add_sequence_point(0, 99, [(1, 5)])
    assert account.total == 4


def test_number_that_falls_back_is_a_new_thread_of_the_same_id() -> None:
    account = LossAccount()
    add(account, [(1, 1), (1, 2), (1, 3), (1, 1), (1, 2)])
    assert account.total == 0
    assert account.restarts == 1


def test_thread_that_is_no_longer_listed_has_ended_and_its_id_may_come_again() -> None:
    account = LossAccount()
    add(account, [(1, 1), (1, 2)])
    account.add_sequence_point(0, 50, [])
    add(account, [(1, 1)], segment=1)
    assert account.total == 0


def test_thread_that_goes_on_after_it_was_not_listed_loses_nothing() -> None:
    account = LossAccount()
    add(account, [(1, 1), (1, 2)])
    account.add_sequence_point(0, 50, [])
    add(account, [(1, 3)], segment=1)
    assert account.total == 0


def test_removed_thread_is_settled_and_forgotten() -> None:
    account = LossAccount(starts_at_one=False)
    add(account, [(1, 7)])
    account.remove_thread(0, 60, 1, 9)
    add(account, [(1, 100)])
    assert account.by_thread == {1: 2}


def test_forgetting_sequence_point_checks_first() -> None:
    account = LossAccount(starts_at_one=False)
    add(account, [(1, 7)])
    account.add_sequence_point(0, 60, [(1, 8)], forget=True)
    add(account, [(1, 50)], segment=1)
    assert account.total == 1


def test_places_are_bounded_but_totals_are_not() -> None:
    account = LossAccount()
    add(account, [(1, 3 * number) for number in range(1, 20_001)])
    assert account.total == 40_000
    assert len(account.gaps) == 10_000


@pytest.mark.parametrize("largest", [40, 1 << 40])
def test_runs_joined_in_one_call_count_the_same_losses_as_one_by_one(
    largest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(10)
    threads = random.integers(1, largest, 30, dtype=np.uint64)[random.integers(0, 30, 2_000)]
    sequence = np.zeros(2_000, np.uint32)
    for thread in np.unique(threads):
        of_it = threads == thread
        sequence[of_it] = np.cumsum(random.choice([1, 1, 1, 1, 5], np.count_nonzero(of_it))) + 0xFFFFFF80
    times, runs = np.arange(2_000), np.unique(np.append(0, np.flatnonzero(np.diff(threads)) + 1))
    jumps = np.flatnonzero(np.diff(sequence) != 1) + 1
    accounts = []
    for few in (0, 2_000):
        monkeypatch.setattr(loss, "FEW_RUNS", few)
        account = LossAccount()
        account.add_block(0, threads, sequence, times, np.union1d(runs, jumps))
        accounts.append((account.total, account.gaps, account.restarts, list(account._last.items())))
    assert accounts[0] == accounts[1]
    assert accounts[0][0]


def test_threads_that_were_not_seen_for_longest_are_forgotten_when_there_are_a_quarter_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loss, "THREADS_LIMIT", 8)
    for few in (0, 100):
        monkeypatch.setattr(loss, "FEW_RUNS", few)
        account = LossAccount()
        for thread in range(10):
            add(account, [(thread, 1)])
        add(account, [(0, 2)])
        assert list(account._last) == [*range(1, 10), 0]
        add(account, [(10, 1)])
        assert list(account._last) == [4, 5, 6, 7, 8, 9, 0, 10]
        account.add_sequence_point(0, 50, [(5, 1), (20, 0), (21, 0)])
        assert list(account._last) == [5, 20, 21]
        assert list(account._ended) == [4, 6, 7, 8, 9, 0, 10]
        account.add_sequence_point(0, 50, [])
        assert list(account._ended) == [4, 6, 7, 8, 9, 0, 10, 5, 20, 21]
        add(account, [(30, 1)])
        account.add_sequence_point(0, 50, [])
        assert list(account._ended) == [8, 9, 0, 10, 5, 20, 21, 30]


def test_places_and_threads_of_losses_are_kept_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "THREADS_LIMIT", 3)
    monkeypatch.setattr(loss, "GAPS_LIMIT", 5)
    account = LossAccount()
    for number in range(4):
        add(account, [(number, 3)], segment=10 + number)
        add(account, [(number, 5)], segment=10 + number)
    assert account.total == 4 * 3
    assert account.by_thread == {0: 3, 1: 3, 2: 3}
    assert account.by_segment == {10: 3, 11: 3, 12: 3}
    assert [(gap.capture_thread, gap.count) for gap in account.gaps] == [(0, 2), (0, 1), (1, 2), (1, 1), (2, 2)]


@pytest.mark.parametrize("starts_at_one", [True, False])
def test_number_may_run_ahead_by_less_than_half_of_all(starts_at_one: bool) -> None:
    half = 1 << 31
    for first, number, lost, restarts in (
        (1, 2, 0, 0),
        (1, half, half - 2, 0),
        (1, half + 1, 0, 1),
        (7, 7, 0, 1),
        (7, 6, 0, 1),
        (0xFFFFFFFF, 0, 0, 0),
        (0xFFFFFFFF, half - 2, half - 2, 0),
    ):
        account = LossAccount(starts_at_one=starts_at_one)
        account._last[1] = (first, 3)
        add(account, [(1, number)], segment=4)
        # after numbers that fell back a thread begins at one, where threads do
        begun = number - 1 if restarts and starts_at_one and 0 < number < half else 0
        assert (account.total, account.restarts) == (lost + begun, restarts), (first, number)
        account = LossAccount(starts_at_one=starts_at_one)
        account._last[1] = (first, 3)
        account.remove_thread(2, 60, 1, number)
        ahead = (number - first) % (1 << 32)
        assert account.by_segment == ({2: ahead} if 0 < ahead < half else {})
        assert account._last == {}


def test_first_number_counts_as_lost_up_to_half_of_all() -> None:
    half = 1 << 31
    for number, lost in ((0, 0), (1, 0), (2, 1), (half - 1, half - 2), (half, 0), (half + 1, 0)):
        account = LossAccount()
        add(account, [(1, number)])
        assert account.total == lost, number
        account = LossAccount()
        account.add_sequence_point(3, 9, [(1, number)])
        assert account.by_thread == ({1: number} if 0 < number < half else {}), number
        if account.gaps:
            assert [(gap.segment, gap.after, gap.before) for gap in account.gaps] == [(3, None, 9)]


def test_losses_of_a_thread_that_got_another_number_are_those_of_that_number() -> None:
    account = LossAccount(starts_at_one=False)
    add(account, [(1, 5)])
    account.renumber_thread(1, 9)
    account.renumber_thread(2, 8)
    add(account, [(9, 8), (1, 50)])
    assert account.by_thread == {9: 2}
    assert list(account._last) == [9, 1]


def test_what_a_thread_that_is_not_followed_has_lost_is_not_made_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "THREADS_LIMIT", 8)
    account = LossAccount()
    for thread in range(10):
        add(account, [(thread, 3)])
    assert (account.total, account.at_least) == (20, False)
    add(account, [(10, 3)])
    assert (account.total, account.at_least) == (22, True)
    add(account, [(0, 4)])  # forgotten
    add(account, [(11, 3)])  # may be new, or forgotten
    account.add_sequence_point(0, 50, [(1, 3), (2, 3), (12, 7)])
    assert account.total == 22
    account.add_sequence_point(0, 60, [(12, 8)])
    assert account.total == 22 + 1


def test_what_follows_the_call_before_is_taken_and_so_is_all_behind_it() -> None:
    account = LossAccount()
    add(account, [(1, 1), (1, 2)])
    account.add_block(
        0,
        np.array([1, 1, 2, 1], np.uint64),
        np.array([3, 4, 3, 9], np.uint32),
        np.arange(4, dtype=np.int64),
        np.array([2, 3], np.int64),
    )
    assert (account.total, account.by_thread) == (2 + 4, {2: 2, 1: 4})
