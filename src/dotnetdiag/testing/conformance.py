"""The checks made: against whoever answers at an address.

``for result in examine("/path"): print(result.name, result.outcome)``. The checks are ``CHECKS`` of :mod:`dotnetdiag.testing.checks`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import DiagnosticsError, ProtocolError, UnknownName, UsageError
from dotnetdiag.ipc.frames import HEADER_SIZE
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.legacy import StopEventPipeTracing
from dotnetdiag.ipc.messages import ErrorReply
from dotnetdiag.ipc.process import StartupHookProbe
from dotnetdiag.ipc.process_info import ProcessInfo, ProcessInfo2, ProcessInfo2Reply
from dotnetdiag.testing.checks import CHECKS, DIFFERENCES, Check, NotApplicable, Target
from dotnetdiag.testing.peer import ANSWER_S, Mismatch, Peer
from dotnetdiag.testing.releases import MEASURED, NATIVE_AOT, RELEASES, Release, find_release
from dotnetdiag.transport import Deadline, candidates, connect, is_suspended, parse_address

_HAS_HOOKS = 8
"""The first release that takes startup hooks."""


class Outcome(Enum):
    """What came of a check."""

    PASSED = "passed"
    """All is as the documents say."""
    FAILED = "failed"
    """It is not."""
    DIFFERS = "differs"
    """Not as the documents say, but as its release is known to do."""
    NOT_APPLICABLE = "not applicable"
    """The server does not have what is checked, or the check may kill it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """``detail``: what was wrong, how it differs, or why the check was not made; empty where it was passed."""

    name: str
    outcome: Outcome
    detail: str = ""
    sends: str = ""
    document: str = ""


def examine(
    address: str | None = None, *, pid: int | None = None, age: str | None = None, dangerous: bool = False
) -> Iterator[Result]:
    """The results of all checks, one after the other, of the server that listens at an address, or of a process.

    ``age``: the release whose manners it is held to, by default the one that it says it is. ``dangerous``: also what kills a runtime; without it
    that is sent to nobody but releases that are known to live. The target must not be suspended at its start: sessions would harm it.
    Raises UsageError, also for what speaks the protocol from before V1 alone, UnknownName, GrammarError, TransportError where nobody listens.
    """
    if (address is None) == (pid is None):
        raise UsageError("name a server by its address or by its pid")
    if pid is not None:
        found = candidates(pid)
        if not found:
            raise UsageError(f"process {pid} has no diagnostic socket that can be seen from here")
        if is_suspended(pid):
            raise UsageError(f"process {pid} is suspended at its start, where sessions harm it: resume it first")
        peer = Peer(found[0].address)
    else:
        assert address is not None
        peer = Peer(parse_address(address))
    told = None if age is None else find_release(age)
    connect(peer.address, Deadline(ANSWER_S)).close()  # where nobody listens there is nothing to check
    release = told or release_of(peer)
    if speaks_legacy(peer) if release is None else release.is_legacy:
        raise UsageError(
            f"{peer.address} is of before V1: these checks speak the protocol of V1 (.NET Core 3.0) and later"
        )
    target = Target(peer=peer, release=release, pid=pid)
    for check in CHECKS.values():
        yield _result(check, target, dangerous)


def speaks_legacy(peer: Peer) -> bool:
    """Whether it answers a request from before V1, to stop no session, with the 8 bytes of that protocol."""
    request = StopEventPipeTracing(client_pid=os.getpid(), session_id=0, trailing=bytes(HEADER_SIZE))
    try:
        return peer.ask(request.pack()).data == bytes(8)
    except (Mismatch, DiagnosticsError):
        return False


def release_of(peer: Peer) -> Release | None:
    """The release that a server says it is; one that cannot say it, and does not know the command, is 3.1. None: it is none, or cannot be asked."""
    try:
        frame = peer.answer(ProcessInfo2().pack())
        if frame.code == 0xFFFF:
            if ErrorReply.from_frame(frame).hresult != HResult.UNKNOWN_COMMAND:
                return None
            oldest = peer.answer(ProcessInfo().pack())
            return RELEASES["3.1" if oldest.code == 0xFFFF else "5"]
        release = find_release(ProcessInfo2Reply.from_frame(frame).runtime_version or "")
        if release.name.isdecimal() and int(release.name) >= _HAS_HOOKS:
            probe = peer.answer(StartupHookProbe().pack())
            if probe.code == 0xFFFF and ErrorReply.from_frame(probe).hresult == HResult.NOT_SUPPORTED:
                return RELEASES[NATIVE_AOT]
        return release
    except (Mismatch, ProtocolError, UnknownName):
        return None


def _result(check: Check, target: Target, dangerous: bool) -> Result:
    outcome, detail = _outcome(check, target, dangerous)
    return Result(name=check.name, outcome=outcome, detail=detail, sends=check.sends, document=check.document)


def _outcome(check: Check, target: Target, dangerous: bool) -> tuple[Outcome, str]:
    name = None if target.release is None else target.release.name
    lives = name in MEASURED and name not in check.kills
    if check.kills and not dangerous and not lives:
        return Outcome.NOT_APPLICABLE, f"kills .NET {', '.join(check.kills)}: made only where that is wished"
    try:
        check.run(target)
    except NotApplicable as exc:
        return Outcome.NOT_APPLICABLE, str(exc)
    except (Mismatch, DiagnosticsError) as exc:
        if known := DIFFERENCES.get(check.name, {}).get(name or ""):
            return Outcome.DIFFERS, known
        return Outcome.FAILED, str(exc)
    return Outcome.PASSED, ""
