"""Reports say where names were too many to be told apart."""

from __future__ import annotations

from typing import Any

import pytest
from tests.analysis.test_jit import compiled
from tests.analysis.test_tasks import awaits, operation
from tests.analysis.traces import traced
from tests.nettrace.recordings import data_of

from dotnetdiag.analysis import kept_events
from dotnetdiag.analysis.fold import fold
from dotnetdiag.analysis.jit import JitFold
from dotnetdiag.analysis.kept_events import OTHERS, PooledTexts, Texts
from dotnetdiag.analysis.loader import LoaderFold
from dotnetdiag.analysis.logs import LogsFold
from dotnetdiag.analysis.requests import RequestsFold
from dotnetdiag.analysis.tasks import TasksFold
from dotnetdiag.trace.trace import Trace

WITH = {
    "requests": (RequestsFold, "web-10.nettrace"),
    "loggers and events": (LogsFold, "web-10.nettrace"),
    "modules, assemblies and types": (LoaderFold, "startup-10.nettrace"),
    "tasks": (TasksFold, ""),
    "methods": (JitFold, ""),
}


def _full(made: Any) -> Any:
    """The same, of texts of which there may be one."""

    def make(self: Any, most: int = 0, **options: Any) -> None:
        made(self, 1, **options)

    return make


def by_hand() -> Trace:
    """Three tasks and three methods, each of another name."""
    tasks = (one for at in range(3) for one in (awaits(10 * at, at + 1, 0), operation(10 * at + 1, at + 1, f"T{at}")))
    return traced(*tasks, *(one for at in range(3) for one in compiled(100 + 10 * at, at, f"M{at}", 10)))


@pytest.mark.parametrize("what", WITH)
@pytest.mark.parametrize("is_full", [False, True])
def test_that_names_were_too_many_is_said(what: str, is_full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, name = WITH[what]
    if is_full:
        monkeypatch.setattr(Texts, "__init__", _full(Texts.__init__))
        monkeypatch.setattr(PooledTexts, "__init__", _full(PooledTexts.__init__))
    (made,) = fold(Trace(data_of(name)) if name else by_hand(), kind())
    note = f"there are so many different names of {what} that some are told as {OTHERS}"
    assert (note in made.notes) == is_full


def test_of_no_more_than_there_may_be_nothing_is_said() -> None:
    texts = Texts(2)
    assert [texts.number(text) for text in ("a", "b", "a")] == [0, 1, 0]
    assert kept_events.others_told("x", [texts]) == ()
    assert texts[texts.number("c")] == OTHERS
    assert len(kept_events.others_told("x", [texts])) == 1
