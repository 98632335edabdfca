"""What a Python process says of itself."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dotnetdiag.ipc.environment import EnvironmentBlock, ProcessEnvironment, SetEnvironmentVariable
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.process_info import ProcessInfo3, ProcessInfo3Reply
from dotnetdiag.server import process
from dotnetdiag.server.commands import Caller, Refused
from dotnetdiag.server.process import LONGEST_COMMAND_LINE, ProcessCommands, ProcessFacts, _entry_of

TELL = """
from dotnetdiag.server.process import ProcessFacts
facts = ProcessFacts.of_this_process()
print(facts.entry_assembly, facts.command_line, sep="|")
"""


def test_a_process_is_told_as_runtimes_tell_theirs() -> None:
    facts = ProcessFacts.of_this_process()
    assert facts.pid == os.getpid()
    assert facts.runtime_version.startswith(".".join(map(str, sys.version_info[:3])))
    assert facts.runtime_version.endswith("+python")
    assert facts == ProcessFacts.of_this_process()
    if sys.platform == "linux" and platform.machine() == "x86_64":
        assert (facts.os, facts.arch) == ("Linux", "x64")
        assert facts.runtime_identifier in ("linux-x64", "linux-musl-x64")


def test_the_entry_is_the_script_and_the_command_line_begins_with_the_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "my-app.py"
    script.write_text(TELL)
    command = [sys.executable, str(script), "one", "two"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said == f"my-app|{sys.executable} {script} one two\n"


def test_the_entry_is_the_module_that_is_run(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "__main__.py").write_text(TELL)
    command = [sys.executable, "-m", "parts"]
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment).stdout
    assert said.startswith("parts|")


def test_a_command_line_of_any_length_fits_the_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *["\U0001f40d" * 1000] * 100])
    reply = ProcessCommands().process_info(ProcessInfo3(), Caller())
    assert isinstance(reply, ProcessInfo3Reply)
    assert len(reply.command_line or "") == LONGEST_COMMAND_LINE
    assert len(reply.pack()) < 0xFFFF - 1000


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_has_another_cookie() -> None:
    reader, writer = os.pipe()
    ours = ProcessCommands().cookie
    child = os.fork()
    if not child:
        os.write(writer, ProcessCommands().cookie.bytes)
        os._exit(0)
    os.waitpid(child, 0)
    with os.fdopen(reader, "rb") as file:
        os.close(writer)
        assert file.read() not in (ours.bytes, b"")


def test_the_environment_is_the_one_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DD_ONE", "a=b\udcff")
    block = ProcessCommands().process_environment(ProcessEnvironment(), Caller())
    assert isinstance(block, EnvironmentBlock)
    assert EnvironmentBlock.parse(block.pack()).variables() == dict(os.environ)


def set_variable(name: str, value: str | None) -> None:
    ProcessCommands().set_environment_variable(SetEnvironmentVariable(name=name, value=value), Caller())


def test_a_variable_is_set_emptied_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DD_ONE", raising=False)
    set_variable("DD_ONE", "1")
    assert os.environ["DD_ONE"] == "1"
    set_variable("DD_ONE", "")
    assert os.environ["DD_ONE"] == ""
    set_variable("DD_ONE", None)
    assert "DD_ONE" not in os.environ
    with pytest.raises(Refused) as raised:
        set_variable("DD_ONE", None)
    assert raised.value.hresult == HResult.ENVVAR_NOT_FOUND


@pytest.mark.parametrize(("name", "value"), [("", "x"), ("a=b", "x"), ("a\0b", "x"), ("A", "x\0y"), ("A\ud800", "x")])
def test_a_variable_that_no_system_takes_is_an_invalid_argument(name: str, value: str) -> None:
    with pytest.raises(Refused) as raised:
        set_variable(name, value)
    assert raised.value.hresult == HResult.INVALID_ARGUMENT


@pytest.mark.parametrize(
    ("version", "said"),
    [
        ((3, 12, 1, "final", 0), "3.12.1+python"),
        ((3, 15, 0, "alpha", 2), "3.15.0-alpha.2+python"),
        ((3, 15, 0, "beta", 1), "3.15.0-beta.1+python"),
        ((3, 15, 0, "candidate", 3), "3.15.0-rc.3+python"),
    ],
)
def test_the_version_is_one_as_semver_has_it(
    version: tuple[Any, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Info(tuple[Any, ...]):
        releaselevel, serial = version[3], version[4]

    monkeypatch.setattr(process, "sys", SimpleNamespace(version_info=Info(version)))
    assert process._version() == said


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("python", "python"),
        ("python app/orders.py x.py", "orders"),
        ("python -X dev -W error::UserWarning -u orders.py", "orders"),
        ("python -Xdev -um shop.orders", "shop.orders"),
        ("python -m shop.__main__ x", "shop"),
        ("python -c pass orders.py", "python"),
        ("python -Ic pass", "python"),
        ("python - orders.py", "python"),
        ("python --check-hash-based-pycs always orders", "orders"),
        ("python -m", "python"),
    ],
)
def test_what_a_command_line_runs_is_known_before_it_runs(words: str, name: str) -> None:
    assert _entry_of(words.split()) == name
