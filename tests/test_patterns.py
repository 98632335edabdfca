"""Regular expressions that are compiled later are the same ones."""

from __future__ import annotations

import re

import pytest

from dotnetdiag._patterns import pattern


def test_it_finds_what_one_that_was_compiled_finds() -> None:
    later, compiled = (
        pattern(r"(?P<word>[a-c]+)(\d)?", re.IGNORECASE),
        re.compile(r"(?P<word>[a-c]+)(\d)?", re.IGNORECASE),
    )
    for text in ("", "AbC1 d2", "c", "x"):
        for name in ("match", "search", "fullmatch", "findall", "split"):
            ours, theirs = (getattr(one, name)(text) for one in (later, compiled))
            assert (ours.groups() == theirs.groups()) if isinstance(theirs, re.Match) else ours == theirs
        assert later.sub(r"<\g<word>>", text) == compiled.sub(r"<\g<word>>", text)
    assert (later.pattern, later.flags, later.groupindex) == (compiled.pattern, compiled.flags, compiled.groupindex)


def test_it_is_compiled_when_it_is_first_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_ = re.compile

    def noting(text: str, flags: int = 0) -> re.Pattern[str]:
        compiled.append(text)
        return compile_(text, flags)

    monkeypatch.setattr(re, "compile", noting)
    later = pattern("a+")
    assert not compiled
    assert later.fullmatch("aa")
    assert later.fullmatch("ab") is None
    assert compiled == ["a+"]


def test_what_is_no_expression_says_so_when_it_is_asked() -> None:
    with pytest.raises(re.error, match="unterminated"):
        pattern("(").search("")
