"""Texts of columns, numbered by their bytes."""

from __future__ import annotations

import numpy as np
import pytest

from dotnetdiag.analysis import kept_events
from dotnetdiag.analysis.kept_events import CUT, OTHERS, Texts
from dotnetdiag.events.columns import Text
from dotnetdiag.trace.text_ids import TextIds


def test_texts_have_the_numbers_in_which_they_come() -> None:
    ids = TextIds()
    assert ids.of(Text.from_pylist(["b", "", "a", "b", None])).tolist() == [0, 1, 2, 0, 1]
    assert ids.of(Text.from_pylist(["\u00e4\ud800", "a"])).tolist() == [3, 2]
    assert ids.texts() == ["b", "", "a", "\u00e4\ud800"]
    assert ids.texts(2) == ["a", "\u00e4\ud800"]
    assert ids.texts(4) == []
    assert ids.of(Text.from_pylist([])).tolist() == []
    assert TextIds().of(Text.from_pylist(["", None])).tolist() == [0, 0]


def test_a_part_of_a_column_has_its_own_texts() -> None:
    column = Text.from_pylist(["x", "yy", "zzz", "yy"])
    part = Text(column.offsets[1:], column.data)
    ids = TextIds()
    assert ids.of(part).tolist() == [0, 1, 0]
    assert ids.texts() == ["yy", "zzz"]


def test_texts_that_hardly_come_again_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_events, "HELD_TEXTS", 100)
    texts, expected = Texts(50, longest=8), dict[str, int]()
    random = np.random.default_rng(3)
    for _ in range(40):
        words = [f"word {number} and more" for number in random.integers(0, 90, 30).tolist()]
        for word in words:
            if len(expected) < 50:
                expected.setdefault(word[:7] + CUT, len(expected))
        found = texts.numbers(Text.from_pylist(words), len(words))
        others = texts.names.index(OTHERS) if OTHERS in texts.names else -1
        assert found.tolist() == [expected.get(word[:7] + CUT, others) for word in words]
    assert texts.names[:50] == [*expected]
    assert texts._ids.size_bytes < 1000
