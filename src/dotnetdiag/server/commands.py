"""The commands of Diagnostic IPC as methods, for whoever embeds a server to define.

======================================  ==============================================  =====================================
commands                                a method each, which by default calls           gives
======================================  ==============================================  =====================================
CollectTracing, CollectTracing2 to 6    ``collect``, with the request as the newest     ``Streaming``
GenerateCoreDump, 2, 3                  ``dump``, with the request as the newest        ``ResultReply``
ProcessInfo2, 3                         ``process_info``                                ``ProcessInfo3Reply``, cut to fit
ProcessEnvironment                                                                      ``EnvironmentBlock``
StopTracing                                                                             ``SessionReply``
the others                                                                              ``ResultReply``
======================================  ==============================================  =====================================

Rule: a request has been checked before a method gets it, and what a method raises reaches the caller as an error code, never the server.
"""
# ruff: noqa: ARG002 - the signatures are what subclasses fill in

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias
from uuid import UUID, uuid4

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD, BufferingMode, DumpFlags
from dotnetdiag.ipc.dump import GenerateCoreDump, GenerateCoreDump2, GenerateCoreDump3
from dotnetdiag.ipc.environment import EnvironmentBlock, ProcessEnvironment, SetEnvironmentVariable
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply, OkReply
from dotnetdiag.ipc.process import ApplyStartupHook, DisablePerfMap, EnablePerfMap, ResumeRuntime
from dotnetdiag.ipc.process_info import ProcessInfo, ProcessInfo2, ProcessInfo3
from dotnetdiag.ipc.profiler import AttachProfiler, StartupProfiler
from dotnetdiag.ipc.replies import ResultReply, SessionReply
from dotnetdiag.ipc.tracing import (
    CollectTracing,
    CollectTracing2,
    CollectTracing3,
    CollectTracing4,
    CollectTracing5,
    CollectTracing5UserEvents,
    CollectTracing6,
    StopTracing,
)
from dotnetdiag.server.source import Source


