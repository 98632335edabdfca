"""What ``doctor`` finds out: why a process can or cannot be attached to, and what this installation can do."""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import tempfile
from importlib import metadata

from dotnetdiag import __version__
from dotnetdiag.client import Client
from dotnetdiag.errors import DiagnosticsError, UnsupportedCommand
from dotnetdiag.recipes.suspension import Hold, holds
from dotnetdiag.transport.diagnosis import Finding, diagnose

PROBE_TIMEOUT_S = 5.0


def examine(pid: int) -> tuple[Finding, ...]:
    """The operating system's view of a process, then the runtime's own answers where it can be reached."""
    found = list(diagnose(pid))
    if any(finding.code == "reachable" for finding in found):
        found += answers(Client(pid, timeout_s=PROBE_TIMEOUT_S))
    return tuple(found)


def holds_of(pid: int) -> tuple[Hold, ...]:
    """What a process waits for at its start. ``pid`` may be its number in a container."""
    return holds(Client(pid).target_pid())


def answers(client: Client) -> list[Finding]:
    """What a runtime says of itself, as findings."""
    try:
        info = client.process_info()
    except UnsupportedCommand:
        return [
            Finding(
                code="too-old",
                ok=True,
                level="warning",
                text="it is .NET Core 3.x: traces, dumps and profilers work, everything else needs .NET 5 or newer",
                advice="for the rest, upgrade the program's runtime",
            )
        ]
    except DiagnosticsError as error:
        return [
            Finding(
                code="no-answer",
                ok=False,
                text=f"it takes connections but does not answer as a runtime does: {error}",
                advice="it may be stopped, swapped out or writing a dump: look at its state, and try again",
            )
        ]
    found = [
        Finding(
            code="answers",
            ok=True,
            text=f"is {info.runtime if info.runtime_version else '.NET older than 6'}, {info.os} {info.arch}",
            advice="",
        )
    ]
    suspended = client.is_suspended()
    if suspended:
        text = "is suspended at startup: no managed code runs, and no trace has events"
        found_holds = holds(client.target_pid())
        ports = [hold.port for hold in found_holds if hold.port is not None]
        if not ports:
            return [*found, Finding(code="suspended", ok=False, text=text, advice="resume it")]
        own = ", and over its own socket" if len(ports) < len(found_holds) else ""
        advice = f"resume it over the port that holds it ({', '.join(ports)}){own}"
        return [*found, Finding(code="suspended-by-port", ok=False, text=text, advice=advice)]
    unknown = "; whether it is suspended at startup cannot be told" if suspended is None else ""
    return [*found, Finding(code="running", ok=True, text=f"runs{unknown}", advice="")]


def examine_installation() -> tuple[Finding, ...]:
    """This package, the places where runtimes are looked for, and the runtimes that are there."""
    from dotnetdiag.recipes.processes import list_foreign_sockets, list_processes, runtime_text

    found = [
        Finding(
            code="version",
            ok=True,
            text=f"dotnetdiag {__version__}, Python {platform.python_version()} on {sys.platform}",
            advice="",
        ),
        _kernels(),
    ]
    folder = os.environ.get("TMPDIR") or tempfile.gettempdir()
    usable = os.access(folder, os.R_OK | os.X_OK)
    found.append(
        Finding(
            code="temp-folder",
            ok=usable,
            text=f"sockets are looked for in {folder}, and in the TMPDIR of each process",
            advice="" if usable else "the folder cannot be listed: set TMPDIR to the one the programs use",
        )
    )
    processes = list_processes()
    for process in processes:
        who = f"{process.pid} {process.name} {runtime_text(process)}".rstrip()
        found.append(
            Finding(
                code="runtime",
                ok=not process.problem,
                text=f"{who}: {process.problem or 'answers'}",
                advice="",
            )
        )
    foreign = list_foreign_sockets(processes)
    for path in foreign:
        text = f"a runtime whose process is not seen from here listens at {path}"
        found.append(Finding(code="foreign-runtime", ok=True, text=text, advice=""))
    if not processes and not foreign:
        found.append(
            Finding(
                code="no-runtimes",
                ok=True,
                text="no running .NET process was found",
                advice="start one, or ask about a process that should be there",
            )
        )
    return tuple(found)


def _kernels() -> Finding:
    from dotnetdiag.events import kernels as payloads
    from dotnetdiag.heap import kernels as heaps
    from dotnetdiag.nettrace import kernels as headers
    from dotnetdiag.server import kernels as frames
    from dotnetdiag.trace import kernels as stacks

    if any(room.KERNELS is None for room in (headers, payloads, stacks)):
        text = "the decoders are not compiled: reading traces works, but about 20 times slower"
    elif heaps.KERNELS is None:
        text = "the kernels of heaps are not compiled: reading them works, but about 50 times slower"
    elif frames.KERNELS is None:
        text = "the sampler is not compiled: the stacks of Python programs are taken, but at a higher cost"
    else:
        return Finding(code="kernels", ok=True, text="the decoders are compiled", advice="")
    return Finding(
        code="kernels",
        ok=True,
        level="warning",
        text=text,
        advice=f"install a C compiler and Python's headers (Debian: gcc, python3-dev), then: {_reinstall()}",
    )


def _reinstall() -> str:
    """What makes pip build this installation anew, from where it came.

    pip keeps the wheels that it has built, also those without kernels: hence ``--no-cache-dir``. From an index it takes a
    compiled wheel where there is one for this platform, and compiles the sdist elsewhere.
    """
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    try:
        text = metadata.distribution("dotnetdiag").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    origin = json.loads(text or "{}")
    source = f"dotnetdiag=={__version__}"
    if "dir_info" in origin:
        source = shlex.quote(url2pathname(urlsplit(origin["url"]).path))
        source = f"-e {source}" if origin["dir_info"].get("editable") else source
    elif "archive_info" in origin and not origin["url"].endswith(".whl"):
        source = shlex.quote(origin["url"])
    return f"pip install --force-reinstall --no-deps --no-cache-dir {source}"
