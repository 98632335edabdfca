"""What can be followed, and what is said where nobody has come."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.test_commands import run

import dotnetdiag as dd
from dotnetdiag.errors import ProcessNotFound, UsageError
from dotnetdiag.recipes.collect_options import CollectOptions
from dotnetdiag.recipes.follow import follow
from dotnetdiag.recipes.startup import Startup
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import Target

TRACE = ("trace", "collect", "--clrevents", "gc")


@pytest.mark.parametrize(("program", "code"), [("exit 0", 3), ("exit 7", 7), ("kill -9 $$", 137)])
def test_a_command_that_ends_before_anybody_has_come_is_told_in_the_same_words_as_without_follow(
    program: str, code: int, tmp_path: Path
) -> None:
    alone = run(*TRACE, "-o", str(tmp_path / "x"), "--", "sh", "-c", program)
    followed = run(*TRACE, "--follow", "-o", str(tmp_path), "--json", "--", "sh", "-c", program)
    assert (alone.returncode, followed.returncode) == (code, code)
    said = alone.stderr.removeprefix("error: ").rstrip()
    assert ".NET Core 3.1" in said
    assert alone.stderr in followed.stderr
    assert "No .NET process has come" not in followed.stderr
    told = json.loads(followed.stdout)
    assert (told["recordings"], told["child_exit_code"], told["notes"]) == ([], code if code != 3 else 0, [said])


def test_a_switch_in_the_environment_is_named_where_nobody_has_come(tmp_path: Path) -> None:
    with pytest.raises(ProcessNotFound, match="DOTNET_EnableDiagnostics=0 in its environment"):
        dd.follow("true", tmp_path, startup=Startup(variables=(("DOTNET_EnableDiagnostics", "0"),)))


def test_a_command_that_is_ended_by_us_before_anybody_has_come_is_no_mistake(tmp_path: Path) -> None:
    stop = Stop()
    stop.stop()
    assert dd.follow(["sleep", "1000"], tmp_path, stop=stop).recordings == ()


def test_a_port_where_nobody_has_come_is_no_mistake(tmp_path: Path) -> None:
    port = str(tmp_path / "p")
    done = run(*TRACE, "--follow", "-o", str(tmp_path / "t"), "--duration", "50ms", "--diagnostic-port", port)
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, "No .NET process has come: nothing was recorded.")


def test_what_cannot_be_followed_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a process that runs already"):
        follow(CollectOptions(target=Target(pid=1), output=tmp_path / "k", clr_events="gc"))
    assert list(tmp_path.iterdir()) == []
