"""The answers of a scripted runtime: those of the release that it plays, about a process that is made up."""
# ruff: noqa: ARG002 - the signatures are those of Commands

from __future__ import annotations

import time
from collections.abc import Callable, MutableMapping
from typing import Any
from uuid import UUID

from dotnetdiag._dataclasses import dataclass, replace
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.environment import EnvironmentBlock, ProcessEnvironment, SetEnvironmentVariable
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import OkReply, Request
from dotnetdiag.ipc.process import ApplyStartupHook, DisablePerfMap, EnablePerfMap
from dotnetdiag.ipc.process_info import ProcessInfo, ProcessInfo2, ProcessInfo3
from dotnetdiag.ipc.profiler import AttachProfiler, StartupProfiler
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.tracing import CollectTracing6, StopTracing
from dotnetdiag.server.commands import Caller, Commands, Handler, Refused, Reply, Streaming
from dotnetdiag.server.dispatch import Dispatcher
from dotnetdiag.server.process import ProcessFacts
from dotnetdiag.testing.play import IGNORABLE, Play
from dotnetdiag.testing.recording import Recording, empty_trace
from dotnetdiag.testing.releases import NATIVE_AOT, Release
from dotnetdiag.testing.replay import Replay, ReplaySource, SpoiledSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What sessions replay: ``recording`` None is an empty trace. The others as of ``Replay``."""

    recording: Recording | None = None
    speed: float | None = None
    cuts: bool = False
    waits: bool = False


class _Undone(SessionReply):
    """An OK that has no effect on the server's sessions and ports either."""

    def failure(self) -> int:
        return 1


class _UndoneResult(ResultReply):
    """The same for commands that give an HRESULT."""

    def failure(self) -> int:
        return 1


class PosedCommands(Commands):
    """``is_suspended`` says whether the runtime waits at its start. Dumps, perf maps, hooks and profilers are answered, and nothing is done."""

    def __init__(
        self,
        play: Play,
        facts: ProcessFacts,
        environment: MutableMapping[str, str],
        stage: Stage,
        is_suspended: Callable[[], bool],
    ) -> None:
        super().__init__()
        self._play, self._facts, self._environment, self._stage = play, facts, environment, stage
        self._is_suspended = is_suspended
        self._has_profiler = False
        self._held: list[ReplaySource] = []

    @property
    def cookie(self) -> UUID:
        """That of the made-up process."""
        return self._facts.cookie

    def advertise(self) -> Advertise:
        """What is said first to a port that was dialled."""
        return Advertise(cookie=self.cookie, pid=self._facts.pid)

    def resumed(self) -> None:
        """Sessions that were started before begin now."""
        while self._held:
            self._held.pop().begin()

    def handler(self, command: Command) -> Handler:
        """As the release answers it, and as it was told to misbehave."""
        method = super().handler(command)
        release = self._play.release

        def answer(request: Any, caller: Caller) -> Reply:
            what = self._play.misbehaviour(command.name)
            if what.hresult is not None:
                raise Refused(what.hresult)
            if what.ignores and isinstance(request, Request) and command.name in IGNORABLE:
                return _undone(request)
            given = method(request, caller)
            if isinstance(given, Streaming):
                sent = 8 if release.is_legacy else 28
                return replace(given, source=SpoiledSource(given.source, what, sent=sent))
            return given

        return answer

    def collect(self, request: CollectTracing6, caller: Caller) -> Streaming:
        """The recording, or an empty trace of the release's version."""
        stage, release = self._stage, self._play.release
        recording = stage.recording
        is_empty = recording is None
        if recording is None:
            recording = empty_trace(release.nettrace, request.format, self._facts.pid, time.time_ns())
        replay = Replay(recording, speed=stage.speed, cuts=stage.cuts, waits=stage.waits or is_empty)
        held = self._is_suspended()
        source = ReplaySource(replay, held=held)
        if held:
            self._held.append(source)
            if not self._is_suspended():  # resumed meanwhile
                self.resumed()
        return Streaming(source=source)

    def dump(self, request: object, caller: Caller) -> Reply:
        """OK; nothing is written."""
        return ResultReply()

    def process_info(self, request: ProcessInfo | ProcessInfo2 | ProcessInfo3, caller: Caller) -> Reply:
        """Who the made-up process is."""
        return self._facts.reply()

    def process_environment(self, request: ProcessEnvironment, caller: Caller) -> Reply:
        """The made-up one."""
        return EnvironmentBlock(entries=tuple(f"{name}={value}" for name, value in tuple(self._environment.items())))

    def set_environment_variable(self, request: SetEnvironmentVariable, caller: Caller) -> Reply:
        """In the made-up environment (ipc-protocol.md §5.10, §21.4)."""
        name = request.name or ""
        if self._play.release.name == NATIVE_AOT and (not name or "=" in name):
            raise Refused(HResult.UNSPECIFIED)
        if request.value is not None:
            self._environment[name] = request.value
        elif self._environment.pop(name, None) is None:
            raise Refused(HResult.ENVVAR_NOT_FOUND)
        return ResultReply()

    def attach_profiler(self, request: AttachProfiler, caller: Caller) -> Reply:
        """One, once it is not suspended (ipc-protocol.md §5.7)."""
        if self._is_suspended():
            raise Refused(HResult.PROFILER_NOT_YET_AVAILABLE)
        if self._has_profiler:
            raise Refused(HResult.PROFILER_ALREADY_ACTIVE)
        self._has_profiler = True
        return ResultReply()

    def startup_profiler(self, request: StartupProfiler, caller: Caller) -> Reply:
        """While it is suspended (ipc-protocol.md §5.7)."""
        if not self._is_suspended():
            raise Refused(HResult.INVALID_ARGUMENT)
        return ResultReply()

    def enable_perf_map(self, request: EnablePerfMap, caller: Caller) -> Reply:
        """OK; nothing is written."""
        return ResultReply()

    def disable_perf_map(self, request: DisablePerfMap, caller: Caller) -> Reply:
        """OK."""
        return ResultReply()

    def apply_startup_hook(self, request: ApplyStartupHook, caller: Caller) -> Reply:
        """OK; nothing is run."""
        return ResultReply()


class PosedDispatcher(Dispatcher):
    """Knows the commands of a release, which may be none of ``Age``."""

    def __init__(self, commands: PosedCommands, release: Release, **options: Any) -> None:
        super().__init__(commands, **options)
        self._release = release

    def request(self, frame: Frame) -> Request[Any]:
        """As the release reads it. Raises Refused."""
        if frame.code not in self._release.commands:
            raise Refused(self._release.unknown_hresult(frame.code))
        refusal = self._release.refusals.get(Command(frame.code), 0)
        if refusal == HResult.NOT_SUPPORTED:  # it is not there to read its payload
            raise Refused(refusal)
        request = super().request(frame)
        if refusal:
            raise Refused(refusal)
        return request


def _undone(request: Request[Any]) -> OkReply:
    return _Undone(session_id=request.session_id) if isinstance(request, StopTracing) else _UndoneResult()
