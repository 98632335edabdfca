"""A folder whose paths are short enough for sockets, and servers that are gone when the test is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.descriptors import open_files
from tests.server.shells import SHELLS, Served

from dotnetdiag.server.commands import Commands

Make = Callable[..., Served]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as made:
        yield Path(made)


@pytest.fixture(params=SHELLS)
def serve(request: pytest.FixtureRequest) -> Iterator[Make]:
    """``serve(commands, **options)``: a server of either shell. The test fails when a descriptor is left at its end."""
    before, made = open_files(), []

    def make(commands: Commands | None = None, **options: Any) -> Served:
        made.append(Served(request.param, commands or Commands(), **options))
        return made[-1]

    yield make
    for one in made:
        one.end()
    assert open_files() <= before
