"""Which runtime is meant, and what is none."""

from __future__ import annotations

import os
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from dotnetdiag.client import Client
from dotnetdiag.errors import UsageError
from dotnetdiag.recipes import processes
from dotnetdiag.recipes.target import Target, connected
from dotnetdiag.transport import processes as system


@pytest.mark.parametrize("pid", [0, -1, -(1 << 40)])
def test_what_no_process_has_is_no_pid(pid: int) -> None:
    """0 would mean the process group of whoever sends a signal, and -1 everybody."""
    with pytest.raises(UsageError, match=f"^{pid} is not a valid process ID$"):
        Target(pid=pid)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "no runtime is named"),
        ({"pid": 1, "name": "x"}, "by one of them"),
        ({"pid": 1, "client": Client(1)}, "by one of them"),
        ({"pid": 0, "port": "x"}, "by one of them"),
        ({"pid": 1, "name": "x", "port": "y"}, "by one of them"),
    ],
)
def test_one_of_four_is_given(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Target(**given)


@pytest.mark.parametrize(
    ("port", "listens", "address", "label"),
    [
        ("/tmp/a", True, "/tmp/a", "a"),
        ("/tmp/a,listen", True, "/tmp/a", "a"),
        ("/tmp/a, Connect ", False, "/tmp/a", "a"),
        ("127.0.0.1:9000,connect", False, "127.0.0.1:9000", "127.0.0.1_9000"),
        (",connect", False, "", "trace"),
    ],
)
def test_a_port_listens_unless_it_is_said_to_connect(port: str, listens: bool, address: str, label: str) -> None:
    target = Target(port=port)
    assert (target.listens, target.address, target.label()) == (listens, address, label)


def test_a_process_is_met_by_its_pid_and_is_looked_for_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "find_pid", {"web": 78}.__getitem__)
    for target, pid in ((Target(pid=77), 77), (Target(name="web"), 78)):
        with connected(target) as client:
            assert client.target_pid() == pid
    with connected(Target(client=client)) as same:
        assert same is client


def test_a_file_of_a_program_is_called_as_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: dict[int, tuple[str, ...]] = {
        1: ("/usr/bin/dotnet", "--roll-forward", "Major", "/app/My.Web.dll", "--urls", "x.dll"),
        2: ("/usr/bin/dotnet", "run"),
        3: ("/app/native", "a.dll"),
        4: ("",),
        5: (),
    }
    monkeypatch.setattr(system, "argv", lines.get)
    monkeypatch.setattr(system, "comm", {4: "title"}.get)
    assert [Target(pid=pid).label() for pid in (1, 2, 3, 4, 5, 6)] == ["My.Web", "dotnet", "native", "title", "5", "6"]
    assert [Target(name=name).label() for name in ("web", "/x/web")] == ["web", "web"]


def test_a_file_of_a_client_s_recording_is_called_as_the_program() -> None:
    pid = os.getpid()
    assert Target(client=Client(pid)).label() == Target(pid=pid).label()
    with TemporaryDirectory() as folder, Client.connect(f"{folder}/port,listen") as client:  # nobody has come
        assert Target(client=client).label() == "trace"
