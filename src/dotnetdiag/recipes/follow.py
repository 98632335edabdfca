"""Record a program and everything .NET that it starts: every process has a session and a file of its own.

All of them find one port in their environment. Each that dials it waits at its start until its session runs. One that has dialled when the
recordings are being stopped is let run, and is not recorded.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dotnetdiag._dataclasses import as_dict, dataclass, replace
from dotnetdiag.client.server import ConnectedRuntime, RuntimeServer
from dotnetdiag.durations import seconds_of
from dotnetdiag.errors import DiagnosticsError, OutputError, ProcessNotFound, TransportError, UsageError
from dotnetdiag.recipes.collect import Collected, CollectOptions, Observer, convert_recording
from dotnetdiag.recipes.inherited_port import heirs, leave
from dotnetdiag.recipes.launch import Child, end_of, nobody_came, port_folder, shell_code, started, told_of_heirs
from dotnetdiag.recipes.outcome import EXIT_WAIT_S
from dotnetdiag.recipes.outputs import is_stdout
from dotnetdiag.recipes.recording import Recording
from dotnetdiag.recipes.resumption import let_run
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import LOOK_S, PARTING_S
from dotnetdiag.recipes.watchdog import watched_over
from dotnetdiag.transport.waiting import start

if TYPE_CHECKING:
    from uuid import UUID

    from dotnetdiag.providers.composition import Composition

LOOKS = 3
"""So many looks in a row must find nobody: a process that becomes another program has no environment in that moment."""
NAME_BYTES = 120
_UNSAFE = re.compile(r"[^\w.+-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecorded:
    """A process that was not recorded, and why; it was let run."""

    pid: int
    name: str
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Followed:
    """The finished recordings, in the order in which the processes began, and what became of the program."""

    folder: Path
    recordings: tuple[Collected, ...]
    unrecorded: tuple[Unrecorded, ...] = ()
    converted: tuple[Path, ...] = ()
    child_exit_code: int | None = None
    child_signal: str | None = None
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "folder": str(self.folder),
            "recordings": [one.to_json() for one in self.recordings],
            "unrecorded": [as_dict(one) for one in self.unrecorded],
            "converted": [str(path) for path in self.converted],
            "child_exit_code": self.child_exit_code,
            "child_signal": self.child_signal,
            "notes": list(self.notes),
        }


@dataclass(slots=True, kw_only=True)
class FollowObserver:
    """What a face wants to be told, each in a thread of its own. ``listening`` gets the address that runtimes may dial; ``began`` the pid
    and the file of each recording, ``ended`` its pid and what came of it, ``failed`` who could not be recorded; ``left`` is called once the
    program has ended and others that it has started run still, with their number; ``stopping`` when the end has begun.
    """

    listening: Callable[[str], None] = lambda _: None
    composed: Callable[[Composition], None] = lambda _: None
    began: Callable[[int, Path], None] = lambda *_: None
    ended: Callable[[int, Collected], None] = lambda *_: None
    failed: Callable[[Unrecorded], None] = lambda _: None
    left: Callable[[int], None] = lambda _: None
    stopping: Callable[[], None] = lambda: None
    child_signal: int | None = None
    """To be passed on to the program; set when it comes."""


def follow(options: CollectOptions, observer: FollowObserver | None = None, stop: Stop | None = None) -> Followed:
    """Record every .NET process that finds our port, into the folder ``options.output`` (made where it is not there): files are named by
    entry assembly and pid. A program is followed until nothing that it has started runs any more, or with ``stop_on_exit`` until it ends
    itself; a port until ``options.duration`` is over or ``stop`` says so. What runs still goes on unrecorded.

    Raises UsageError for what cannot be followed, OutputError, Cancelled after ``stop.cancel()``: files have what had come. ProcessNotFound
    when a program has ended by itself, and no runtime had connected.
    """
    observer, stop = observer or FollowObserver(), stop or Stop()
    composed = options.composed()
    duration_s = seconds_of(options.duration)
    launch, target = options.launch, options.target
    if launch is None and (target is None or not target.listens):
        raise UsageError(
            "a command, or a port where runtimes come to us, can be followed; not a process that runs already"
        )
    folder = _folder(options)
    run = _Run(replace(options, duration=None), composed, folder, observer, stop)
    if launch is None:
        assert target is not None
        with watched_over(target.watched_address), RuntimeServer(target.address) as server:
            observer.listening(server.address)
            observer.composed(composed)
            with run.recording(server):
                run.wait(duration_s, lambda: False)
        return run.result()
    place = port_folder()
    address, child = os.path.join(place, "port"), None
    try:
        with watched_over(address, inherited=True) as dog, RuntimeServer(address) as server:
            observer.composed(composed)
            with started(launch, address) as child, run.recording(server):
                dog.is_of(child.pid)
                run.wait(duration_s, _is_over(child, observer))
                run.end()
                end = end_of(
                    child,
                    ended_by_us=stop.is_stopping,
                    signal_for_it=lambda: observer.child_signal,
                    is_cancelled=lambda: stop.is_cancelled,
                )
    finally:
        left = leave(address, child.pid) if child is not None else ()
        if child is None:
            shutil.rmtree(place, ignore_errors=True)
    if not (run.has_met_anybody or stop.is_stopping):
        raise nobody_came(child)
    code, name = shell_code(end.code)
    notes = (*end.notes, *told_of_heirs(left))
    return replace(run.result(), child_exit_code=code, child_signal=name, notes=notes)


def _folder(options: CollectOptions) -> Path:
    folder = options.output or Path()
    if options.keeping.in_several_files:
        raise UsageError("processes that are followed have one file each: rotate, or keep a ring of, one process")
    if is_stdout(folder):
        raise UsageError("processes that are followed have a file each: name a folder for them")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(str(folder), f"it cannot be made a folder: {error.strerror}") from error
    return folder


def _is_over(child: Child, observer: FollowObserver) -> Callable[[], bool]:
    """To be asked again and again: whether the program has ended, and everybody who could dial its port, as far as they are waited for."""
    unseen, told = 0, False

    def look() -> bool:
        nonlocal unseen, told
        if child.process.poll() is None:
            return False
        if child.launch.stop_on_exit:
            return True
        left = heirs(child.address, child.pid)
        unseen = 0 if left else unseen + 1
        if left and not told:
            told = True
            observer.left(len(left))
        return unseen >= LOOKS

    return look


class _Run:
    """The recordings of one call, each in a thread of its own."""

    def __init__(
        self, options: CollectOptions, composed: Composition, folder: Path, observer: FollowObserver, stop: Stop
    ) -> None:
        self._options, self._composed, self._folder = options, composed, folder
        self._observer, self._stop = observer, stop
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._known: set[UUID] = set()
        self._results: dict[int, Collected | Unrecorded] = {}
        self._converted: list[Path] = []
        self._is_told = False
        self._count = -1
        self._began: set[threading.Thread] = set()
        self._left: list[tuple[int, ConnectedRuntime, TransportError]] = []
        self._errors: list[Exception] = []

    @contextmanager
    def recording(self, server: RuntimeServer) -> Iterator[None]:
        """Within the block every runtime that comes is recorded. It is left when the last recording has ended."""
        accepting = threading.Thread(target=self._accept, args=(server,), name="dotnetdiag follow", daemon=True)
        accepting.start()
        try:
            yield
            self.end()
        except BaseException:
            self._stop.cancel()
            raise
        finally:
            for thread in tuple(self._began):
                thread.join()

    def wait(self, duration_s: float | None, is_over: Callable[[], bool]) -> None:
        """Until it is over and nobody is recorded any more, the duration is, or somebody wants to stop. Raises Cancelled.

        What is over has ended in the moment before, and its runtime ends its session; those of others are stopped.
        """
        ends = math.inf if duration_s is None else time.monotonic() + duration_s
        while not self._stop.is_stopping:
            self._stop.check()
            self._care_for_the_left()
            if self._errors:
                raise self._errors[0]
            if time.monotonic() >= ends:
                self._tell_stopping()
                self._stop.stop()
                return
            if is_over():
                if not self._join(EXIT_WAIT_S):
                    self._stop.stop()
                return
            time.sleep(LOOK_S)

    def end(self) -> None:
        """What is recorded still comes to its end; who has not answered yet is left."""
        if self._stop.is_stopping:
            self._tell_stopping()
        ends = time.monotonic() + PARTING_S  # for those that have not begun: they may answer nothing
        while not self._join(LOOK_S):
            self._stop.check()
            if time.monotonic() >= ends and not self._began:
                break
        self._stop.check()

    def _tell_stopping(self) -> None:
        """Once, and every time, however short the end takes."""
        if self.has_met_anybody and not self._is_told:
            self._is_told = True
            self._observer.stopping()

    @property
    def has_met_anybody(self) -> bool:
        """Whether a runtime has come, recorded or not."""
        return bool(self._known)

    def result(self) -> Followed:
        """What came of them all. Raises what no recording should have raised."""
        if self._errors:
            raise self._errors[0]
        done = [self._results[number] for number in sorted(self._results)]
        return Followed(
            folder=self._folder,
            recordings=tuple(one for one in done if isinstance(one, Collected)),
            unrecorded=tuple(one for one in done if isinstance(one, Unrecorded)),
            converted=tuple(self._converted),
        )

    def _join(self, timeout_s: float) -> bool:
        """Whether all recordings have ended, within the time for each."""
        with self._lock:
            threads = tuple(self._threads)
        for thread in threads:
            thread.join(timeout_s)
            if thread.is_alive():
                return False
        return True

    def _accept(self, server: RuntimeServer) -> None:
        for runtime in server:
            if runtime.cookie in self._known:  # it was out of sight for a while
                continue
            self._known.add(runtime.cookie)
            with self._lock:
                number = self._count = self._count + 1
                thread = threading.Thread(
                    target=self._record,
                    args=(number, runtime, server.address),
                    name=f"dotnetdiag follow {number}",
                    daemon=True,
                )
                try:
                    start(thread)
                except TransportError as error:  # no more threads
                    self._left.append((number, runtime, error))
                else:
                    self._threads.append(thread)

    def _care_for_the_left(self) -> None:
        """Those that no thread could be had for are let run, and named."""
        with self._lock:
            left, self._left = self._left, []
        for number, runtime, error in left:
            try:
                runtime.resume()
            except DiagnosticsError:
                if runtime.is_connected:
                    with self._lock:
                        self._left.append((number, runtime, error))
                    continue
            self._failed(number, runtime, "", None, error)

    def _record(self, number: int, runtime: ConnectedRuntime, address: str) -> None:
        name, path = "", None
        try:
            if self._stop.is_stopping:
                let_run(runtime)
                return
            name = _name_of(runtime)
            pid = runtime.pid or runtime.namespace_pid
            startup = next(one.startup for one in (self._options.launch, self._options.target) if one is not None)
            startup.prepare(runtime.client, has_variables=self._options.launch is not None)
            path = self._new_path(name, pid)
            options = replace(self._options, output=path)
            told = Observer(started=lambda *_: self._begin(pid, path))
            recording = Recording(
                options, self._composed, runtime.client, name, observer=told, stop=self._stop, over=address
            )
            done = recording.run()
            if not done.size_bytes:
                raise ProcessNotFound("it was gone before anything had come of it", pid=pid)
            self._results[number] = done
            self._observer.ended(pid, done)
            self._converted += convert_recording(done, options)
        except (DiagnosticsError, OSError, ImportError) as error:  # the last two for want of descriptors
            let_run(runtime)
            self._failed(number, runtime, name, path, error)
        except (
            Exception
        ) as error:  # a mistake of ours: raised by the call that waits; nobody waits for us because of it
            let_run(runtime)
            self._errors.append(error)
        finally:
            with self._lock:
                self._began.discard(threading.current_thread())

    def _begin(self, pid: int, path: Path) -> None:
        with self._lock:
            self._began.add(threading.current_thread())
        self._observer.began(pid, path)

    def _failed(
        self,
        number: int,
        runtime: ConnectedRuntime,
        name: str,
        path: Path | None,
        error: DiagnosticsError | OSError | ImportError,
    ) -> None:
        if self._stop.is_cancelled:
            return
        if path is not None:
            with suppress(OSError):
                if path.stat().st_size == 0:
                    path.unlink()
        one = Unrecorded(pid=runtime.pid or runtime.namespace_pid, name=name, problem=str(error))
        self._results[number] = one
        self._observer.failed(one)

    def _new_path(self, name: str, pid: int) -> Path:
        """That nobody has: in containers every pid is 1."""
        stem, number = f"{name}_{pid}", 1
        while True:
            path = self._folder / f"{stem}{f'_{number}' if number > 1 else ''}.nettrace"
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            except FileExistsError:
                number += 1
            except OSError as error:
                raise OutputError(str(path), error.strerror or str(error)) from error
            else:
                return path


def _name_of(runtime: ConnectedRuntime) -> str:
    """Its entry assembly, as part of a file's name."""
    found = ""
    with suppress(DiagnosticsError):
        found = runtime.info.entry_assembly
    name = _UNSAFE.sub("_", found).encode("utf-8", "replace")[:NAME_BYTES].decode("utf-8", "ignore")
    return name.strip("._") or "runtime"
