"""Requests to answers: what is checked first, who answers, and what becomes of sessions and of a suspended start.

Rule 1: a command that the age does not have is unknown, whatever its payload (ipc-protocol.md §7).
Rule 2: what real runtimes die of (§21.1) is BAD_ENCODING here; what they answer with another code, that code.
Rule 3: whatever a command raises becomes an answer. What it did not mean to raise is told to ``problem`` and answered FAIL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import ProtocolError
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.constants import MAX_PROVIDERS
from dotnetdiag.ipc.dump import GenerateCoreDump
from dotnetdiag.ipc.environment import EnvironmentBlock, EnvironmentReply, SetEnvironmentVariable
from dotnetdiag.ipc.fields import Field
from dotnetdiag.ipc.frames import Frame
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.messages import ErrorReply, OkReply, Request
from dotnetdiag.ipc.process import ApplyStartupHook, EnablePerfMap
from dotnetdiag.ipc.process_info import ProcessInfo3Reply
from dotnetdiag.ipc.profiler import AttachProfiler
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.ipc.requests import UnknownRequest, parse_request
from dotnetdiag.ipc.tracing import CollectTracing, CollectTracing5UserEvents, StopTracing
from dotnetdiag.server.ages import NEWEST, Age
from dotnetdiag.server.commands import Caller, Commands, Refused, Streaming
from dotnetdiag.server.sessions import Session, Sessions
from dotnetdiag.server.suspension import Suspension

Problem = Callable[[str, BaseException | None], None]
"""Takes a line about what went wrong, and the error that was raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What to send: ``reply`` is what ``data`` says (None: nothing is sent). Then the connection is closed.

    ``session``: its stream follows. ``after``: nothing is sent before that session is over.
    """

    reply: OkReply | ErrorReply | None = None
    data: bytes = b""
    session: Session | None = None
    after: Session | None = None


def error_answer(hresult: int, text: str | None = None) -> Answer:
    """An error reply."""
    reply = ErrorReply(hresult=hresult, text=text)
    return Answer(reply=reply, data=reply.pack())


class Dispatcher:
    """What all connections of one server share. Several threads may call it."""

    def __init__(
        self,
        commands: Commands,
        *,
        age: Age = NEWEST,
        sessions: Sessions | None = None,
        suspension: Suspension | None = None,
        problem: Problem = lambda line, error: None,  # noqa: ARG005 - nobody is told
    ) -> None:
        self.commands, self.age, self.problem = commands, age, problem
        self.sessions = Sessions() if sessions is None else sessions
        self.suspension = Suspension() if suspension is None else suspension

    def request(self, frame: Frame) -> Request[Any]:
        """The request in a frame, checked. Raises Refused."""
        known = frame.code in self.age.commands
        try:
            request = parse_request(frame) if known else None
        except ProtocolError as exc:
            raise Refused(HResult.BAD_ENCODING) from exc
        if request is None or isinstance(request, UnknownRequest):
            raise Refused(HResult.UNKNOWN_COMMAND)
        require_valid(request)
        return request

    def answer(self, request: Request[Any], caller: Caller) -> Answer:
        """Perform a request that ``request`` gave. Takes as long as the embedder's command; raises nothing."""
        try:
            return self._answer(request, caller)
        except Refused as refused:
            return error_answer(refused.hresult, _error_text(request, refused.text))
        except Exception as exc:
            self.problem(f"{request.COMMAND.name} failed: {type(exc).__name__}: {exc}", exc)
            return error_answer(HResult.FAIL, _error_text(request, f"{type(exc).__name__}: {exc}"))

    def _answer(self, request: Request[Any], caller: Caller) -> Answer:
        if isinstance(request, CollectTracing | CollectTracing5UserEvents):
            self.sessions.require_room()
        given = self.commands.handler(request.COMMAND)(request, caller)
        if isinstance(given, Streaming):
            return self._streaming(given)
        if isinstance(given, EnvironmentBlock):
            block = given.pack()
            announced = EnvironmentReply(size_bytes=len(block))
            return Answer(reply=announced, data=announced.pack() + block)
        if isinstance(given, ErrorReply):
            return error_answer(given.hresult, _error_text(request, given.text or ""))
        reply = _fitting(given, request)
        data = reply.pack()
        after = None
        if not reply.failure():
            if request.COMMAND is Command.ResumeRuntime:
                self.suspension.resume(caller.port)
            elif isinstance(request, StopTracing) and (after := self.sessions.get(request.session_id)) is not None:
                after.stop()
        return Answer(reply=reply, data=data, after=after)

    def _streaming(self, given: Streaming) -> Answer:
        session = self.sessions.start(given.source, given.session_id)
        try:
            reply = SessionReply(session_id=session.id)
            return Answer(reply=reply, data=reply.pack(), session=session)
        except BaseException:
            self.hang_up(session)
            raise

    def hang_up(self, session: Session) -> None:
        """The session's reader has gone. What the source raises is told."""
        try:
            self.sessions.hang_up(session)
        except Exception as exc:
            self.problem(f"the source of session {session.id} cannot be hung up: {exc}", exc)

    def stop(self, session: Session) -> None:
        """The server ends: tell the session's source to finish. What it raises is told."""
        try:
            session.stop()
        except Exception as exc:
            self.problem(f"the source of session {session.id} cannot be stopped: {exc}", exc)


