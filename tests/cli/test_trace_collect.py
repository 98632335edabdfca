"""What a recording says on stderr: the names of options stand here and nowhere below."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.test_commands import LEAVES

from dotnetdiag.cli.trace_collect import OPTIONS, Display
from dotnetdiag.recipes.collect import CollectOptions, ProviderSource


def told(**asked: str) -> Display:
    display = Display(None, quiet=False)
    display.started(CollectOptions(**asked).composed(), Path("x.nettrace"), 1)  # type: ignore[arg-type]
    return display


def test_every_source_of_providers_has_its_option() -> None:
    assert set(OPTIONS) == {source.value for source in ProviderSource}
    options = {name for parameter in LEAVES["trace collect"].params for name in parameter.opts}
    assert set(OPTIONS.values()) <= options


def test_the_table_says_which_option_named_a_provider(capsys: pytest.CaptureFixture[str]) -> None:
    told(providers="A", presets="dotnet-sampled-thread-time", clr_events="gc")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[-1] for line in lines[:4]] == ["By", "--providers", "--profile", "--clrevents"]


def test_what_was_not_asked_for_is_said_as_dotnet_trace_says_it() -> None:
    assert told().notes == (
        "No profile or providers specified, defaulting to trace profiles 'dotnet-common' + 'dotnet-sampled-thread-time'.",
    )
    assert told(presets="gc-verbose", clr_events="gc").notes == (
        "The CLR provider was already specified through --providers or --profile. Ignoring --clrevents.",
    )
    assert told(clr_events="gc").notes == ()
