"""What the site takes from the code: the command line's reference, and the check that everything public has a place (mkdocs' hooks).

The build is strict, so that a warning ends it.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import dotnetdiag
from dotnetdiag.cli.commands import commands

log = logging.getLogger("mkdocs.hooks.dotnetdiag")
VERBS = "<!-- verbs -->"
"""Stands on a page where the help of every verb is to be."""
WIDTH = 80


def verbs(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """(path, help) of a command and of all below it."""
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from verbs(below, click.Context(below, info_name=name, parent=context, max_content_width=WIDTH))


def all_verbs() -> list[tuple[str, str]]:
    """Of the whole command line."""
    return list(verbs(commands, click.Context(commands, info_name="dotnetdiag", max_content_width=WIDTH)))


def pages_that_show(docs: Path) -> str:
    """All pages but the reference, as one text."""
    return "\n".join(page.read_text(encoding="utf-8") for page in docs.rglob("*.md") if page.name != "cli.md")


def anchor(path: str) -> str:
    """Of a verb's heading."""
    return path.replace(" ", "-")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the verbs where they belong."""
    if VERBS not in markdown:
        return markdown
    os.environ["COLUMNS"] = str(WIDTH)
    sections = [
        f"{'#' * (2 if path.count(' ') < 2 else 3)} {path} {{ #{anchor(path)} }}\n\n```text\n{text}\n```\n"
        for path, text in all_verbs()
    ]
    return markdown.replace(VERBS, "\n".join(sections))


def on_post_build(config: Any) -> None:
    """Warn of a public name that no page has, and of a verb that nothing but its help shows."""
    ids: set[str] = set()
    for page in Path(config["site_dir"]).rglob("*.html"):
        ids |= set(re.findall(r'\bid="([^"]+)"', page.read_text(encoding="utf-8")))
    for name in sorted(set(dir(dotnetdiag))):
        if not name.startswith("_") and f"dotnetdiag.{name}" not in ids:
            log.warning("dotnetdiag.%s is on no page: docs/reference/python", name)
    shown = pages_that_show(Path(config["docs_dir"]))
    for path, _ in all_verbs():
        if anchor(path) not in ids:
            log.warning("%s is on no page: docs/reference/cli.md", path)
        is_alias = path.endswith(" ps") and path.count(" ") > 1
        if not is_alias and not re.search(r"\b[^\n]*?\b".join(map(re.escape, path.split())), shown):
            log.warning("no page shows %s: docs/how-to", path)
