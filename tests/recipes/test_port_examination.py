"""``doctor`` of a port."""

from __future__ import annotations

import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.client.dialling import DiallingRuntime

from dotnetdiag.errors import GrammarError
from dotnetdiag.recipes import port_examination
from dotnetdiag.recipes.port_examination import examine_port


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_examination, "DIAL_S", 0.3)


def codes(text: str) -> list[tuple[str, bool]]:
    return [(one.code, one.ok) for one in examine_port(text)]


def test_a_port_that_nobody_dials_can_be_listened_at(tmp_path: Path) -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        assert codes(f"{folder}/port") == [("can-listen", True), ("nobody-dials", True)]


def test_who_dials_is_named() -> None:
    with TemporaryDirectory(dir="/tmp") as folder, DiallingRuntime(Path(folder) / "port"):
        found = examine_port(f"{folder}/port")
        assert [one.code for one in found] == ["can-listen", "dials"]


def test_a_port_that_cannot_be_is_told(tmp_path: Path) -> None:
    assert codes(f"/tmp/{'x' * 120}") == [("undialable", False)]
    assert codes(f"{tmp_path}/none/port") == [("cannot-listen", False)]
    assert codes("0.0.0.0:0") == [("cannot-listen", False)]
    with TemporaryDirectory(dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as other:
        other.bind(f"{folder}/port")
        other.listen()
        (found,) = examine_port(f"{folder}/port")
        assert found.code == "cannot-listen"
        assert "listens there already" in found.text


def test_a_port_where_nobody_listens_cannot_be_dialled(tmp_path: Path) -> None:
    assert codes(f"{tmp_path}/port,connect") == [("no-connection", False)]


def test_a_word_behind_the_comma_that_is_none_is_refused() -> None:
    with pytest.raises(GrammarError):
        examine_port("/tmp/port,conect")
