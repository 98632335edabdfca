"""Which runtime is meant: a pid, a name, one that is waited for, a diagnostic port, or a client that somebody has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, TimedOut, UsageError
from dotnetdiag.recipes.startup import Startup

__all__ = ["Client", "Target", "connected"]

LOOK_S = 0.2
"""How often somebody who waits for a runtime looks whether it is still wanted."""
NAME_S = 1.0
"""For whom a recording is called after: looking through folders of sockets takes some tenths of a second on a busy machine."""
PARTING_S = 2.0
"""For a runtime that is let run because something failed: it may be what does not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Exactly one of the six. ``port`` is ``ADDRESS[,connect|listen]``, ``listen`` when nothing is said (as dotnet-trace has it); ``wait_for``
    the name of a process that may not be there yet; ``router`` one of ``recipes.device.PRESETS``. ``startup``: what the runtime is given
    while it waits at its start.
    """

    pid: int | None = None
    name: str | None = None
    wait_for: str | None = None
    port: str | None = None
    router: str | None = None
    client: Client | None = None
    startup: Startup = field(default_factory=Startup)

    def __post_init__(self) -> None:
        several = (self.pid, self.name, self.wait_for, self.port, self.router, self.client)
        given = sum(value is not None for value in several)
        if given > 1:
            raise UsageError("a runtime is named by a pid, a name or a port: by one of them")
        if given == 0:
            raise UsageError("no runtime is named: give a pid, a name, or a port")
        if self.pid is not None and self.pid <= 0:
            raise UsageError(f"{self.pid} is not a valid process ID")

    @property
    def listens(self) -> bool:
        """Whether runtimes come to us."""
        return self.port is not None and self.port.rpartition(",")[2].strip().lower() != "connect"

    @property
    def address(self) -> str:
        """Of the port, without what is said of it."""
        return (self.port or "").partition(",")[0]

    @property
    def watched_address(self) -> str:
        """Of the port that listens, as another process takes it."""
        from dotnetdiag.transport.addresses import UnixAddress, parse_address

        address = parse_address(self.address)
        return os.path.abspath(address.path) if isinstance(address, UnixAddress) else str(address)

    def label(self) -> str:
        """A word for file names: of the program for a pid, of the address's file for a port."""
        from dotnetdiag.transport import processes as system

        if self.port is not None:
            return os.path.basename(self.address.replace(":", "_")) or "trace"
        if (name := self.name or self.wait_for or self.router) is not None:
            return os.path.basename(name)
        pid = self.pid
        if self.client is not None:
            with suppress(DiagnosticsError):  # nobody has come to its port yet
                pid = self.client.target_pid(timeout_s=NAME_S)
        if pid is None:
            return "trace"
        words = [os.path.basename(word) for word in system.argv(pid) or ()]
        if not words or not words[0]:
            return system.comm(pid) or str(pid)
        if words[0] in ("dotnet", "dotnet.exe"):
            dll = next((word for word in words[1:] if word.endswith(".dll")), None)
            return dll.removesuffix(".dll") if dll else words[0]
        return words[0]


@contextmanager
def connected(
    target: Target,
    *,
    waiting: Callable[[str], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
    resumes: bool = True,
) -> Iterator[Client]:
    """A client of the target; the caller's own stays open.

    For a port that listens, ``waiting`` is told its address, then a runtime is waited for, however long; so for a process that is waited
    for, and ``waiting`` is told its name. ``check`` is called several times a second, and may raise to end that. When what is done with
    the client fails, a runtime that has
    dialled our port is let run (``resumes``): nobody else would.
    """
    if target.client is not None:
        target.startup.prepare(target.client)
        yield target.client
        return
    if target.port is not None:
        with (
            _watch(target, resumes),
            Client.connect(target.port if "," in target.port else target.port + ",listen") as client,
        ):
            if target.listens:
                waiting(target.address)
                while not _has_connected(client):
                    check()
            with _let_run_on_failure(client, wanted=target.listens and resumes):
                target.startup.prepare(client)
                yield client
        return
    if target.router is not None:
        from dotnetdiag.recipes.device import routed

        with routed(target.router, waiting=waiting, check=check) as client, _let_run_on_failure(client, wanted=resumes):
            target.startup.prepare(client)
            yield client
        return
    client = Client(_pid_of(target, waiting, check))
    target.startup.prepare(client)
    yield client


@contextmanager
def _let_run_on_failure(client: Client, *, wanted: bool) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if wanted:
            client.timeout_s = min(client.timeout_s, PARTING_S)
            with suppress(DiagnosticsError):
                client.resume()
        raise


def _watch(target: Target, resumes: bool) -> AbstractContextManager[object]:
    """Those who wait at a port are let run should we be killed, where they would be otherwise."""
    if not (target.listens and resumes):
        return nullcontext()
    from dotnetdiag.recipes.watchdog import watched_over

    return watched_over(target.watched_address)


def _pid_of(target: Target, waiting: Callable[[str], None], check: Callable[[], None]) -> int:
    if target.pid is not None:
        return target.pid
    if target.wait_for is not None:
        from dotnetdiag.recipes.appearing import wait_for_process

        return wait_for_process(target.wait_for, waiting=waiting, check=check)
    from dotnetdiag.recipes.processes import find_pid

    assert target.name is not None
    return find_pid(target.name)


def _has_connected(client: Client) -> bool:
    try:
        client.target_pid(timeout_s=LOOK_S)
    except TimedOut:
        return False
    return True
