"""Windows for who makes one pass: the rows of all windows, in their order, in any sizes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.nettrace.columns import COLUMN_NAMES
from dotnetdiag.trace import source
from dotnetdiag.trace.source import Source, wanted_of


@pytest.mark.parametrize("name", recordings())
def test_one_pass_gives_the_rows_of_all_windows(name: str) -> None:
    data = data_of(name)
    expected = HeaderColumns.concatenate([*Source(data).windows()])
    for size in (1, 100, 1 << 17) if len(expected) < 5_000 else (1000, 1 << 17):
        windows = [*Source(data).windows_once(None, size=size)]
        assert HeaderColumns.concatenate(windows).equals(expected)
        assert max(map(len, windows), default=0) <= max(size, 1)


@pytest.mark.parametrize("name", recordings())
def test_windows_that_come_from_a_small_part_of_the_file_have_the_same_rows(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = data_of(name)
    expected = HeaderColumns.concatenate([*Source(data).windows()])
    usual = [*Source(data).windows_once(None, size=1 << 17)]
    monkeypatch.setattr(source, "SPAN_BYTES", 1000)
    windows = [*Source(data).windows_once(None, size=1 << 17)]
    assert HeaderColumns.concatenate(windows).equals(expected)
    assert len(windows) >= len(usual)


@pytest.mark.parametrize("name", recordings())
def test_a_selection_is_that_of_the_whole(name: str) -> None:
    data = data_of(name)
    whole = HeaderColumns.concatenate([*Source(data).windows()])
    ids = wanted_of(np.unique(whole.metadata_id)[::2].tolist())
    expected = whole[np.isin(whole.metadata_id, ids)]
    found = HeaderColumns.joined([*Source(data).windows_once(ids, size=500)])
    for column in COLUMN_NAMES:
        assert np.array_equal(getattr(found, column), getattr(expected, column)), column


def test_what_the_last_window_is_of_is_given_back_too() -> None:
    released: list[tuple[int, int]] = []
    data = data_of(recordings()[0])
    made = Source(data, release=lambda start, end: released.append((start, end)))
    given: list[tuple[int, int]] = []
    for window in made.windows_once(None, size=1 << 17):
        given, last = released[:], int(window.column("payload_offset").max())
    assert any(start <= last < end for start, end in released[len(given) :])


@pytest.mark.parametrize("name", recordings()[:3])
def test_a_second_pass_is_as_the_first(name: str) -> None:
    both = Source(data_of(name))
    first, second = ([*both.windows_once(None, size=1000)] for _ in range(2))
    assert HeaderColumns.concatenate(first).equals(HeaderColumns.concatenate(second))
