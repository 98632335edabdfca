"""Programs in C# that a test brings along, compiled for .NET 8, which 9 and 10 run too, or for ASP.NET Core 10."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.live.runtimes import CACHE, unpack

FRAMEWORK = '{"runtimeOptions":{"tfm":"net8.0","framework":{"name":"Microsoft.NETCore.App","version":"8.0.0"}}}'
ASPNET = '{"runtimeOptions":{"tfm":"net10.0","framework":{"name":"Microsoft.AspNetCore.App","version":"10.0.0"}}}'


def compiled(source: str, folder: Path, name: str, *options: str, is_aspnet: bool = False) -> Path:
    """``folder/name.dll``: give it to the words of :func:`tests.live.runtimes.command` in the place of the workload. ``options`` are the
    compiler's (``-debug:portable``).
    """
    runtimes = unpack()
    (folder / f"{name}.cs").write_text(source, encoding="utf-8")
    frameworks = ("NETCore.App/10.0.14", "AspNetCore.App/10.0.14") if is_aspnet else ("NETCore.App/8.0.33",)
    folders = [runtimes / "dotnet/shared" / f"Microsoft.{one}" for one in frameworks]
    references = [f"-r:{path}" for one in folders for path in one.glob("*.dll")]
    compiler = [str(runtimes / "dotnet/dotnet"), str(runtimes / "bincore/csc.dll"), "-nologo", "-noconfig", "-nostdlib"]
    subprocess.run(
        [*compiler, *options, *references, f"-out:{folder / name}.dll", str(folder / f"{name}.cs")],
        env={**os.environ, "DOTNET_ROOT": str(CACHE / "dotnet"), "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"},
        check=True,
        capture_output=True,
        timeout=120,
    )
    (folder / f"{name}.runtimeconfig.json").write_text(ASPNET if is_aspnet else FRAMEWORK, encoding="ascii")
    return folder / f"{name}.dll"
