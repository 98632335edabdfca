"""Which runtime a recording is of, and its threads."""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.server.recorded import recording

import dotnetdiag
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.server.registry import RUNDOWN, Registry
from dotnetdiag.server.runtime_events import PROVIDER, RuntimeEvents
from dotnetdiag.server.runtime_rundown import RuntimeRundown, interpreter

VERSION = ".".join(map(str, sys.version_info[:3]))


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.add(RuntimeEvents())
    made.add(RuntimeRundown())
    return made


def told(path: Path) -> list[Any]:
    return [one for one in dotnetdiag.open(path).events() if one.provider in (PROVIDER, RUNDOWN)]


@pytest.mark.parametrize("version", [4, 6])
def test_the_rundown_says_which_python_it_is(version: int, registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "Other", rundown_keyword=0x80020139, nettrace_version=version):
        pass
    (one,) = told(path)
    assert (one.provider, one.schema.event_id, one.Sku, one.RuntimeDllPath) == (
        RUNDOWN,
        187,
        0,
        os.path.realpath(sys.executable),
    )
    process = dotnetdiag.open(path).process
    assert (process.runtime, process.runtime_path) == (f"Python {VERSION}", interpreter())


def test_a_session_of_the_runtimes_provider_says_it_at_its_start(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, Provider(name=PROVIDER, keywords=0x1, level=4)):
        pass
    (one,) = (one for one in told(path) if not one.name.startswith("GC/"))  # there may be a collection meanwhile
    assert (one.provider, one.schema.event_id) == (PROVIDER, 187)
    assert dotnetdiag.open(path).process.runtime == f"Python {VERSION}"


@pytest.mark.parametrize("provider", [Provider(name=PROVIDER, keywords=0x1, level=3), "Other"])
def test_what_is_not_asked_for_is_not_said(provider: Provider | str, registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, provider):
        pass
    assert told(path) == []
    assert dotnetdiag.open(path).process.runtime is None


def test_threads_are_told_where_the_keyword_asks_for_them(registry: Registry, tmp_path: Path) -> None:
    path, gate = tmp_path / "x.nettrace", threading.Event()
    threads = [threading.Thread(target=gate.wait, name=name) for name in ("one", "dotnetdiag own")]
    for thread in threads:
        thread.start()
    with recording(path, registry, "Other", rundown_keyword=0x10000):
        pass
    gate.set()
    for thread in threads:
        thread.join()
    found = {one.OSThreadID: one.ManagedThreadID for one in told(path) if one.schema.event_id == 159}
    main = threading.main_thread()
    assert (found[threads[0].native_id], found[main.native_id]) == (threads[0].ident, main.ident)
    assert threads[1].native_id not in found


def test_python_that_another_program_hosts_is_known_by_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/host")
    assert os.path.basename(interpreter()) == (sysconfig.get_config_var("LDLIBRARY") or "python")
    monkeypatch.setattr(sys, "executable", "")
    assert interpreter()
