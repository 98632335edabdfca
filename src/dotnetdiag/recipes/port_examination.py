"""What ``doctor`` finds out of a diagnostic port: whether runtimes can come to it, and who does; or whether somebody answers there."""

from __future__ import annotations

import os
import time

from dotnetdiag.client import Client
from dotnetdiag.client.server import ConnectedRuntime, RuntimeServer
from dotnetdiag.errors import DiagnosticsError, GrammarError, TransportError, UsageError
from dotnetdiag.recipes.examination import PROBE_TIMEOUT_S, answers
from dotnetdiag.recipes.suspension import holds
from dotnetdiag.recipes.target import Target
from dotnetdiag.transport import Deadline, connect, processes
from dotnetdiag.transport.addresses import parse_address
from dotnetdiag.transport.diagnosis import Finding
from dotnetdiag.transport.dialable import undialable

DIAL_S = 1.0
"""A runtime that finds nobody dials again after half a second at the most (ipc-protocol.md §21.3)."""


def examine_port(text: str) -> tuple[Finding, ...]:
    """Of ``ADDRESS[,connect|listen]``. Where we listen that is done for a second: runtimes that dial are asked who they are, and stay as
    they are. Raises GrammarError.
    """
    target = Target(port=text)
    word = text.partition(",")[2].strip().lower()
    if "," in text and word not in ("connect", "listen"):
        raise GrammarError("diagnostic port", text, text.index(",") + 1, "after the comma stands 'connect' or 'listen'")
    address = parse_address(target.address)
    if not target.listens:
        return tuple(_at_listener(text))
    if problem := undialable(address):
        return (Finding(code="undialable", ok=False, text=f"{address}: {problem}", advice="take another address"),)
    try:
        with RuntimeServer(target.address, timeout_s=PROBE_TIMEOUT_S) as server:
            time.sleep(DIAL_S)
            found = [_of(runtime) for runtime in server.runtimes]
            seen = {runtime.pid for runtime in server.runtimes}
    except (TransportError, UsageError) as error:
        advice = "take another address, or end what is there; the folder must be there, and be ours to write in"
        return (Finding(code="cannot-listen", ok=False, text=str(error), advice=advice),)
    usable = Finding(code="can-listen", ok=True, text=f"{address} can be listened at", advice="")
    return (usable, *(found or [_nobody(target.address)]), *_silent(target.address, seen))


def _at_listener(text: str) -> list[Finding]:
    try:
        connect(parse_address(Target(port=text).address), Deadline(PROBE_TIMEOUT_S)).close()
        with Client.connect(text, timeout_s=PROBE_TIMEOUT_S) as client:
            return answers(client)
    except DiagnosticsError as error:
        advice = (
            "start the program with DOTNET_DiagnosticPorts=ADDRESS,listen, the address as its own file system has it"
        )
        return [Finding(code="no-connection", ok=False, text=str(error), advice=advice)]


def _of(runtime: ConnectedRuntime) -> Finding:
    who = f"process {runtime.pid}" if runtime.pid else f"a process that is {runtime.namespace_pid} where it runs"
    try:
        info = runtime.info
        state = {True: ", and waits there at its start", False: "", None: ""}[runtime.is_suspended]
    except DiagnosticsError as error:
        return Finding(
            code="no-answer", ok=False, text=f"{who} dials it, and does not answer: {error}", advice="look at its state"
        )
    name = f"{info.entry_assembly} " if info.entry_assembly else ""
    return Finding(code="dials", ok=True, text=f"{who} ({name}on {info.runtime}) dials it{state}", advice="")


def _nobody(address: str) -> Finding:
    return Finding(
        code="nobody-dials",
        ok=True,
        level="warning",
        text=f"no runtime has dialled it within {DIAL_S:g} s",
        advice=f"start a program with DOTNET_DiagnosticPorts={address}, the path as its own file system has it",
    )


def _silent(address: str, seen: set[int | None]) -> list[Finding]:
    """Processes that were told to dial it, and do not."""
    path = os.path.realpath(address)
    found = []
    for pid in processes.iter_pids():
        ports = [hold.port for hold in holds(pid) if hold.port is not None]
        wanted = [port for port in ports if os.path.realpath(os.path.join(processes.cwd(pid) or "", port)) == path]
        if wanted and pid not in seen:
            text = f"process {pid} ({processes.comm(pid) or '?'}) has the port in its environment, and does not dial it"
            advice = "it may be no .NET program, older than .NET 5, have DOTNET_EnableDiagnostics=0, or another tool's connection"
            found.append(Finding(code="does-not-dial", ok=True, level="warning", text=text, advice=advice))
    return found
