"""What nobody runs in an image of dotnetdiag is taken away: ``python tools/slim_image.py [SITE_PACKAGES]``.

Without a folder that of the running Python, and of Python itself what installs, develops and draws. See Containerfile.
"""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

PACKAGES = (
    "pip",
    "pip-*.dist-info",
    "**/tests",
    "**/*.pyi",
    "**/*.pxd",
    "numpy/f2py",
    "numpy/_pyinstaller",
    "numpy/_core/include",
    "numpy/_core/lib",
    "numpy/random/lib",
    "numpy/_core/_*_tests.*.so",
    "numpy/_core/_simd.*.so",
    "pygments",
    "pygments-*.dist-info",
)
"""What installs, what types are checked with, what C is compiled with, tests with their kernels, and what colours sources
(rich asks for it only where it shows some, and we show none)."""
PYTHON = ("ensurepip", "idlelib", "lib2to3", "pydoc_data", "test", "tkinter", "turtle.py", "turtledemo", "config-*")


def remove(folder: Path, patterns: Iterable[str]) -> None:
    """Files and folders in ``folder``."""
    for pattern in patterns:
        for path in list(folder.glob(pattern)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)


def size_bytes(folder: Path) -> int:
    """Of all files in it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def main(arguments: list[str]) -> None:
    """Remove, and say how large what is left is."""
    paths = sysconfig.get_paths()
    packages = Path(arguments[0] if arguments else paths["purelib"])
    remove(packages, PACKAGES)
    if not arguments:
        remove(Path(paths["stdlib"]), PYTHON)
        remove(Path(paths["scripts"]), ("pip*", "idle*", "pydoc*", "2to3*", "python*-config"))
        remove(Path(paths["include"]).parent, ("*",))
    print(f"{packages}: {size_bytes(packages) / 1e6:.1f} MB")


if __name__ == "__main__":
    main(sys.argv[1:])
