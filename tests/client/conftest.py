"""The stage on which both shells are tested."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.client.shells import SHELLS, Stage

from dotnetdiag.client import limits, progress, session, session_aio


@pytest.fixture(params=list(SHELLS))
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """One of the two shells. The test fails when something is left at its end."""
    with tempfile.TemporaryDirectory() as folder:  # shorter than tmp_path: it is for sockets
        stage = Stage(request.param, Path(folder))
        try:
            yield stage
            stage.check()
        finally:
            stage.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graces that a test can wait for."""
    monkeypatch.setattr(progress, "GRACE_S", 0.2)
    monkeypatch.setattr(session, "STOPPER_EXIT_S", 0.1)
    monkeypatch.setattr(session_aio, "STOPPER_EXIT_S", 0.1)
    monkeypatch.setattr(limits, "SILENCE_S", 0.1)
