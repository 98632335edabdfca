"""Fetch what others made and the package carries (``src/dotnetdiag/export/assets``, ``tests/data/export``).

    python tools/vendor_assets.py [--check]

Packages come by ``npm pack`` in the versions below, and are refused when their hash is not the one below; their files are
taken byte for byte. pprof's schema comes with Debian's package golang-github-google-pprof-dev (``apt-get download``) and
is refused likewise. Its descriptor is made by protoc of the PyPI package grpcio-tools, where that is installed; otherwise
the one that is there stays. ``--check`` compares and changes nothing.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ASSETS = ROOT / "src" / "dotnetdiag" / "export" / "assets"
DATA = ROOT / "tests" / "data" / "export"


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package of npm: its hash, and which of its files go where."""

    name: str
    version: str
    sha512: str
    files: dict[str, Path]


PACKAGES = (
    Package(
        name="d3-selection",
        version="3.0.0",
        sha512="fmTRWbNMmsmWq6xJV8D19U/gw/bwrHfNXxrIN+HfZgnzqTHp9jOmKMhsTUjXOJnZOdZY9Q28y4yebKzqDKlxlQ==",
        files={
            "dist/d3-selection.min.js": ASSETS / "d3" / "d3-selection.min.js",
            "LICENSE": ASSETS / "d3" / "LICENSE",
        },
    ),
    Package(
        name="d3-flame-graph",
        version="4.1.3",
        sha512="NijuhJZhaTMwobVgwGQ67x9PovqMMHXBbs0FMHEGJvsWZGuL4M7OsB03v8mHdyVyHhnQYGsYnb5w021e9+R+RQ==",
        files={
            "dist/d3-flamegraph.min.js": ASSETS / "d3-flame-graph" / "d3-flamegraph.min.js",
            "dist/d3-flamegraph.css": ASSETS / "d3-flame-graph" / "d3-flamegraph.css",
            "LICENSE": ASSETS / "d3-flame-graph" / "LICENSE",
        },
    ),
    Package(
        name="speedscope",
        version="1.25.0",
        sha512="cpf9HWTZf1ijLXBJrk87Ve/54tnYx6rlf0gUThvn3ook6h63hLXVOQiMf44PT+XoV503cPfvfiT5gP5vojp6Ag==",
        files={
            "dist/release/file-format-schema.json": DATA / "speedscope.schema.json",
            "LICENSE": DATA / "speedscope.LICENSE",
        },
    ),
)
PROTO_PACKAGE = "golang-github-google-pprof-dev"
PROTO = ASSETS / "pprof" / "profile.proto"
PROTO_SHA256 = "b638dcdbf5b1242f533d67785ab680595ea1e9182ec35fbf9024fad10b192707"


def fetched(package: Package, folder: Path) -> Iterator[tuple[Path, bytes]]:
    """(where it goes, its bytes) of each file."""
    command = ["npm", "pack", "--silent", f"{package.name}@{package.version}"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    archive = folder / f"{package.name}-{package.version}.tgz"
    found = base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != package.sha512:
        raise SystemExit(f"{archive.name}: sha512 is {found}")
    with tarfile.open(archive) as files:
        for name, target in package.files.items():
            member = files.extractfile(f"package/{name}")
            if member is None:
                raise SystemExit(f"{archive.name}: no file {name}")
            yield target, member.read()


def schema(folder: Path) -> tuple[Path, bytes]:
    """pprof's schema."""
    subprocess.run(["apt-get", "download", "-q", PROTO_PACKAGE], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.glob(f"{PROTO_PACKAGE}*.deb")
    subprocess.run(["dpkg", "-x", archive.name, "unpacked"], cwd=folder, check=True)
    (found,) = folder.glob("unpacked/**/profile.proto")
    data = found.read_bytes()
    if hashlib.sha256(data).hexdigest() != PROTO_SHA256:
        raise SystemExit(f"{archive.name}: profile.proto is another one")
    return PROTO, data


def descriptor(folder: Path) -> tuple[Path, bytes] | None:
    """What protoc makes of the schema; None where there is none."""
    made = folder / "profile.desc"
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"-I{PROTO.parent}",
        f"--descriptor_set_out={made}",
        PROTO.name,
    ]
    if subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode:
        print("the descriptor stays as it is: grpcio-tools is not installed")
        return None
    return PROTO.with_suffix(".desc"), made.read_bytes()


def all_files(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """Everything."""
    for package in PACKAGES:
        yield from fetched(package, folder)
    path, data = schema(folder)
    yield path, data
    made = descriptor(folder)
    if made is not None:
        yield made


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    differing = 0
    with tempfile.TemporaryDirectory() as folder:
        for path, data in all_files(Path(folder)):
            same = path.exists() and path.read_bytes() == data
            differing += not same
            print(f"{'same   ' if same else 'differs'} {path.relative_to(ROOT)}")
            if not same and not options.check:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
    if options.check and differing:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
