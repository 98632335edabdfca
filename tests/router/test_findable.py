"""A router without an address is found by its pid."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.router.conftest import StartRouter

from dotnetdiag.router.findable import StandIn, default_address
from dotnetdiag.transport.processes import start_time_ticks
from dotnetdiag.transport.socket_names import parse_socket_name


@pytest.fixture
def temporary(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def test_its_socket_has_the_name_that_tools_look_for(temporary: Path, start: StartRouter) -> None:
    heard = start(runtimes="127.0.0.1:0")
    path = Path(heard.router.tools_address)
    assert path.parent == temporary
    name = parse_socket_name(path.name)
    assert name is not None
    assert (name.pid, name.dsrouter) == (os.getpid(), True)
    (link,) = (one for one in temporary.iterdir() if one.is_symlink())
    assert parse_socket_name(link.name) == (os.getpid(), start_time_ticks(os.getpid()), False)
    assert link.resolve() == path.resolve()
    heard.router.close()
    assert os.listdir(temporary) == []


def test_what_has_the_links_name_is_left_alone(temporary: Path) -> None:
    stand_in = StandIn(default_address())
    (link,) = temporary.iterdir()
    link.unlink()
    link.write_text("of somebody else")
    stand_in.remove()
    StandIn(default_address()).remove()
    assert link.read_text() == "of somebody else"
