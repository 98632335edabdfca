"""``python -m dotnetdiag.server script.py …`` and ``python -m dotnetdiag.server -m module …``: run it, and answer tools for .NET meanwhile.

``--install-hook`` has every program of this environment do so where ``DOTNETDIAG_ENABLE=1`` is set, and ``--remove-hook`` takes that back.
"""

from __future__ import annotations

import runpy
import sys

from dotnetdiag.errors import UsageError
from dotnetdiag.server.installing import install

USAGE = "usage: python -m dotnetdiag.server SCRIPT [ARGUMENT ...] | -m MODULE [ARGUMENT ...] | --install-hook | --remove-hook"


def main() -> None:
    """As ``python`` itself does with these words."""
    words = sys.argv[1:]
    if not words or words[0] in ("-h", "--help") or (words[0] == "-m" and len(words) == 1):
        is_asked = bool(words) and words[0] in ("-h", "--help")
        print(USAGE, file=sys.stdout if is_asked else sys.stderr)
        sys.exit(0 if is_asked else 2)
    if words in (["--install-hook"], ["--remove-hook"]):
        sys.exit(_change_hook(install_it=words == ["--install-hook"]))
    is_module = words[0] == "-m"
    sys.argv[:] = words[1:] if is_module else words
    install()
    if is_module:
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        import os

        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def _change_hook(*, install_it: bool) -> int:
    """The exit code."""
    from dotnetdiag.server.enabling import VARIABLE
    from dotnetdiag.server.pth_file import install_hook, remove_hook

    try:
        if install_it:
            print(f"wrote {install_hook()}: with {VARIABLE}=1 every program of this environment answers tools for .NET")
        else:
            removed = remove_hook()
            print(f"removed {removed}" if removed is not None else "there is no hook in this environment")
    except UsageError as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    main()
