"""Find a .NET runtime to start a program with: ``DOTNET_ROOT``, ``dotnet`` on PATH, the one from PyPI."""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from dotnetdiag._dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DotnetHost:
    """A ``dotnet`` executable and the newest shared runtime beside it."""

    path: Path
    version: str
    source: str


def find_hosts() -> list[DotnetHost]:
    """All hosts found, the one with the newest runtime first."""
    name = "dotnet.exe" if sys.platform == "win32" else "dotnet"
    places: list[tuple[str, Path]] = []
    if root := os.environ.get("DOTNET_ROOT"):
        places.append(("DOTNET_ROOT", Path(root) / name))
    if found := shutil.which("dotnet"):
        places.append(("PATH", Path(found).resolve()))
    spec = find_spec("dotnetcore2")
    if spec is not None and spec.origin:
        places.append(("dotnetcore2", Path(spec.origin).parent / "bin" / name))
    hosts = []
    for source, path in places:
        shared = path.parent / "shared" / "Microsoft.NETCore.App"
        versions = [entry.name for entry in shared.iterdir()] if path.is_file() and shared.is_dir() else []
        if versions:
            hosts.append(DotnetHost(path=path, version=max(versions, key=_order), source=source))
    return sorted(hosts, key=lambda host: _order(host.version), reverse=True)


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdecimal() else -1 for part in version.partition("-")[0].split("."))
