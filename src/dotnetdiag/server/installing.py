"""This process, as tools for .NET see it: two lines in a program, or ``python -m dotnetdiag.server script.py``."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping
from contextlib import ExitStack, suppress

from dotnetdiag.errors import TimedOut
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.dump import GenerateCoreDump3
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.ipc.tracing import CollectTracing6
from dotnetdiag.server.commands import Caller, Handler, Refused, Reply, Streaming
from dotnetdiag.server.dump_names import dump_path
from dotnetdiag.server.process import ProcessCommands
from dotnetdiag.server.registry import REGISTRY, Registry
from dotnetdiag.server.runtime_providers import offer_runtime_providers
from dotnetdiag.server.server import DiagnosticServer
from dotnetdiag.server.thread_dump import write_thread_dump
from dotnetdiag.transport.security import NO_SECURITY, Security

NOTICE_S = 5.0
"""A program that waits for so long says so, as runtimes do (ipc-protocol.md §11)."""

_lock = threading.Lock()
_installed: tuple[int, DiagnosticServer] | None = None
"""The process that it serves, and the server: a forked child has none."""


def _in_child() -> None:
    """Another thread may have held it when the process forked."""
    global _lock
    _lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


class PythonCommands(ProcessCommands):
    """Who this process is, its environment, sessions of the ``registry``'s providers, and dumps: the Python stacks of all threads, as text.

    Without a ``registry`` it is that of the process, which has the sources of the program and what poses as .NET's providers (samples, the runtime's
    events, counters, meters, logs, rundown); one of your own has what you add, also by :func:`add_runtime_providers`.
    A core, or anything else, is a subclass with another :meth:`dump`, which answers all three commands that ask for one.
    """

    def __init__(
        self,
        overrides: Mapping[Command, Handler] | None = None,
        *,
        registry: Registry = REGISTRY,
        nettrace_version: int = 4,
    ) -> None:
        super().__init__(overrides)
        self._registry, self._nettrace_version = registry, nettrace_version
        if registry is REGISTRY:
            offer_runtime_providers()

    def collect(self, request: CollectTracing6, caller: Caller) -> Streaming:  # noqa: ARG002
        """A session, which begins at once: nettrace, or NetPerf where that is asked for."""
        # the program's own import of numpy, and what it says to it before, come first
        from dotnetdiag.server.event_session import EventSession

        session = EventSession(request, registry=self._registry, nettrace_version=self._nettrace_version)
        return Streaming(source=session.start())

    def dump(self, request: GenerateCoreDump3, caller: Caller) -> Reply:  # noqa: ARG002
        """Written to the path of the request (with ``%p`` and the like, see :func:`dump_path`), which must not be there yet, for its owner
        alone.
        """
        path = dump_path(request.path)
        try:
            descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except OSError as exc:
            raise Refused(HResult.FAIL, f"{path}: {exc.strerror}") from exc
        try:
            write_thread_dump(descriptor)
        except BaseException:  # a part is no dump, and would be in the way of the next
            with suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(descriptor)
        return ResultReply()


def install(
    commands: PythonCommands | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    security: Security = NO_SECURITY,
    wait: bool = True,
) -> DiagnosticServer | None:
    """Have this process answer as a .NET runtime does, until it ends or the server that is given is closed.

    It opens what ``environment`` (by default that of the process) says: ``dotnet-diagnostic-PID-START-socket`` in the temporary folder, and
    every port of ``DOTNET_DiagnosticPorts``. A port that suspends is waited for, unless ``wait`` is false; after 5 s of that a line on stderr
    says so. None where ``DOTNET_EnableDiagnostics`` is 0. A second call gives the server of the first; a forked child calls it again, for a
    server of its own.
    """
    global _installed  # it is of the process
    with ExitStack() as stack:
        with _lock:
            if _installed is not None and _installed[0] == os.getpid() and _installed[1].is_serving:
                return _installed[1]
            server = DiagnosticServer(PythonCommands() if commands is None else commands)
            if wait:
                stack.enter_context(server._waiting())
            if not server.open_environment(environment, security=security):
                server.close()
                return None
            _installed = os.getpid(), server
            server._settle()
        if wait:
            _wait(server)
        return server


def _wait(server: DiagnosticServer) -> None:
    try:
        server.wait_until_resumed(timeout_s=NOTICE_S)
    except TimedOut:
        ports = ", ".join(server.status.suspended)
        with suppress(OSError, ValueError, AttributeError):  # there is no stderr
            print(
                f"dotnetdiag: Python process {os.getpid()} waits at its start until a tool resumes it over {ports}; without "
                "DOTNET_DiagnosticPorts and DOTNET_DefaultDiagnosticPortSuspend it does not",
                file=sys.stderr,
                flush=True,
            )
        server.wait_until_resumed()
