"""One idle target per runtime for the whole run; the runtimes that ran are named at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.live.runtimes import NAMES, SHARED, Target, available, workload

RAN: set[str] = set()


@pytest.fixture(scope="session", params=NAMES)
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    if not available():
        if os.environ.get("CI") == "true" and SHARED.parent.exists():
            pytest.fail("the runtimes of ../shared/dotnet are missing")
        pytest.skip("no real runtimes here: ../shared/dotnet is not there")
    with workload(request.param, "idle", "seconds=3000") as started:
        RAN.add(request.param)
        yield started


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RAN:
        terminalreporter.write_line(f"live runtimes: {', '.join(name for name in NAMES if name in RAN)}")