class Refused(Exception):
    """Raised by a command: the caller is answered this code. ``text`` reaches who asked by GenerateCoreDump3, and nobody else."""

    def __init__(self, hresult: int, text: str = "") -> None:
        super().__init__(f"0x{hresult & 0xFFFFFFFF:08X}" + (f": {text}" if text else ""))
        self.hresult, self.text = hresult & 0xFFFFFFFF, text


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. ``address`` is that of the connection, ``port`` that of ours through which it came; ``pid`` and ``uid`` are None where
    the system does not tell.
    """

    address: str = ""
    port: str = ""
    pid: int | None = None
    uid: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Streaming:
    """A session: an OK with its id, and then what the source gives. ``session_id``: None for one that the server chooses."""

    source: Source
    session_id: int | None = None


Reply: TypeAlias = OkReply | ErrorReply | EnvironmentBlock | Streaming
"""What a command may give: ``ResultReply()`` where all is well, an ``EnvironmentBlock``, which is sent behind the reply that announces its size,
a ``Streaming``, or any other reply of the protocol. What it cannot do is raised: :class:`Refused`.
"""
Handler: TypeAlias = Callable[[Any, Caller], Reply]
"""What answers one command in the place of the method: called with the request (a value with the fields of the protocol) and who asks, in a thread
of its own. Raises :class:`Refused`; anything else that it raises is answered ``FAIL``, and told as a problem of the server.
"""


class Commands:
    """What a server answers: NOT_SUPPORTED to everything, but for resuming, stopping a session, and who it is as far as it advertises.

    Subclass it, or give ``overrides``: a function of (request, caller) for a single command. A command is called in a thread of its own
    for as long as it takes, several at once. Each raises Refused.
    """

    def __init__(self, overrides: Mapping[Command, Handler] | None = None) -> None:
        self._overrides = dict(overrides or {})
        self._cookie = uuid4()

    @property
    def cookie(self) -> UUID:
        """Which process this is, in ProcessInfo and to the ports that are dialled; another one for each start."""
        return self._cookie

    def advertise(self) -> Advertise:
        """What is said first to a port that was dialled."""
        return Advertise(cookie=self.cookie, pid=os.getpid())

    def handler(self, command: Command) -> Handler:
        """What answers the command."""
        method: Handler = self._overrides.get(command) or getattr(self, METHODS[command])
        return method

    # -- those that an embedder defines

    def collect(self, request: CollectTracing6, caller: Caller) -> Streaming:
        """A session, whatever command asked for it."""
        raise Refused(HResult.NOT_SUPPORTED)

    def collect_user_events(self, request: CollectTracing5UserEvents, caller: Caller) -> Reply:
        """A session that writes to tracepoints. The descriptor that follows the request is not received."""
        raise Refused(HResult.NOT_SUPPORTED)

    def dump(self, request: GenerateCoreDump3, caller: Caller) -> Reply:
        """A dump, whatever command asked for it."""
        raise Refused(HResult.NOT_SUPPORTED)

    def process_info(self, request: ProcessInfo | ProcessInfo2 | ProcessInfo3, caller: Caller) -> Reply:
        """Who this is; the facts of all versions, of which each reply takes what it has room for."""
        raise Refused(HResult.NOT_SUPPORTED)

    def process_environment(self, request: ProcessEnvironment, caller: Caller) -> Reply:
        """The environment of this process."""
        raise Refused(HResult.NOT_SUPPORTED)

    def set_environment_variable(self, request: SetEnvironmentVariable, caller: Caller) -> Reply:
        """Set a variable, or remove it where the value is None."""
        raise Refused(HResult.NOT_SUPPORTED)

    def attach_profiler(self, request: AttachProfiler, caller: Caller) -> Reply:
        """Load a native profiler now."""
        raise Refused(HResult.NOT_SUPPORTED)

    def startup_profiler(self, request: StartupProfiler, caller: Caller) -> Reply:
        """Load a native profiler when the process is resumed."""
        raise Refused(HResult.NOT_SUPPORTED)

    def enable_perf_map(self, request: EnablePerfMap, caller: Caller) -> Reply:
        """Write symbols for perf from now on."""
        raise Refused(HResult.NOT_SUPPORTED)

    def disable_perf_map(self, request: DisablePerfMap, caller: Caller) -> Reply:
        """Write none any more."""
        raise Refused(HResult.NOT_SUPPORTED)

    def apply_startup_hook(self, request: ApplyStartupHook, caller: Caller) -> Reply:
        """Run a startup hook."""
        raise Refused(HResult.NOT_SUPPORTED)

    def resume_runtime(self, request: ResumeRuntime, caller: Caller) -> Reply:
        """The server resumes the caller's port when this gives an OK."""
        return ResultReply()

    def stop_tracing(self, request: StopTracing, caller: Caller) -> Reply:
        """The server stops the session when this gives an OK, and sends it when the stream has ended. Any id is OK (ipc-protocol.md §5.5)."""
        return SessionReply(session_id=request.session_id)

    # -- a method for each version, which need not be defined

    def collect_tracing(self, request: CollectTracing, caller: Caller) -> Reply:
        """As ``collect``."""
        return self.collect(newest_collect(request), caller)

    def collect_tracing2(self, request: CollectTracing2, caller: Caller) -> Reply:
        """As ``collect``."""
        return self.collect(newest_collect(request), caller)

    def collect_tracing3(self, request: CollectTracing3, caller: Caller) -> Reply:
        """As ``collect``."""
        return self.collect(newest_collect(request), caller)

    def collect_tracing4(self, request: CollectTracing4, caller: Caller) -> Reply:
        """As ``collect``."""
        return self.collect(newest_collect(request), caller)

    def collect_tracing5(self, request: CollectTracing5 | CollectTracing5UserEvents, caller: Caller) -> Reply:
        """As ``collect``."""
        if isinstance(request, CollectTracing5UserEvents):
            return self.collect_user_events(request, caller)
        return self.collect(newest_collect(request), caller)

    def collect_tracing6(self, request: CollectTracing6 | CollectTracing5UserEvents, caller: Caller) -> Reply:
        """As ``collect``."""
        return self.collect_tracing5(request, caller)

    def generate_core_dump(self, request: GenerateCoreDump, caller: Caller) -> Reply:
        """As ``dump``."""
        return self.dump(newest_dump(request), caller)

    def generate_core_dump2(self, request: GenerateCoreDump2, caller: Caller) -> Reply:
        """As ``dump``."""
        return self.dump(newest_dump(request), caller)

    def generate_core_dump3(self, request: GenerateCoreDump3, caller: Caller) -> Reply:
        """As ``dump``."""
        return self.dump(request, caller)

    def process_info2(self, request: ProcessInfo2, caller: Caller) -> Reply:
        """As ``process_info``."""
        return self.process_info(request, caller)

    def process_info3(self, request: ProcessInfo3, caller: Caller) -> Reply:
        """As ``process_info``."""
        return self.process_info(request, caller)


METHODS: dict[Command, str] = {command: re.sub(r"(?<!^)(?=[A-Z])", "_", command.name).lower() for command in Command}
"""Command to name of the method: ``CollectTracing2`` is ``collect_tracing2``."""


def newest_collect(request: CollectTracing) -> CollectTracing6:
    """The request as CollectTracing6 says it, with what the older ones imply (ipc-protocol.md §5.1)."""
    keyword = getattr(request, "rundown_keyword", None)
    if keyword is None:
        keyword = DEFAULT_RUNDOWN_KEYWORD if getattr(request, "rundown", True) else 0
    return CollectTracing6(
        providers=request.providers,
        buffer_mb=request.buffer_mb,
        format=request.format,
        rundown_keyword=keyword,
        stackwalk=getattr(request, "stackwalk", True),
        buffering_mode=getattr(request, "buffering_mode", BufferingMode.DROP),
    )


def newest_dump(request: GenerateCoreDump) -> GenerateCoreDump3:
    """The request as GenerateCoreDump3 says it. The first one has a boolean for flags."""
    flags = request.flags if isinstance(request, GenerateCoreDump2) else DumpFlags.LOGGING if request.flags else 0
    return GenerateCoreDump3(path=request.path, dump_type=request.dump_type, flags=flags)
