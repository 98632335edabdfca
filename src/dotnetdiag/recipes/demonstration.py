"""A small .NET program of our own: run it, and record it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.resources import as_file, files
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.client import Client
from dotnetdiag.errors import ProcessNotFound, UnsupportedCommand
from dotnetdiag.recipes.collect import Collected, CollectOptions, Observer, collect
from dotnetdiag.recipes.outputs import check_outputs
from dotnetdiag.recipes.runtimes import DotnetHost, find_hosts
from dotnetdiag.recipes.stop import Stop
from dotnetdiag.recipes.target import Target

if TYPE_CHECKING:
    from dotnetdiag.recipes.report import Report


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoProgram:
    """The demo program while it runs."""

    host: DotnetHost
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid


@contextmanager
def demo_program() -> Iterator[DemoProgram]:
    """Run the demo program on the best runtime found. It ends with the block, and with this process whatever ends that: its input ends then.

    Raises ProcessNotFound when there is no runtime, or when the program does not start on it.
    """
    hosts = find_hosts()
    if not hosts:
        raise ProcessNotFound(
            "no .NET runtime was found: set DOTNET_ROOT, put dotnet on PATH, or pip install 'dotnetdiag[demo]'"
        )
    host = hosts[0]
    with as_file(files("dotnetdiag.recipes") / "demo") as folder:
        process = subprocess.Popen(
            [str(host.path), str(folder / "demo.dll")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "DOTNET_ROOT": str(host.path.parent)},
        )
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != b"ready":
                raise ProcessNotFound(f"the demo program did not start on {host.path}", pid=process.pid)
            yield DemoProgram(host=host, process=process)
        finally:
            process.kill()
            process.communicate()


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
    observer: Observer,
    stop: Stop,
    force: bool = False,
) -> Demonstration:
    """Run the demo program, record it in ``output``, and draw its flame graph beside it. The program is ended whatever happens.

    Raises OutputExists for a file that is there, unless ``force``, before anything is started.
    """
    from dotnetdiag.recipes.exporting import ConvertOptions, convert_file, plan_outputs

    check_outputs([output, *plan_outputs(output, ["flamegraph"]).values()], force=force)
    with demo_program() as program:
        info = {}
        with suppress(UnsupportedCommand):
            told = Client(program.pid).process_info()
            info = {
                "entry assembly": told.entry_assembly,
                "runtime": told.runtime_version,
                "system": f"{told.os} {told.arch}",
                "command line": told.command_line,
            }
        started(program.host, program.pid, info)
        options = CollectOptions(target=Target(pid=program.pid), output=output, duration=duration_s)
        collected = collect(options, observer, stop)
    from dotnetdiag.recipes.report import ReportOptions, ViewOptions, report
    from dotnetdiag.trace.method_names import Style

    view = ViewOptions(style=Style.SHORT)
    (drawn,) = convert_file(collected.path, ["flamegraph"], options=ConvertOptions(view=view, force=True))
    return Demonstration(
        host=program.host,
        pid=program.pid,
        info=info,
        collected=collected,
        report=report(collected.path, ReportOptions(number=top, view=view)),
        flame_graph=drawn.path,
    )
