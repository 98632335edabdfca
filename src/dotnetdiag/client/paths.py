"""Paths that a target is told."""

from __future__ import annotations

import ntpath
import os
import posixpath


def absolute_path(path: str) -> str:
    """A path that is absolute on any system, as it is: the target may run on another one than we do. Another one from our working
    directory; an empty one stays empty (the runtime then chooses).
    """
    if not path or posixpath.isabs(path) or ntpath.isabs(path):
        return path
    return os.path.abspath(path)
