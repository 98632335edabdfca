"""Where the token comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotnetdiag.errors import UsageError
from dotnetdiag.recipes.security import security_of, token_of


def test_the_token_comes_from_a_file_or_with_certificates_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOTNETDIAG_TOKEN", "that of the environment")
    (tmp_path / "token").write_text("that of the file\n")
    assert security_of().token == ""
    assert security_of(token_file=str(tmp_path / "token")).token == "that of the file"
    assert security_of(certificate="c", ca="a").token == "that of the environment"
    with pytest.raises(UsageError, match="no token can be read"):
        security_of(token_file=str(tmp_path / "absent"))


def test_a_token_comes_from_a_file_or_a_variable_that_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "that of the environment\n")
    monkeypatch.setenv("SHORT", "x")
    (tmp_path / "token").write_text("that of the file\n")
    assert token_of() == ""
    assert token_of(file=str(tmp_path / "token")) == "that of the file"
    assert token_of(variable="MINE") == "that of the environment"
    with pytest.raises(UsageError, match="NOBODYS: there is no such variable"):
        token_of(variable="NOBODYS")
    with pytest.raises(UsageError, match="16 to 1024 characters"):
        token_of(variable="SHORT")
