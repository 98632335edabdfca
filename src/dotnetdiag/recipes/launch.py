"""Start a program and hold its runtime at startup until a session runs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from dotnetdiag.client import Client
from dotnetdiag.errors import ProcessNotFound, ServerError, TimedOut, UsageError
from dotnetdiag.recipes.inherited_port import heirs, leave
from dotnetdiag.recipes.suspension import OLD_NAMES, OWN_SOCKET_VARIABLE, PORTS_VARIABLE
from dotnetdiag.recipes.target import LOOK_S

# The reference tool gives a child 10 s; a cold container may need more.
CONNECT_TIMEOUT_S = 30.0
LONGEST_PORT = 107
"""Bytes of ``sun_path`` without its NUL; a runtime drops a longer address, and says nothing (ipc-protocol.md §21.5)."""


@dataclass(slots=True, kw_only=True)
class Launched:
    """A child whose runtime waits to be resumed."""

    process: subprocess.Popen[bytes]
    client: Client
    address: str
    heirs: tuple[int, ...] = ()
    """Once the block was left: what it had started that runs still, for which the port is kept."""

    @property
    def pid(self) -> int:
        """Of the child."""
        return self.process.pid

    def send_signal(self, number: int) -> None:
        """Pass on a signal that was meant for it too, and for what it has started: they are a process group of their own."""
        _signal_group(self.process, number)

    def wait(self, timeout_s: float = 5.0) -> int | None:
        """Its exit code; None when it still runs, as after a recording that was stopped."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None


@contextmanager
def launched(
    command: Sequence[str], *, show_io: bool = False, check: Callable[[], None] = lambda: None
) -> Iterator[Launched]:
    """Run ``command`` with a diagnostic port of ours, in a process group of its own: Ctrl-C must not end it before its session has
    ended. What still runs of the group when the block is left is ended, unless the program has ended by itself and all went well.

    Runtimes that the program starts must not wait for our port, which may be gone by then (under dotnet-trace they wait for ever): the
    program's own runtime (.NET 6 and newer) forgets the port before it is resumed, and others that dial it are resumed at once. Nobody can
    take the variable out of a shell: for what still runs when the block was left (``inherited_port``) a process of ours keeps the port.
    None of them waits at its own socket: a variable that says so is not passed on.
    ``check`` is called several times a second while its runtime is waited for, and may raise to end that. Raises UsageError when the
    program cannot be started, ProcessNotFound when it ends before its runtime has connected.
    """
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"{command[0]} is no program that can be started")
    folder = _port_folder()
    address = os.path.join(folder, "port")
    quiet = None if show_io else subprocess.DEVNULL
    process = child = None
    try:
        with Client.connect(f"{address},listen") as client:
            # a process of a background group that reads the terminal is stopped: it gets what we read there
            typed = subprocess.PIPE if show_io and sys.stdin is not None and sys.stdin.isatty() else quiet
            try:
                process = subprocess.Popen(
                    [program, *command[1:]],
                    env=_environment(address),
                    stdin=typed,
                    stdout=quiet,
                    stderr=quiet,
                    process_group=None if sys.platform == "win32" else 0,
                )
            except (OSError, ValueError) as error:
                raise UsageError(
                    f"{command[0]} cannot be started: {getattr(error, 'strerror', None) or error}"
                ) from error
            if typed == subprocess.PIPE:
                threading.Thread(target=_pass_on_input, args=(process,), daemon=True).start()
            has_failed = True
            try:
                _wait_for_runtime(client, process, address, check)
                with suppress(ServerError):  # empty is no port; .NET 5 cannot be told
                    client.set_environment_variable(PORTS_VARIABLE, os.environ.get(PORTS_VARIABLE, ""))
                child = Launched(process=process, client=client, address=address)
                yield child
                has_failed = False
            finally:
                if process.poll() is None or has_failed:
                    _signal_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))
                process.wait()
    finally:
        if process is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            found = leave(address, process.pid)
            if child is not None:
                child.heirs = found


def _environment(address: str) -> dict[str, str]:
    """Ours, with the port."""
    replaced = {PORTS_VARIABLE, OWN_SOCKET_VARIABLE, *OLD_NAMES.values()}
    kept = {name: value for name, value in os.environ.items() if name not in replaced}
    return kept | {PORTS_VARIABLE: f"{address},connect,suspend"}


def _port_folder() -> str:
    """A folder of ours with a name that a runtime can dial a port in: 107 bytes of path, in a list that has commas and semicolons."""
    folder = tempfile.mkdtemp(prefix="dotnetdiag-")
    if len(os.fsencode(folder)) + len("/port") <= LONGEST_PORT and not {",", ";"} & set(folder):
        return folder
    os.rmdir(folder)
    return tempfile.mkdtemp(prefix="dotnetdiag-", dir="/tmp")


def shell_code(code: int | None) -> tuple[int | None, str | None]:
    """An exit code of ``subprocess`` as a shell has it, 128 and the signal, and the name of the signal that ended the program."""
    if code is None or code >= 0 or sys.platform == "win32":
        return code, None
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"  # a real-time one
    return 128 - code, name


def _pass_on_input(process: subprocess.Popen[bytes]) -> None:
    """What is typed, line by line, until the program ends or the terminal does."""
    from dotnetdiag.recipes.terminal import typed

    assert process.stdin is not None
    with suppress(OSError):  # it takes no more
        for data in typed(lambda: process.poll() is not None):
            process.stdin.write(data)
            process.stdin.flush()
        process.stdin.close()


def _signal_group(process: subprocess.Popen[bytes], number: int) -> None:
    if sys.platform == "win32":
        process.send_signal(number)
        return
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _wait_for_runtime(
    client: Client, process: subprocess.Popen[bytes], address: str, check: Callable[[], None]
) -> None:
    left = CONNECT_TIMEOUT_S
    while left > 0:
        check()
        try:
            client.target_pid(timeout_s=LOOK_S)
        except TimedOut:
            left -= LOOK_S
            if process.poll() is not None and not heirs(address, process.pid):
                code, name = shell_code(process.returncode)
                raise ProcessNotFound(
                    f"the program ended with code {code}{f' ({name})' if name else ''} before a .NET runtime of it had connected; "
                    "that of .NET Core 3.1 never does: start it alone, and record it by its process id",
                    pid=process.pid,
                ) from None
        else:
            return
    raise ProcessNotFound(
        f"no .NET runtime of the program connected within {CONNECT_TIMEOUT_S:g} s; is it a .NET program "
        "(.NET 5 or newer), and DOTNET_EnableDiagnostics not 0?",
        pid=process.pid,
    )
