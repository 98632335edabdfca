"""One idle target per runtime for the whole run; the runtimes that ran are named at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from tests.live import supported
from tests.live.runtimes import REQUIRED, SHARED, Target, available, names, workload

RAN: set[str] = set()


def _check_available() -> None:
    if not available() and os.environ.get("CI") == "true" and SHARED.parent.exists():
        pytest.fail("the runtimes of ../shared/dotnet are missing")


@pytest.fixture(scope="session", params=names() or ("none",))
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    """A process that idles, on each runtime found."""
    _check_available()
    if request.param == "none":
        pytest.skip("no .NET runtime was found: ../shared/dotnet, DOTNET_ROOT, PATH, PyPI")
    with workload(request.param, "idle", "seconds=3000") as started:
        RAN.add(request.param)
        yield started


@pytest.fixture(params=REQUIRED)
def runtime(request: pytest.FixtureRequest) -> str:
    """A runtime on which the workload of ../shared/dotnet can be run in any mode."""
    _check_available()
    if not available():
        pytest.skip("the workload of ../shared/dotnet is not there")
    RAN.add(request.param)
    return str(request.param)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI=true and ../shared at hand, a run that claims to be whole has seen all required runtimes."""
    whole = (
        not session.config.getoption("-k") and not session.config.option.collectonly and session.testscollected > 1000
    )
    if whole and os.environ.get("CI") == "true" and SHARED.parent.exists() and not set(REQUIRED) <= RAN:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if set(REQUIRED) <= RAN:
        supported.write()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if RAN:
        terminalreporter.write_line(
            f"live runtimes: {', '.join(sorted(RAN, key=lambda name: (name not in REQUIRED, name)))}"
        )
        missing = [name for name in REQUIRED if name not in RAN]
        if missing and available():
            terminalreporter.write_line(f"live runtimes that did not run: {', '.join(missing)}")
    if supported.CHANGED:
        terminalreporter.write_line("docs/supported.md was written anew: it says what the runtimes answered just now")
