"""Pictures of counters, in files."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from dotnetdiag.errors import MissingDependency, UsageError
from dotnetdiag.recipes.outputs import check_outputs, replacing

if TYPE_CHECKING:
    from dotnetdiag.analysis.counters import Counters

PLOTS = {".html": "dotnetdiag.export.counter_page", ".png": "dotnetdiag.export.counter_picture"}
"""Suffix → what writes it."""


def check_plot(path: Path, *, force: bool = False, sources: Sequence[Path] = ()) -> None:
    """Raises UsageError for a name that ends in none of the suffixes, or that of one of ``sources``, MissingDependency for want of what draws,
    and OutputExists or OutputError as for any file: before anything is read.
    """
    if path.suffix.lower() not in PLOTS:
        raise UsageError(f"{path}: a picture is a page, NAME.html, or NAME.png")
    if path.suffix.lower() == ".png" and find_spec("matplotlib") is None:
        raise MissingDependency("matplotlib", extra="plot", purpose="a picture as PNG")
    check_outputs([path], force=force, sources=sources)


def write_plot(counters: Counters, path: Path, *, name: str = "", force: bool = False) -> None:
    """Draw each series over time, as the name of the file says. ``name`` is that of the recording. Raises as :func:`check_plot`."""
    check_plot(path, force=force)
    with replacing(path, force=force) as file:
        import_module(PLOTS[path.suffix.lower()]).write(counters, file, name=name)
