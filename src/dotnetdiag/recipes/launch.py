"""Start a program and hold its runtime at startup until a session runs."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.client import Client
from dotnetdiag.errors import (
    DiagnosticsError,
    ProcessNotFound,
    RuntimeTooOld,
    ServerError,
    TimedOut,
    UnsupportedCommand,
    UsageError,
)
from dotnetdiag.recipes.inherited_port import heirs, leave
from dotnetdiag.recipes.startup import Startup
from dotnetdiag.recipes.suspension import OLD_NAMES, OWN_SOCKET_VARIABLE, PORTS_VARIABLE
from dotnetdiag.recipes.target import LOOK_S
from dotnetdiag.recipes.watchdog import watched_over
from dotnetdiag.transport import processes
from dotnetdiag.transport.addresses import UnixAddress
from dotnetdiag.transport.dialable import undialable

# The reference tool gives a child 10 s; a cold container may need more.
CONNECT_TIMEOUT_S = 30.0
EXIT_S = 5.0
"""What a program has to end, after what was done with it has ended."""
TOO_OLD_S = 1.0
"""A runtime that knows ports has dialled by then, when it answers at its own socket."""
ASK_TIMEOUT_S = 2.0


SWITCHES = (
    "DOTNET_EnableDiagnostics",
    "COMPlus_EnableDiagnostics",
    "DOTNET_EnableDiagnostics_IPC",
    "COMPlus_EnableDiagnostics_IPC",
)


class Output(Enum):
    """Where what a started program prints goes."""

    NOWHERE = "nowhere"
    OURS = "ours"
    STDERR = "stderr"
    """All of it to our standard error: standard output is for results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A program to start: the words of its ``command``, what its runtime is given first, and what becomes of its ``output``; one that has
    any has our input too. ``stop_on_exit``: what is done with it ends with the command, also where it has left others behind.
    """

    command: tuple[str, ...]
    startup: Startup = field(default_factory=Startup)
    output: Output = Output.NOWHERE
    stop_on_exit: bool = False
    owns_terminal: bool = False
    """Whether it is in our process group, as a shell's command is: it reads the terminal, and gets the signals of its keys."""

    @property
    def label(self) -> str:
        """A word for file names."""
        return os.path.basename(self.command[0])