def require_valid(request: Request[Any]) -> None:
    """Raise Refused with the code that a runtime answers to arguments that make no sense."""
    if request.invalid():
        raise Refused(HResult.BAD_ENCODING)
    for kind, problem in _ARGUMENTS:
        if isinstance(request, kind) and (code := problem(request)):
            raise Refused(code)


def _collect(request: CollectTracing) -> int:
    # .NET 8 and 9 die of the first three
    wrong = request.buffer_mb == 0 or request.format not in (0, 1) or len(request.providers) > MAX_PROVIDERS
    return HResult.BAD_ENCODING if wrong else 0


def _user_events(request: CollectTracing5UserEvents) -> int:
    return HResult.BAD_ENCODING if request.refusal() is not None else 0


def _dump(request: GenerateCoreDump) -> int:
    return HResult.FAIL if request.path is None or request.dump_type not in (1, 2, 3, 4) else 0


def _attach(request: AttachProfiler) -> int:
    return 0 if request.path else HResult.FAIL


def _name(request: SetEnvironmentVariable) -> int:
    return HResult.INVALID_ARGUMENT if request.name is None else 0


def _perf_map(request: EnablePerfMap) -> int:
    return 0 if request.perf_map_type in (1, 2, 3) else HResult.INVALID_ARGUMENT


def _hook(request: ApplyStartupHook) -> int:
    return HResult.INVALID_ARGUMENT if request.path is None else 0


_ARGUMENTS: tuple[tuple[type[Request[Any]], Callable[[Any], int]], ...] = (
    (CollectTracing, _collect),
    (CollectTracing5UserEvents, _user_events),
    (GenerateCoreDump, _dump),
    (AttachProfiler, _attach),
    (SetEnvironmentVariable, _name),
    (EnablePerfMap, _perf_map),
    (ApplyStartupHook, _hook),
)
"""As measured: ipc-protocol.md §5.7, §21.1, §21.2, §21.4. The name of a dump that is null kills runtimes: FAIL, as NativeAOT says."""


def _error_text(request: Request[Any], text: str) -> str | None:
    """GenerateCoreDump3 alone has a text in its errors; at most 1,025 units (§21.4)."""
    return text.replace("\0", " ")[:LONGEST_TEXT] if request.COMMAND is Command.GenerateCoreDump3 else None


LONGEST_TEXT = 512
"""Characters: each may take two units."""


def _fitting(given: OkReply, request: Request[Any]) -> OkReply:
    """Facts of a process, in the version that was asked for. Empty texts, not null ones: the reference client dies of null (§3)."""
    if not isinstance(given, ProcessInfo3Reply):
        return given
    kind = request.REPLY
    values: dict[str, Any] = {}
    for field in kind.FIELDS:
        if isinstance(field, Field):
            value = getattr(given, field.name)
            values[field.name] = "" if value is None else value
    return kind(**values)
