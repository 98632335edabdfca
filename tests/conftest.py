"""What holds for the whole run: live tests three at a time, what CI must have seen, and the last lines.

With pytest-xdist the hooks below run in the process that prints, and the tests in others: what those saw comes over as
properties of the tests' reports, and ``docs/supported.md`` as the output of a worker.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings
from tests.docs.shell import can_be_alone
from tests.imports import SHARED as KNOWS_SHARED
from tests.imports import imported, module_of
from tests.left_out import count_left_out, describe
from tests.live import supported
from tests.live.runtimes import REQUIRED, available
from tests.nettrace.recordings import recordings
from tests.shared import IN_CI, SHARED

settings.register_profile("unhurried", deadline=None)  # how long an example takes says something of the machine
settings.load_profile("unhurried")

LIVE = ("tests/live/",)
LIVE_BESIDE = (
    "tests/cli/test_commands.py",
    "tests/test_examples.py",
    "tests/live/test_beside_dotnet_trace.py",
    "tests/live/test_conformance.py",
    "tests/live/test_enabled.py",
    "tests/live/test_fake.py",
    "tests/live/test_hooks.py",
    "tests/live/test_meters.py",
    "tests/live/test_profilers.py",
    "tests/live/test_reference_reader.py",
    "tests/live/test_router.py",
    "tests/live/test_server.py",
    "tests/live/test_server_sessions.py",
    "tests/live/test_tap.py",
)
"""Live tests that do nothing but talk to targets of their own: a second worker runs these, one after the other."""
LIVE_RECORDED = (
    "tests/live/test_advice.py",
    "tests/live/test_allocations.py",
    "tests/live/test_exceptions.py",
    "tests/live/test_gc.py",
    "tests/live/test_gcdump.py",
    "tests/live/test_heap.py",
    "tests/live/test_jit.py",
    "tests/live/test_requests.py",
    "tests/live/test_source_lines.py",
    "tests/live/test_startup.py",
    "tests/live/test_tasks.py",
    "tests/live/test_thread_pool.py",
    "tests/live/test_waits.py",
)
"""Live tests that record programs of their own and look at the recordings: a third one."""
LIVE_UNLESS_ALONE = ("tests/docs/test_walk.py",)
"""Its pages see no other .NET processes where each has a pid namespace of its own, and name theirs by a name that others may have."""
WHOLE = 1000
"""A run of fewer tests does not claim to be whole."""


@pytest.fixture(autouse=True)
def signals_of_another_test_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that asked one verb to end is of the process, as signals are: others in the same process would end at once."""
    signals = sys.modules.get("dotnetdiag.cli.signals")
    if signals is not None:
        monkeypatch.setattr(signals, "_end_wanted", None)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Live tests share targets and measure time and descriptors: each third of them runs on one worker, one after the other.

    Instead of ``--dist loadgroup``, which does nothing where pytest 9.2 meets xdist 3.8.
    """
    from tests.scheduling import InGroups

    one_by_one = LIVE if can_be_alone() else (*LIVE, *LIVE_UNLESS_ALONE)

    def group_of(nodeid: str) -> str:
        if nodeid.startswith(LIVE_BESIDE):
            return "live, beside"
        if nodeid.startswith(LIVE_RECORDED):
            return "live, recorded"
        return "live" if nodeid.startswith(one_by_one) else nodeid

    return InGroups(config, log, group_of)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--of-shared",
        action="store_true",
        help="only tests that can tell whether ../shared is there: for a second run without it",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--of-shared"):
        others = {item for item in items if KNOWS_SHARED not in imported(module_of(item.path))}
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]


def pytest_collection_finish() -> None:
    """What is there by now stays: twenty thousand tests, of which Python's collector looked at everything whenever a test asks who has descriptors
    open, and that was two seconds of each of a thousand.
    """
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for name, value in getattr(getattr(item, "callspec", None), "params", {}).items():
        if (
            name in ("target", "runtime", "suspended", "demo")
            and isinstance(value, str)
            and item.get_closest_marker("live") is not None
        ):
            item.user_properties.append(("runtime", value))


def _reporter(config: pytest.Config) -> pytest.TerminalReporter:
    found = config.pluginmanager.get_plugin("terminalreporter")
    assert isinstance(found, pytest.TerminalReporter)
    return found


def _runtimes(reporter: pytest.TerminalReporter) -> list[str]:
    """Those on which a test ran, the required ones first."""
    ran = {
        str(value)
        for kind in ("passed", "failed")
        for report in reporter.stats.get(kind, ())
        for name, value in report.user_properties
        if name == "runtime"
    }
    return sorted(ran, key=lambda name: (REQUIRED.index(name) if name in REQUIRED else len(REQUIRED), name))


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: object) -> None:
    """A worker of pytest-xdist has ended."""
    for operation, answers in getattr(node, "workeroutput", {}).get("supported", {}).items():
        supported.ANSWERS.setdefault(operation, {}).update(answers)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With CI=true and ../shared at hand, a run that claims to be whole has seen all required runtimes."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["supported"] = supported.ANSWERS
        return
    ran = set(_runtimes(_reporter(config)))
    whole = not config.getoption("-k") and not config.option.collectonly and session.testscollected > WHOLE
    if whole and IN_CI and SHARED is not None and not set(REQUIRED) <= ran:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if set(REQUIRED) <= ran:
        supported.write()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> Generator[None]:
    """Below pytest's list of skipped tests, above its last line."""
    yield
    ran = _runtimes(terminalreporter)
    missing = [name for name in REQUIRED if name not in ran]
    say = terminalreporter.write_line
    for report in terminalreporter.stats.get("rerun", ()):
        crash = getattr(report.longrepr, "reprcrash", None)
        text = crash.message if crash is not None else str(report.longrepr)
        say(f"why {report.nodeid} was asked once more: {' '.join(text.split())[:600]}")
    if supported.CHANGED:
        say("docs/supported.md was written anew: it says what the runtimes answered just now")
    say(f"recordings: {len(recordings())}, of {'tests/data' if SHARED is None else '../shared'}")
    say(f"live runtimes: {', '.join(ran) or 'none'}")
    if ran and missing and available():
        say(f"live runtimes that did not run: {', '.join(missing)}")
    reasons = [str(report.longrepr[2]) for report in terminalreporter.stats.get("skipped", ())]
    for line in describe(count_left_out(reasons), hidden=SHARED is None):
        say(line)
