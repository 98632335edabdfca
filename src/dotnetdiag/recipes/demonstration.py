"""Start a small .NET program of our own and record it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag.client import Client
from dotnetdiag.errors import ProcessNotFound, UnsupportedCommand
from dotnetdiag.recipes.collect import Collected, CollectOptions, Watch, collect
from dotnetdiag.recipes.runtimes import DotnetHost, find_hosts
from dotnetdiag.recipes.target import Target

if TYPE_CHECKING:
    from dotnetdiag.recipes.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class Demonstration:
    """What the demo did. ``info`` is empty where the runtime cannot say who it is (.NET Core 3.x)."""

    host: DotnetHost
    pid: int
    info: dict[str, str]
    collected: Collected
    report: Report
    flame_graph: Path


def demonstrate(
    output: Path,
    *,
    duration_s: float = 5.0,
    top: int = 8,
    started: Callable[[DotnetHost, int, dict[str, str]], None],
    watch: Watch,
) -> Demonstration:
    """Run the demo program on the best runtime found and record it. The program is ended whatever happens."""
    hosts = find_hosts()
    if not hosts:
        raise ProcessNotFound(
            "no .NET runtime was found: set DOTNET_ROOT, put dotnet on PATH, or pip install 'dotnetdiag[demo]'"
        )
    host = hosts[0]
    with as_file(files("dotnetdiag.recipes") / "demo") as folder:
        environment = {**os.environ, "DOTNET_ROOT": str(host.path.parent)}
        child = subprocess.Popen(
            [str(host.path), str(folder / "demo.dll")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        try:
            assert child.stdout is not None
            if child.stdout.readline().strip() != b"ready":
                raise ProcessNotFound(f"the demo program did not start on {host.path}", pid=child.pid)
            client, info = Client(child.pid), {}
            with suppress(UnsupportedCommand):
                told = client.process_info()
                info = {
                    "entry assembly": told.entry_assembly,
                    "runtime": told.runtime_version,
                    "system": f"{told.os} {told.arch}",
                    "command line": told.command_line,
                }
            started(host, child.pid, info)
            options = CollectOptions(target=Target(pid=child.pid), output=output, duration=duration_s)
            collected = collect(options, watch)
        finally:
            child.kill()
            child.communicate()
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file
    from dotnetdiag.recipes.report import ReportOptions, ViewOptions, report
    from dotnetdiag.trace.method_names import Style

    view = ViewOptions(style=Style.SHORT)
    (drawn,) = convert_file(collected.path, ["flamegraph"], options=ConvertOptions(view=view, force=True))
    return Demonstration(
        host=host,
        pid=child.pid,
        info=info,
        collected=collected,
        report=report(collected.path, ReportOptions(number=top, view=view)),
        flame_graph=drawn.path,
    )
