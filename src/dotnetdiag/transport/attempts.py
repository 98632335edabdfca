"""Connecting to a process: its endpoints are found, tried in order, and the one who answers is verified."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dotnetdiag.errors import ConnectFailed, NoDiagnostics, ProcessNotFound, TargetError, TargetStopped
from dotnetdiag.transport import processes
from dotnetdiag.transport.connecting import connecting
from dotnetdiag.transport.deadline import Deadline
from dotnetdiag.transport.discovery import Endpoint, candidates, verify_peer
from dotnetdiag.transport.listening import AGAIN_S, YOUNG_S
from dotnetdiag.transport.processes import PROC
from dotnetdiag.transport.streams import Stream
from dotnetdiag.transport.waiting import Blocking, Pause, Steps, call_within

Failures = dict[Endpoint, ConnectFailed]
# A reason is looked for so long, whatever is left of the deadline: on a busy machine a look takes some tenths of a second, and one that is cut
# short says of a good folder that it does not answer.
_LEAST_LOOK_S = 1.0


def connecting_pid(
    pid: int,
    *,
    proc: Path = PROC,
    tmpdir: str | None = None,
    known: Sequence[Endpoint] | None = None,
    started_ticks: int | None = None,
) -> Steps[tuple[Stream, Endpoint]]:
    """Connect to the process: the connection, and the endpoint that it goes to.

    ``known``: endpoints of it that were found earlier; when none of them answers, the process is looked at again.
    ``started_ticks``: when the process started that is meant (``Endpoint.started_ticks``, by default that of ``known``).
    Raises ``ProcessNotFound`` (also when the pid has been given to another process), ``TargetStopped``, ``AmbiguousName``,
    ``TimedOut``, or ``NoDiagnostics`` with a line that says why and what to do.
    """
    endpoints = list(known or ())
    if started_ticks is None and endpoints:
        started_ticks = endpoints[0].started_ticks
    is_fresh = not endpoints
    while True:
        if is_fresh:
            endpoints = yield Blocking(partial(find_endpoints, pid, proc=proc, tmpdir=tmpdir))
        failures: Failures = {}
        for endpoint in endpoints:
            verify_target(pid, endpoint.pid, started_ticks, proc)
            try:
                stream = yield from connecting(endpoint.address)
            except ConnectFailed as exc:
                failures[endpoint] = exc
                continue
            # beside another /proc than ours pids say nothing
            wrong = verify_peer(endpoint, stream.peer_pid()) if proc == PROC else None
            if wrong is None:
                return stream, endpoint
            stream.close()
            failures[endpoint] = wrong
        our_pid = endpoints[0].pid if endpoints else pid
        if is_fresh and not _is_starting(our_pid, failures, proc):
            verify_target(pid, our_pid, started_ticks, proc)
            raise (yield Blocking(partial(_error, pid, our_pid, failures, proc, tmpdir)))
        if is_fresh:
            yield Pause(AGAIN_S, f"process {pid} does not listen yet")
        is_fresh = True


def find_endpoints(pid: int, deadline: Deadline, proc: Path = PROC, tmpdir: str | None = None) -> list[Endpoint]:
    """As ``candidates``, within the deadline. Raises ``TimedOut`` too."""
    problem = f"the folders where process {pid} may have its socket do not answer"
    return call_within(lambda: candidates(pid, proc=proc, tmpdir=tmpdir), deadline, problem)


def verify_target(pid: int, our_pid: int, started_ticks: int | None, proc: Path = PROC) -> None:
    """Raise when the process that is meant has ended or is stopped. ``our_pid``: its number as we see it."""
    now = processes.start_time_ticks(our_pid, proc)
    has_ended = now != started_ticks or processes.is_zombie(our_pid, proc)
    if started_ticks is not None and has_ended and os.path.isdir(proc):
        is_taken = now not in (None, started_ticks)
        heir = f"; its number now belongs to another process ({processes.comm(our_pid, proc)})" if is_taken else ""
        raise ProcessNotFound(f"process {pid} has ended{heir}", pid=pid)
    if stopped := stopped_error(pid, our_pid, proc):
        raise stopped


def stopped_error(pid: int, our_pid: int, proc: Path = PROC) -> TargetStopped | None:
    """Of a process that a signal has stopped."""
    text = f"process {pid} is stopped (state T): it answers nothing until it is continued (kill -CONT {our_pid})"
    return TargetStopped(text, pid=pid) if processes.is_stopped(our_pid, proc) else None


def _is_starting(pid: int, failures: Failures, proc: Path) -> bool:
    """Whether the process, or a candidate that refused, is so young that its runtime may be about to listen. A process
    that has made no socket yet may have one that an earlier process of its number left.
    """
    if any(failure.errno not in (errno.ECONNREFUSED, errno.ENOENT) for failure in failures.values()):
        return False
    age_s, now = processes.uptime_s(pid, proc), time.time_ns()
    is_young = age_s is not None and age_s < YOUNG_S
    return is_young or any(0 <= now - endpoint.modified_ns < YOUNG_S * 1e9 for endpoint in failures)


def _error(
    pid: int, our_pid: int, failures: Failures, proc: Path, tmpdir: str | None, deadline: Deadline
) -> TargetError:
    """Why no endpoint answered, as one line."""
    from dotnetdiag.transport import diagnosis

    def repeat(endpoint: Endpoint) -> None:
        if endpoint in failures:
            raise failures[endpoint]

    timeout_s = max(_LEAST_LOOK_S, min(diagnosis.TIMEOUT_S, deadline.left_s))
    findings = diagnosis.diagnose(our_pid, proc=proc, tmpdir=tmpdir, try_connect=repeat, timeout_s=timeout_s)
    wrong = diagnosis.reason(findings)
    kind: type[NoDiagnostics | ProcessNotFound | TargetStopped] = {
        "no-such-process": ProcessNotFound,
        "stopped": TargetStopped,
    }.get(wrong.code, NoDiagnostics)
    return kind(f"process {pid}: {wrong.text}; {wrong.advice}", pid=pid, code=wrong.code)
