"""One idle target per runtime for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.live.runtimes import REQUIRED, Target, names, unpack, workload


@pytest.fixture(scope="session", params=names() or ("none",))
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A process that idles, on each runtime found."""
    if request.param == "none":
        pytest.skip("no .NET runtime was found: ../shared/dotnet, DOTNET_ROOT, PATH, PyPI")
    with workload(request.param, "idle", "seconds=3000") as started:
        yield started


@pytest.fixture(params=REQUIRED)
def runtime(request: pytest.FixtureRequest) -> str:
    """A runtime on which the workload of ../shared/dotnet can be run in any mode."""
    unpack()
    return str(request.param)
