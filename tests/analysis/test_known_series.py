"""Bytes that say which series a value is of, looked up."""

from __future__ import annotations

import numpy as np
import pytest

from dotnetdiag.analysis.known_series import UNMET, KnownSeries, code_of, numbers_of, slots_of
from dotnetdiag.events.columns import Spans


def spans(*rows: tuple[bytes, bytes]) -> list[Spans]:
    """Two texts of each row, one behind the other, with two bytes between them and some before."""
    data, starts, lengths = bytearray(), [], []
    for first, second in rows:
        data += b"...."
        starts.append((len(data), len(data) + len(first) + 2))
        lengths.append((len(first), len(second)))
        data += first + b"\0\0" + second + b"\0\0"
    buffer = np.frombuffer(bytes(data), np.uint8)
    at, size = np.array(starts, np.int64).reshape(-1, 2), np.array(lengths, np.int64).reshape(-1, 2)
    return [Spans(buffer, at[:, one].copy(), size[:, one].copy(), "utf8", ascii_only=True) for one in (0, 1)]


def numbers(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


ROWS = ((b"a", b"b"), (b"", b"ab"), (b"a", b"c"))


def learned() -> KnownSeries:
    known = KnownSeries()
    known.learn("form", numbers(1, 1, 2), numbers(0, 0, 0), spans(*ROWS), numbers(10, 11, 12))
    return known


def found(known: KnownSeries, form: str = "form") -> list[int]:
    codes: list[int] = known.find(form, numbers(1, 1, 2), numbers(0, 0, 0), spans(*ROWS)).tolist()
    return codes


def test_rows_have_the_codes_of_their_bytes_whatever_stands_around_them() -> None:
    known = learned()
    assert found(known) == [10, 11, 12]
    assert known.find("form", numbers(2), numbers(0), spans((b"a", b"c"))).tolist() == [12]


@pytest.mark.parametrize(("pid", "instrument", "texts"), [(2, 0, ROWS[0]), (1, 7, ROWS[0]), (1, 0, (b"ab", b""))])
def test_another_process_instrument_or_border_of_texts_is_another_series(
    pid: int, instrument: int, texts: tuple[bytes, bytes]
) -> None:
    assert learned().find("form", numbers(pid), numbers(instrument), spans(texts)).tolist() == [UNMET]


def test_of_another_form_nothing_is_known() -> None:
    assert found(learned(), "other") == [UNMET] * 3


def test_what_is_unmet_is_not_learned() -> None:
    known = KnownSeries()
    known.learn("form", numbers(1), numbers(0), spans(ROWS[0]), numbers(UNMET))
    known.learn("form", numbers(1), numbers(0), spans(ROWS[0]), numbers(5))
    assert found(known)[0] == 5


def test_a_process_that_has_ended_is_forgotten_and_its_sessions_are_used_again() -> None:
    known = learned()
    slots = [known.slot(1, "x"), known.slot(2, "x")]
    known.seconds[slots[0]] = known.seconds[slots[1]] = 3.0
    known.forget(1)
    assert found(known) == [UNMET, UNMET, 12]
    assert known.slot(3, "y") == slots[0]
    assert known.seconds == [0.0, 3.0]


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.analysis.known_series.KNOWN_BYTES", 10_000)
    known = KnownSeries()
    for number in range(1000):
        known.learn("form", numbers(number), numbers(0), spans(ROWS[0]), numbers(number))
    assert sum(map(len, known._codes.values())) < 100


def test_many_rows_are_found_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.analysis.known_series.ROWS_AT_ONCE", 2)
    assert found(learned()) == [10, 11, 12]


@pytest.mark.parametrize("number", [-3, -2, -1, 0, 1 << 30])
def test_a_code_is_a_session_and_a_series(number: int) -> None:
    code = numbers(code_of(77, number))
    assert (slots_of(code).tolist(), numbers_of(code).tolist()) == ([77], [number])
    assert code[0] != UNMET
