"""Whether a runtime is suspended at startup, and the one command that must not come then."""

from __future__ import annotations

from dotnetdiag.errors import DangerousRequest, ProtocolError
from dotnetdiag.ipc import eventpipe, process
from dotnetdiag.ipc.operations.identity import process_info
from dotnetdiag.ipc.operations.steps import Ask, Drain, Operation, send
from dotnetdiag.ipc.replies import SessionReply
from dotnetdiag.wire import decimal


def is_suspended() -> Operation[bool]:
    """Whether the runtime waits at startup, found out without harm.

    A session is started and stopped at once. A running runtime has sent the head of the trace by the end of the stream;
    a suspended one closes it with zero bytes (ipc-protocol.md §9, §21.3). The provider's name is nobody's.
    """
    nobody = eventpipe.Provider(name="dotnetdiag-is-suspended", keywords=0, level=4)
    request = eventpipe.CollectTracing2(providers=(nobody,), buffer_mb=1, rundown=False)
    answer = yield Ask(request=request, keep=True)
    if not isinstance(answer.reply, SessionReply):
        raise ProtocolError("the reply is no session id", where=request.COMMAND.name)
    yield Ask(request=eventpipe.StopTracing(session_id=answer.reply.session_id))
    return not (yield Drain(connection=answer.connection)).continuation


def enable_perf_map(perf_map_type: int) -> Operation[None]:
    """Write a perf map. A suspended .NET 8 or 9 would die of it (§21.1): DangerousRequest, and nothing is sent."""
    request = process.EnablePerfMap(perf_map_type=perf_map_type)
    request.check()
    version = (yield from process_info()).runtime_version
    major = decimal(version.partition(".")[0])
    if (major is None or major < 10) and (yield from is_suspended()):
        raise DangerousRequest(
            request.COMMAND.name,
            f"it kills .NET {version or '8 and 9'} while suspended at startup; resume it first",
        )
    return (yield from send(request))
