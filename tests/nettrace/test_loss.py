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
