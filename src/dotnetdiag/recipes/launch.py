"""Start a program and hold its runtime at startup until a session runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dotnetdiag.client import Client
from dotnetdiag.errors import ProcessNotFound, TimedOut, UsageError

# The reference tool gives a child 10 s; a cold container may need more.
CONNECT_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """A child whose runtime waits to be resumed."""

    process: subprocess.Popen[bytes]
    client: Client

    @property
    def pid(self) -> int:
        """Of the child."""
        return self.process.pid

    def send_signal(self, number: int) -> None:
        """Pass on a signal that was meant for it too; it runs in a process group of its own."""
        self.process.send_signal(number)

    def wait(self, timeout_s: float = 5.0) -> int | None:
        """Its exit code; None when it still runs, as after a recording that was stopped."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None


@contextmanager
def launched(command: Sequence[str], *, show_io: bool = False) -> Iterator[Launched]:
    """Run ``command`` with a diagnostic port of ours, in a process group of its own: Ctrl-C must not end it before its session has
    ended. It is ended when the block is left.

    Runtimes that the child starts inherit the port: those are resumed at once and otherwise left alone (dotnet-trace
    hangs there). Raises ProcessNotFound when the program cannot be started or ends before its runtime has connected.
    """
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"{command[0]} is no program that can be started")
    folder = tempfile.mkdtemp(prefix="dotnetdiag-")
    address = os.path.join(folder, "port")
    quiet = None if show_io else subprocess.DEVNULL
    try:
        with Client.connect(f"{address},listen") as client:
            environment = {**os.environ, "DOTNET_DiagnosticPorts": f"{address},connect,suspend"}
            # a process of a background group that reads the terminal is stopped: it gets what we read there
            typed = subprocess.PIPE if show_io and sys.stdin is not None and sys.stdin.isatty() else quiet
            process = subprocess.Popen(
                [program, *command[1:]],
                env=environment,
                stdin=typed,
                stdout=quiet,
                stderr=quiet,
                process_group=None if sys.platform == "win32" else 0,
            )
            if typed == subprocess.PIPE:
                threading.Thread(target=_pass_on_input, args=(process,), daemon=True).start()
            try:
                _wait_for_runtime(client, process)
                yield Launched(process=process, client=client)
            finally:
                if process.poll() is None:
                    process.kill()
                process.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _pass_on_input(process: subprocess.Popen[bytes]) -> None:
    """What is typed, line by line, until the program ends or the terminal does."""
    assert process.stdin is not None
    try:
        while process.poll() is None and (data := os.read(0, 4096)):
            process.stdin.write(data)
            process.stdin.flush()
        process.stdin.close()
    except OSError:
        pass  # it takes no more


def _wait_for_runtime(client: Client, process: subprocess.Popen[bytes]) -> None:
    left = CONNECT_TIMEOUT_S
    while left > 0:
        try:
            client.target_pid(timeout_s=0.25)
        except TimedOut:
            left -= 0.25
            if process.poll() is not None:
                raise ProcessNotFound(
                    f"the program ended with code {process.returncode} before a .NET runtime of it had connected",
                    pid=process.pid,
                ) from None
        else:
            return
    raise ProcessNotFound(
        f"no .NET runtime of the program connected within {CONNECT_TIMEOUT_S:g} s; is it a .NET program "
        "(.NET 5 or newer), and DOTNET_EnableDiagnostics not 0?",
        pid=process.pid,
    )
