"""Of very many methods those alone are kept that a stack goes through, and stacks have the same names."""

from __future__ import annotations

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.nettrace import HeaderColumns
from dotnetdiag.trace import source
from dotnetdiag.trace.symbol_events import METHOD_ROLES, wanted_events
from dotnetdiag.trace.trace import Trace
from dotnetdiag.trace.used_code import UsedCode

MOST_STACKS = 2000


def names(trace: Trace) -> list[tuple[str, ...]]:
    """Of the stacks of a recording, at its end, and at the times of the events that have them."""
    raw = trace.raw
    stacks = [raw.frames(number) for number in range(min(len(raw.stacks), MOST_STACKS))]
    headers = HeaderColumns.concatenate(list(raw.source.windows()))
    rows = headers.stack.nonzero()[0][:MOST_STACKS]
    return stacks + raw.frames_of(headers[rows])


def methods(trace: Trace) -> int:
    """How many events tell of methods, of those that symbols are built from."""
    raw = trace.raw
    headers = raw.symbol_headers().headers
    wanted, _ = wanted_events(raw.metadata, 8)
    numbers = [number for number, (role, _) in wanted.items() if role in METHOD_ROLES]
    return int(sum((headers.metadata_id == number).sum() for number in numbers))


@pytest.mark.parametrize("name", recordings())
def test_stacks_have_the_same_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(name)
    whole, count = names(Trace(data)), methods(Trace(data))
    monkeypatch.setattr(source, "NOTED_ROWS", 5)
    made = Trace(data)
    assert names(made) == whole
    if UsedCode.of(made.raw) is not None and count > 100:
        assert methods(Trace(data)) < count
    else:
        assert methods(Trace(data)) == count


@pytest.mark.parametrize(
    ("name", "all_are_kept"),
    [
        ("eventpipe-dotnetcore3.0-win-x64-objver4.nettrace.xz", True),
        ("eventpipe-dotnetcore2.1-linux-x64-objver3.netperf.xz", False),
        ("gcverbose-10.nettrace", False),
    ],
)
def test_methods_that_tell_of_each_other_are_all_kept(name: str, all_are_kept: bool) -> None:
    """Of an entry point's module tells another event of its method, and of one without a name another."""
    assert (UsedCode.of(Trace(data_of(name)).raw) is None) == all_are_kept
