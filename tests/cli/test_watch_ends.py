"""How a watch ends, as events, as a top or as a report: what is said of a process that is gone, and the exit code."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import click
import pytest

from dotnetdiag.cli import trace_watch
from dotnetdiag.cli.output import TABLE
from dotnetdiag.live import Account


class Asked:
    """A question to a session of a process that ended, or did not, before its stream had its end."""

    notes = ("names of methods are missing: nobody answers",)

    def __init__(self, ended: str | None) -> None:
        self.live = SimpleNamespace(
            ended=ended, notes=(), account=Account(), aborted=False, stop=lambda: None, stop_soon=lambda: None
        )

    def result(self) -> str:
        return "the answer"


@pytest.mark.parametrize("is_filtered", [False, True])
def test_nothing_is_said_to_be_filtered_out_where_nobody_gave_a_filter(is_filtered: bool) -> None:
    """What the runtime says of itself was told as if something of a report was lost."""
    said = trace_watch.account_text(Account(shown=1200, filtered=2, naming=5), "read", is_filtered=is_filtered)
    kept_back = "2 filtered out, " if is_filtered else ""
    assert said == f"1,200 events read, {kept_back}0 missed in the target, 0 missed here, 5 named methods"


@pytest.mark.parametrize("is_gone", [False, True])
@pytest.mark.parametrize("ended", [None, "the stream ended without an end"])
def test_a_report_of_a_process_that_is_killed_is_printed_and_ends_as_a_watch_does(
    is_gone: bool, ended: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ended with 0, and no word of the process."""
    source = SimpleNamespace(client=None, on_exit=lambda _: None, exit_code=None, child_signal=None)
    fakes: dict[str, Any] = {
        "watched": lambda *_: nullcontext(source),
        "started": lambda *_: nullcontext(Asked(ended)),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(trace_watch, name, fake)
    monkeypatch.setattr("dotnetdiag.recipes.outcome.exit_of", lambda _: lambda _: 77 if is_gone else None)
    page: Any = SimpleNamespace(check=lambda _: None, deliver=lambda _, made, __: print(made))
    options: Any = SimpleNamespace(composed=lambda: None)
    code = 0
    try:
        trace_watch._report(None, None, "gc", options, TABLE, page)
    except click.exceptions.Exit as error:
        code = error.exit_code
    printed = capsys.readouterr()
    assert code == (2 if is_gone and ended else 0)
    assert printed.out == "the answer\n"
    said = printed.err.splitlines()
    died = " before the session had its end: the last events may be missing" if ended else ""
    assert ("note: names of methods are missing: nobody answers" in said, f"note: {ended}" in said) == (
        True,
        bool(ended),
    )
    assert (f"note: process 77 has exited{died}" in said) is is_gone