@dataclass(slots=True, kw_only=True)
class Child:
    """A program that was started with a port of ours."""

    launch: Launch
    process: subprocess.Popen[bytes]
    address: str
    heirs: tuple[int, ...] = ()
    """Once the block was left: what it had started that runs still, for which the port is kept."""

    @property
    def pid(self) -> int:
        """Of the child."""
        return self.process.pid

    def on_exit(self, do: Callable[[], None]) -> None:
        """Call ``do`` in a thread of its own once the program has ended."""

        def wait() -> None:
            self.process.wait()
            do()

        threading.Thread(target=wait, name="dotnetdiag child", daemon=True).start()

    def send_signal(self, number: int) -> bool:
        """Pass on a signal that was meant for it too, and for what it has started: they are a process group of their own. False: it is another
        user's now (``sudo``).
        """
        return _signal_group(self.process, number)

    def wait(self, timeout_s: float = 5.0) -> int | None:
        """Its exit code; None when it still runs, as after a recording that was stopped."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None


@dataclass(slots=True, kw_only=True)
class Launched(Child):
    """A child whose runtime waits to be resumed."""

    client: Client


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    """How a program ended: its exit code, None when we ended it, and what is to be said of that."""

    code: int | None
    notes: tuple[str, ...] = ()


@contextmanager
def started(launch: Launch, address: str) -> Iterator[Child]:
    """Run a program that finds a port at ``address``, where somebody listens by now, in a process group of its own: Ctrl-C must not end it
    before its session has ended. What still runs of the group when the block is left is ended, unless the program has ended by itself and
    all went well; :func:`leave` is left to the caller, who closes the port first. Raises UsageError when it cannot be started.
    """
    yield from _running(launch, address)


@contextmanager
def started_alone(launch: Launch) -> Iterator[Child]:
    """The same for a program whose runtime is not needed: it finds no port of ours."""
    yield from _running(launch, None)


def _running(launch: Launch, address: str | None) -> Iterator[Child]:
    program = shutil.which(launch.command[0])
    if program is None:
        raise UsageError(f"{launch.command[0]} is no program that can be started")
    shows = launch.output is not Output.NOWHERE
    quiet = None if shows else subprocess.DEVNULL
    # a process of a background group that reads the terminal is stopped: it gets what we read there
    pumped = shows and not launch.owns_terminal and sys.stdin is not None and sys.stdin.isatty()
    typed = subprocess.PIPE if pumped else quiet
    try:
        process = subprocess.Popen(
            [program, *launch.command[1:]],
            env=launch.startup.environment(os.environ if address is None else _environment(address)),
            stdin=typed,
            stdout=2 if launch.output is Output.STDERR else quiet,
            stderr=quiet,
            process_group=None if sys.platform == "win32" or launch.owns_terminal else 0,
        )
    except (OSError, ValueError) as error:
        raise UsageError(
            f"{launch.command[0]} cannot be started: {getattr(error, 'strerror', None) or error}"
        ) from error
    if pumped:
        threading.Thread(target=_pass_on_input, args=(process,), daemon=True).start()
    has_failed, owner = True, os.getpid()
    try:
        yield Child(launch=launch, process=process, address=address or "")
        has_failed = False
    finally:
        may_end_it = owner == os.getpid()  # in a forked child the program is its parent's
        if may_end_it and (process.poll() is None or has_failed):
            may_end_it = _signal_group(process, getattr(signal, "SIGKILL", signal.SIGTERM))
        if may_end_it:
            process.wait()


@contextmanager
def launched(
    launch: Launch,
    *,
    check: Callable[[], None] = lambda: None,
    on_start: Callable[[Child], None] = lambda _: None,
) -> Iterator[Launched]:
    """Run a program (:func:`started`), whose runtime waits for what is done in the block, and was given what the ``startup`` says.

    Runtimes that the program starts must not wait for our port, which may be gone by then (under dotnet-trace they wait for ever): the
    program's own runtime (.NET 6 and newer) forgets the port before it is resumed, and others that dial it are resumed at once. Nobody can
    take the variable out of a shell: for what still runs when the block was left (``inherited_port``) a process of ours keeps the port.
    None of them waits at its own socket: a variable that says so is not passed on.
    ``on_start`` gets the program at once; ``check`` is called several times a second while its runtime is waited for, and may raise to end
    that. Raises UsageError when the program cannot be started, ProcessNotFound when it ends before its runtime has connected.
    """
    folder, owner = port_folder(), os.getpid()
    address = os.path.join(folder, "port")
    pid = child = None
    try:
        with (
            watched_over(address, inherited=True) as dog,
            Client.connect(f"{address},listen") as client,
            started(launch, address) as begun,
        ):
            dog.is_of(begun.pid)
            pid = begun.pid
            on_start(begun)
            _wait_for_runtime(client, begun, check)
            with suppress(ServerError):  # empty is no port; .NET 5 cannot be told
                client.set_environment_variable(PORTS_VARIABLE, os.environ.get(PORTS_VARIABLE, ""))
            launch.startup.prepare(client, has_variables=True)
            child = Launched(launch=launch, process=begun.process, client=client, address=address)
            yield child
    finally:
        if os.getpid() != owner:
            pass  # a forked child has left the block; its parent is in it still
        elif pid is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            left = leave(address, pid)
            if child is not None:
                child.heirs = left


def end_of(
    child: Child,
    *,
    ended_by_us: bool,
    signal_for_it: Callable[[], int | None] = lambda: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> ChildEnd:
    """Wait for the program's end. One that was done with is told to end too (SIGTERM, or the signal that came), and has a moment for it;
    another one runs as long as it wants, and gets the signals that come. No code: it was ended by us.
    """
    ends, sent = math.inf, None
    while (code := child.wait(LOOK_S)) is None and not is_cancelled() and time.monotonic() < ends:
        came = signal_for_it()
        if sent is None and (came is not None or ended_by_us):
            sent, ends = came or signal.SIGTERM, time.monotonic() + EXIT_S
            if not child.send_signal(sent):
                return ChildEnd(
                    code=None, notes=("The program is another user's by now, and runs on: it may not be ended.",)
                )
    if code is None:
        return ChildEnd(code=None, notes=("The program still ran, and was killed.",))
    if sent is None or signal_for_it() is not None:
        return ChildEnd(code=code)
    return ChildEnd(code=None, notes=("The program still ran, and was told to end (SIGTERM).",))


def told_of_heirs(left: tuple[int, ...]) -> tuple[str, ...]:
    """What is to be said of what a program has left behind."""
    if not left:
        return ()
    shown = ", ".join(f"{pid} ({processes.comm(pid) or '?'})" for pid in left[:3])
    more = f" and {len(left) - 3} more" if len(left) > 3 else ""
    return (
        f"What the program has started runs still, as {shown}{more}: a process stays that resumes .NET programs which they start, "
        "and ends with them.",
    )


def _environment(address: str) -> dict[str, str]:
    """Ours, with the port."""
    replaced = {PORTS_VARIABLE, OWN_SOCKET_VARIABLE, *OLD_NAMES.values()}
    kept = {name: value for name, value in os.environ.items() if name not in replaced}
    return kept | {PORTS_VARIABLE: f"{address},connect,suspend"}


def port_folder() -> str:
    """A folder of ours with a name that a runtime can dial a port in."""
    folder = tempfile.mkdtemp(prefix="dotnetdiag-")
    if not undialable(UnixAddress(f"{folder}/port")):
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


def _signal_group(process: subprocess.Popen[bytes], number: int) -> bool:
    """Whether we may: a program may have become another user's. It may have left its group, too."""
    if sys.platform == "win32":
        process.send_signal(number)
        return True
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)  # there is none where it is in ours
    try:
        if process.poll() is None and os.getpgid(process.pid) != process.pid:
            process.send_signal(number)
        elif process.poll() is None:
            os.kill(process.pid, 0)
    except ProcessLookupError:
        pass
    except PermissionError:
        return False
    return True


