"""One idle target per runtime for the whole run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.live.runtimes import REQUIRED, Target, names, unpack, workload


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    """A second try of a test makes anew what its module had recorded: what a busy machine did to a recording stays in it."""
    if getattr(item, "execution_count", 1) > 1:
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            for one in definitions:
                if one.scope == "module":
                    one.finish(item._request)


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
