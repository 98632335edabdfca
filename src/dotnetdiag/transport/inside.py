"""Paths inside of another root directory."""

from __future__ import annotations

import os

MOST_LINKS = 40
"""Symbolic links followed in one path: the kernel's own limit."""


def resolve_inside(root: str, path: str) -> str | None:
    """``path`` below ``root``, as a process sees it that has this root: links and ``..`` never lead out.

    A part that does not exist is kept, so that opening the path says so. None after 40 links.
    """
    rest = [part for part in reversed(path.split("/")) if part not in ("", ".")]
    done: list[str] = []
    links = 0
    while rest:
        part = rest.pop()
        if part == "..":
            del done[-1:]
            continue
        try:
            target = os.readlink("/".join([root, *done, part]))
        except (OSError, ValueError):
            done.append(part)
            continue
        links += 1
        if links > MOST_LINKS:
            return None
        if target.startswith("/"):
            done.clear()
        rest.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
    return "/".join([root, *done])
