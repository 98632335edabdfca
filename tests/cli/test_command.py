"""Words as the dotnet-* tools take them, and what of them is refused."""

from __future__ import annotations

from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.cli.test_commands import LEAVES

from dotnetdiag.cli.command import Command
from dotnetdiag.cli.commands import commands
from dotnetdiag.errors import GrammarError


def parsed(*words: str) -> dict[str, Any]:
    """What the verb gets."""
    command: click.Command = commands
    context, rest = click.Context(commands, info_name="dotnetdiag", **commands.context_settings), list(words)
    while isinstance(command, click.Group):
        found = command.get_command(context, rest.pop(0))
        assert found is not None
        command, context = found, click.Context(found, parent=context)
    command.parse_args(context, rest)
    return context.params


@pytest.mark.parametrize("name", LEAVES)
def test_every_verb_takes_words_so(name: str) -> None:
    assert isinstance(LEAVES[name], Command)


@pytest.mark.parametrize(
    "words", ["-p 12", "-p12", "-p:12", "-p=12", "--process-id 12", "--process-id:12", "--process-id=12", "12"]
)
def test_a_pid_is_written_in_many_ways(words: str) -> None:
    verbs = [name for name, leaf in LEAVES.items() if "pid" in {one.name for one in leaf.params}]
    more = {"setenv": "A=B", "profiler attach": f"{CLSID} /x", "profiler startup": f"{CLSID} /x", "startup-hook": "/x"}
    more |= {"trace user-events": "--providers A --tracepoint a", "gcdump paths": "Type"}
    assert len(verbs) > 12
    for verb in verbs:
        made = parsed(*verb.split(), *words.split(), *more.get(verb, "").split())
        assert made["pid"] == 12, verb
        assert not made.get("command")


CLSID = "5F1A6C2E-3B7D-4A8E-9C10-D0E5A1B2C3D4"


def test_a_guid_of_digits_is_no_pid() -> None:
    digits = "12345678" * 4
    assert parsed("profiler", "attach", "-n", "app", digits, "/x")["clsid"].hex == digits
    assert parsed("profiler", "startup", "12", digits, "/x")["clsid"].hex == digits
    assert parsed("profiler", "attach", digits, "/x")["pid"] is None


@pytest.mark.parametrize("words", ["-n app 12", "-- 12", "dotnet 12"])
def test_a_number_elsewhere_is_no_pid(words: str) -> None:
    made = parsed("trace", "collect", *words.split())
    assert made["pid"] is None
    assert made["command"][-1] == "12"


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("--duration:00:00:30", "duration", "00:00:30"),
        ("--duration=00:00:30", "duration", "00:00:30"),
        ("--providers:A:0x1:5:k=v", "providers", "A:0x1:5:k=v"),
        ("--providers=A:0x1:5:k=v", "providers", "A:0x1:5:k=v"),
        ("--dport:/tmp/a:b,connect", "port", "/tmp/a:b,connect"),
        ("--rundown", "rundown", True),
        ("--rundown --no-stacks", "rundown", True),
        ("--rundown -- command", "rundown", True),
        ("--rundown command", "rundown", True),
        ("--rundown false", "rundown", False),
        ("--rundown:False", "rundown", False),
        ("--resume-runtime:false", "resume_runtime", False),
        ("--resume-runtime", "resume_runtime", True),
        ("--show-child-io:true", "show_child_io", True),
        ("--show-child-io:false", "show_child_io", False),
        ("-- --rundown:false", "command", ("--rundown:false",)),
    ],
)
def test_values_are_joined_to_their_options_in_many_ways(words: str, name: str, value: object) -> None:
    assert parsed("trace", "collect", *words.split())[name] == value


@pytest.mark.parametrize(
    ("words", "name", "value"),
    [
        ("--providers A --providers B:0x1,C", "providers", "A,B:0x1,C"),
        ("--profile gc-verbose --profile database", "presets", "gc-verbose,database"),
        ("--clrevents gc --clrevents jit+loader", "clrevents", "gc+jit+loader"),
        ("--format speedscope --format chromium", "formats", ("speedscope", "chromium")),
        ("--json --json", "as_json", True),
        ("", "providers", None),
    ],
)
def test_lists_add_up(words: str, name: str, value: object) -> None:
    assert parsed("trace", "collect", *words.split())[name] == value


@pytest.mark.parametrize(
    ("verb", "words", "said"),
    [
        ("trace collect", "-p 1 -p 2", "'-p'"),
        ("trace collect", "-p 1 --process-id:2", "'-p' and '--process-id'"),
        ("trace collect", "-o a --duration 1s -o:a", "'-o'"),
        ("trace collect", "--rundown --rundown:false", "'--rundown'"),
        ("info", "1 -p 2", "'-p'"),
        ("trace report topN", "x -n 3 --number 4", "'-n' and '--number'"),
        ("trace report topN", "x --event-marks --no-event-marks", "'--event-marks' and '--no-event-marks'"),
        ("trace events", "x --format csv --json", "'--format' and '--json'"),
    ],
)
def test_an_option_of_one_value_is_refused_when_it_is_given_twice(verb: str, words: str, said: str) -> None:
    with pytest.raises(click.UsageError) as caught:
        parsed(*verb.split(), *words.split())
    assert caught.value.message == f"{said}: only one of them would count. Give it once."


def test_stack_report_takes_the_duration_of_dotnet_stack() -> None:
    assert "duration" not in parsed("stack", "report", "1", "--duration", "00:00:00:01")
    with pytest.raises(GrammarError):
        parsed("stack", "report", "1", "--duration", "soon")


@pytest.mark.parametrize("words", [[], ["trace"], ["info"], ["trace", "collect"]])
def test_a_question_mark_asks_for_help(words: list[str]) -> None:
    done = CliRunner().invoke(commands, [*words, "-?"], prog_name="dotnetdiag")
    assert done.exit_code == 0
    assert done.output.startswith(f"Usage: {' '.join(['dotnetdiag', *words])}")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (("gcdump", "watch", "-p", "1", "--every", "1x"), "--every"),
        (("gcdump", "collect", "-p", "1", "-t", "1x"), "--timeout"),
        (("trace", "collect", "-p", "1", "--duration", "1x"), "--duration"),
    ],
)
def test_a_duration_that_is_none_is_told_with_its_option(words: tuple[str, ...], option: str) -> None:
    found = CliRunner().invoke(commands, words)
    assert isinstance(found.exception, GrammarError)
    assert str(found.exception).startswith(f"{option}: write 30s, 5m")
