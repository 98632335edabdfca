"""``python -m dotnetdiag.server script.py …`` and ``python -m dotnetdiag.server -m module …``: run it, and answer tools for .NET meanwhile."""

from __future__ import annotations

import runpy
import sys

from dotnetdiag.server.installing import install

USAGE = "usage: python -m dotnetdiag.server SCRIPT [ARGUMENT ...] | -m MODULE [ARGUMENT ...]"


def main() -> None:
    """As ``python`` itself does with these words."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help") or (words[0] == "-m" and len(words) == 1):
        is_asked = bool(words) and words[0] in ("-h", "--help")
        print(USAGE, file=sys.stdout if is_asked else sys.stderr)
        sys.exit(0 if is_asked else 2)
    is_module = words[0] == "-m"
    sys.argv[:] = words[1:] if is_module else words
    install()
    if is_module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        import os

        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    main()
