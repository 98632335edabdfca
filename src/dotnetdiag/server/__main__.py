"""``python -m dotnetdiag.server script.py …`` and ``python -m dotnetdiag.server -m module …``: run it, and answer tools for .NET meanwhile.

``--install-hook`` has every program of this environment do so where ``DOTNETDIAG_ENABLE=1`` is set, and ``--remove-hook`` takes that back.
"""

from __future__ import annotations

import builtins
import os
import runpy
import sys
from importlib.machinery import SourceFileLoader
from pkgutil import get_importer
from types import CodeType, ModuleType

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
    if not is_module:
        _require_script(words[0])
        # the folder of what a link points to, as python has it; of a folder or an archive itself
        is_file = _is_plain_file(words[0])
        sys.path[0] = os.path.dirname(os.path.realpath(words[0])) if is_file else os.path.abspath(words[0])
    install()
    program = sys.modules["__main__"] = ModuleType("__main__")
    program.__dict__.update(__builtins__=builtins, __annotations__={})
    if is_module:
        runpy._run_module_as_main(words[1])  # type: ignore[attr-defined] # what python itself calls, and pdb, for its own messages
    elif is_file:
        _run_file(os.path.abspath(words[0]), program)
    else:
        runpy._run_module_as_main("__main__", alter_argv=False)  # type: ignore[attr-defined]


class _Script(SourceFileLoader):
    """Leaves no bytecode beside the script, as ``python`` does."""

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - of SourceFileLoader
        return self.source_to_code(self.get_data(self.path), self.path)


def _run_file(path: str, program: ModuleType) -> None:
    program.__dict__.update(__file__=path, __cached__=None, __loader__=SourceFileLoader("__main__", path))
    _Script("__main__", path).exec_module(program)


def _is_plain_file(path: str) -> bool:
    """Not a folder, nor an archive with a ``__main__.py``."""
    return get_importer(path) is None


def _require_script(path: str) -> None:
    """Ends as ``python`` does where there is none."""
    try:
        with open(path, "rb"):
            return
    except IsADirectoryError:  # one with a __main__.py
        return
    except OSError as exc:
        print(f"{sys.executable}: can't open file {path!r}: [Errno {exc.errno}] {exc.strerror}", file=sys.stderr)
        sys.exit(2)


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
