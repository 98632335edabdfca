"""What is said beside an error: only of options and verbs that there are, and only where the error is met."""

from __future__ import annotations

import re

import click
import pytest
from tests.cli.test_commands import LEAVES

from dotnetdiag import errors
from dotnetdiag.cli.advice import TABLE, advice_for
from dotnetdiag.cli.exits import report

OPTIONS = {
    name
    for command in LEAVES.values()
    for parameter in command.params
    if isinstance(parameter, click.Option)
    for name in parameter.opts
}


@pytest.mark.parametrize("sentence", [row[2] for row in TABLE])
def test_advice_names_verbs_and_options_that_there_are(sentence: str) -> None:
    verbs = re.findall(r"`dotnetdiag ([^`]*)`", sentence)
    options = re.findall(r"(?<![-\w])--?[a-z][a-z-]*", sentence)
    assert verbs or options
    assert set(options) <= OPTIONS
    assert set(verbs) <= set(LEAVES)


@pytest.mark.parametrize(("kind", "attributes"), [row[:2] for row in TABLE])
def test_every_row_asks_for_attributes_that_the_error_has(
    kind: type[errors.DiagnosticsError], attributes: dict[str, object]
) -> None:
    assert attributes or not kind.__subclasses__()
    names = kind.__init__.__code__.co_varnames
    assert set(attributes) <= set(names)


def test_an_error_without_a_row_gets_no_advice() -> None:
    assert advice_for(errors.UsageError("a problem")) == ""
    assert advice_for(errors.ServerError("AttachProfiler", 0x80004005)) == ""
    assert advice_for(OSError(2, "no such file")) == ""


def test_advice_ends_the_line_of_the_error(capsys: pytest.CaptureFixture[str]) -> None:
    error = errors.ProcessNotFound("there is no process 7", pid=7, code="no-such-process")
    assert report(str(error), error) == 3
    assert capsys.readouterr().err == "error: there is no process 7; `dotnetdiag ps` lists what can be reached\n"
