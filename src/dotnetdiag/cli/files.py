"""Files that verbs read and write: how they are named on the command line, and in what is said of them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import click

from dotnetdiag.errors import OutputError, UsageError

STDIN = Path("/dev/stdin")


class FilePath(click.Path):
    """A file to write, as a ``Path``. A name that ends in a slash is that of a folder, which ``Path`` would forget."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises OutputError for a folder that is not there; click refuses one that is."""
        text = os.fsdecode(value)
        if not text:
            self.fail("an empty name is none", param, ctx)
        if text.endswith(("/", os.sep)) and not os.path.isdir(text):
            raise OutputError(text, "there is no such folder, and no name of a file in it")
        return super().convert(value, param, ctx)


class FileOrFolderPath(FilePath):
    """A file to write; with ``--follow``, which is read first (``is_eager``), the folder of many."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises what ``FilePath`` raises, where it is a file's."""
        if ctx is not None and ctx.params.get("follow"):
            return Path(os.fsdecode(value))
        return super().convert(value, param, ctx)


class RecordingPath(click.Path):
    """A recording to read, as a ``Path``; ``-`` is what standard input brings."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises UsageError where a person would have to type it."""
        if os.fspath(value) == "-":
            if sys.stdin.isatty():
                raise UsageError("a recording is not typed in: give a file, or lead one into stdin")
            return STDIN
        return super().convert(value, param, ctx)


def shown_path(path: Path) -> str:
    """What is said of it: ``-`` is stdout."""
    from dotnetdiag.recipes.outputs import STDOUT

    return "stdout" if path == STDOUT else str(path)