def _wait_for_runtime(client: Client, child: Child, check: Callable[[], None]) -> None:
    launch, process, address = child.launch, child.process, child.address
    left, patience_s = CONNECT_TIMEOUT_S, TOO_OLD_S
    while left > 0:
        check()
        try:
            client.target_pid(timeout_s=LOOK_S)
        except TimedOut:
            left -= LOOK_S
            if left <= CONNECT_TIMEOUT_S - patience_s:
                for pid in heirs(address, process.pid):
                    check()
                    _refuse_too_old(pid, launch, timeout_s=min(patience_s / 2, ASK_TIMEOUT_S))
                patience_s *= 2  # asked once it may be too busy to answer, or not be there yet
            if process.poll() is not None and not heirs(address, process.pid):
                raise nobody_came(child) from None
        else:
            return
    raise ProcessNotFound(
        f"no .NET runtime of the program connected within {CONNECT_TIMEOUT_S:g} s; is it a .NET program "
        f"(.NET 5 or newer), and DOTNET_EnableDiagnostics not 0?{_switched_off(launch)}",
        pid=process.pid,
    )


def nobody_came(child: Child) -> ProcessNotFound:
    """Of a program that has ended, and of which no runtime had connected."""
    code, name = shell_code(child.process.returncode)
    return ProcessNotFound(
        f"the program ended with code {code}{f' ({name})' if name else ''} before a .NET runtime of it had connected; "
        f"that of .NET Core 3.1 never does: {_instead(child.launch)}{_switched_off(child.launch)}",
        pid=child.pid,
        ended_with=code,
    )


def _instead(launch: Launch) -> str:
    """What works with .NET Core 3.x."""
    if launch.startup.hooks:
        return "give it the hook in the variable DOTNET_STARTUP_HOOKS"
    if launch.startup.profilers:
        return (
            "give it the profiler in the variables CORECLR_ENABLE_PROFILING, CORECLR_PROFILER and CORECLR_PROFILER_PATH"
        )
    return "start it alone, and record it by its process id"


def _switched_off(launch: Launch) -> str:
    """What is to be said of variables with which a runtime has no diagnostics."""
    environment = launch.startup.environment(os.environ)
    found = [f"{name}=0" for name in SWITCHES if environment.get(name) == "0"]
    return f"; {found[0]} in its environment switches diagnostics off" if found else ""


def _refuse_too_old(pid: int, launch: Launch, *, timeout_s: float) -> None:
    """Raise RuntimeTooOld where a process has a runtime that answers, and knows no ports."""
    try:
        Client(pid, timeout_s=timeout_s).process_info()
    except UnsupportedCommand as error:
        raise RuntimeTooOld(
            "ResumeRuntime",
            "to be held at its start, and recorded from its first instruction,",
            needs=".NET 5",
            has=f".NET Core 3.x: {_instead(launch)}",
        ) from error
    except DiagnosticsError:
        pass
