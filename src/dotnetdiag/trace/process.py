"""The traced process, as far as the trace tells: from its header, ProcessInfo and RuntimeInformation events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag._patterns import pattern
from dotnetdiag.events.well_known import EVENT_PIPE, UNIVERSAL_SYSTEM
from dotnetdiag.trace.source import wanted_of
from dotnetdiag.trace.table import EventTable

if TYPE_CHECKING:
    from dotnetdiag.trace.context import Recording

RUNTIME_INFORMATION = 187
RUNTIMES = ("Microsoft-Windows-DotNETRuntime", "Microsoft-Windows-DotNETRuntimeRundown")
CORE = ".NET"
_SKUS = {1: ".NET Framework", 2: CORE}
_PYTHON = pattern(r"(?:^|[/\\])(?:lib)?(?:python|pypy)[^/\\]*$", re.IGNORECASE)
_SHARED_FRAMEWORK = pattern(r"[/\\]Microsoft\.NETCore\.App[/\\](\d+\.\d+[^/\\]*)[/\\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessDetails:
    """What a trace says of a process; None where it says nothing. ``os`` and ``architecture`` are words of the runtime (``Linux``, ``x64``),
    ``processors`` is how many the machine has.
    """

    pid: int | None = None
    command_line: str | None = None
    os: str | None = None
    architecture: str | None = None
    runtime: str | None = None
    """``.NET 10.0.14``. .NET Core before 5 says 4.0.0 of itself: ``.NET Core 3.1.3`` by the folder that it is in, else ``.NET Core``. A
    Python program that serves is ``Python 3.11.7``.
    """
    runtime_path: str | None = None
    processors: int | None = None


def _core_3(path: str) -> str:
    found = _SHARED_FRAMEWORK.search(path)
    return f".NET Core {found[1]}" if found else ".NET Core"


def processes(trace: Recording) -> tuple[ProcessDetails, ...]:
    """Every process that the trace tells of, the one of its header first."""
    found: dict[int | None, dict[str, str]] = {}
    for number, table in _tables(trace).items():
        schema = table.schemas[number]
        for event in table:
            known = found.setdefault(event.pid, {})
            payload = event.payload
            if schema.provider == EVENT_PIPE:
                known["command_line"] = payload.get("CommandLine") or known.get("command_line", "")
                known["os"] = payload.get("OSInformation") or ""
                known["architecture"] = payload.get("ArchInformation") or ""
            elif schema.provider == UNIVERSAL_SYSTEM:
                known.setdefault("command_line", payload.get("Name") or "")
            else:
                parts = [payload.get(f"Bcl{part}") for part in ("MajorVersion", "MinorVersion", "BuildNumber")]
                path = known["runtime_path"] = payload.get("RuntimeDllPath") or ""
                if None not in parts:
                    sku = _SKUS.get(payload.get("Sku") or 0) or ("Python" if _PYTHON.search(path) else "runtime")
                    known["runtime"] = (
                        _core_3(path) if (sku, parts[0]) == (CORE, 4) else f"{sku} {'.'.join(map(str, parts))}"
                    )
                if payload.get("CommandLine"):
                    known.setdefault("command_line", payload["CommandLine"])
    if trace.format.startswith("nettrace 6"):
        for row in trace.source.scan.threads.values():
            if row.process_id is not None:
                found.setdefault(row.process_id, {})
    info = trace.info
    own = None if info is None else info.process_id
    if own is not None or not found:
        found = {own: found.pop(own, {}), **found}
    elif None in found and len(found) > 1:
        found = {None: found.pop(None), **found}
    return tuple(
        ProcessDetails(
            pid=pid,
            processors=None if info is None else info.processors,
            **{name: text or None for name, text in known.items()},
        )
        for pid, known in found.items()
    )


def process_events(trace: Recording) -> list[int]:
    """The metadata ids of the events that tell of processes."""
    wanted = []
    for number in trace.metadata:
        schema = trace.types.name_of(number)
        if (
            schema.provider == EVENT_PIPE
            or (schema.provider in RUNTIMES and schema.event_id == RUNTIME_INFORMATION)
            or (schema.provider == UNIVERSAL_SYSTEM and schema.manifest_name in ("ExistingProcess", "ProcessCreate"))
        ):
            wanted.append(number)
    return wanted


def _tables(trace: Recording) -> dict[int, EventTable]:
    wanted = process_events(trace)
    if not wanted:
        return {}
    headers = trace.source.about_processes
    if headers is None:
        headers = trace.source.collect(wanted_of(wanted))
    made = {}
    for number in wanted:
        rows = headers.metadata_id == number
        if rows.any():
            made[number] = EventTable(trace, {number: trace.schema(number)}, headers[rows])
    return made
