"""What is alike in columns."""

from __future__ import annotations

import numpy as np

from dotnetdiag.analysis.distinct import rows_with
from dotnetdiag.events.columns import Coded, Text


def test_rows_with_a_text_that_is_wanted() -> None:
    texts = ["a", "b", None, "ab", ""]
    asked: list[str] = []

    def wanted(text: str) -> bool:
        asked.append(text)
        return text.startswith("a")

    assert rows_with(Text.from_pylist(texts), wanted).tolist() == [True, False, False, True, False]
    asked.clear()
    which = np.array([0, 1, 0, 0, 1])
    valid = np.array([True, True, True, False, True])
    assert rows_with(Coded(Text.from_pylist(["a", "b"]), which, valid), wanted).tolist() == [
        True,
        False,
        True,
        False,
        False,
    ]
    assert asked == ["a", "b"]
    assert rows_with(Text.from_pylist([]), wanted).tolist() == []
