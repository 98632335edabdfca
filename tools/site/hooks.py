"""What the site takes from the code: the command line's reference, and the check that everything public has a place (mkdocs' hooks).

The build is strict, so that a warning ends it.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import re
from collections.abc import Iterable, Iterator
from enum import EnumType
from functools import cached_property
from pathlib import Path
from typing import Any, get_origin

import click

import dotnetdiag
import dotnetdiag.server
import dotnetdiag.testing
from dotnetdiag.cli.commands import commands
from dotnetdiag.cli.lazy import Kinds
from dotnetdiag.client.commands import Command

log = logging.getLogger("mkdocs.hooks.dotnetdiag")
VERBS = "<!-- verbs -->"
"""Stands on a page where the help of every verb is to be."""
WIDTH = 80


def verbs(command: click.Command, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """A command and all below it."""
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from verbs(below, click.Context(below, info_name=name, parent=context, max_content_width=WIDTH))


def all_verbs() -> list[tuple[click.Command, click.Context]]:
    """Of the whole command line."""
    return list(verbs(commands, click.Context(commands, info_name="dotnetdiag", max_content_width=WIDTH)))


_CODE = re.compile(r"^( *)(```+)[^\n]*\n(.*?)^\1\2 *$|(`+)([^`\n]+)\4(?!`)", re.MULTILINE | re.DOTALL)


def code_of(docs: Path) -> str:
    """What the pages show as code, but the reference that is made of the verbs themselves."""
    pages = (page.read_text(encoding="utf-8") for page in sorted(docs.rglob("*.md")))
    return "\n".join(
        block[3] or block[5] or "" for page in pages if VERBS not in page for block in _CODE.finditer(page)
    )


def unshown(contexts: Iterable[click.Context], docs: Path) -> list[str]:
    """Verbs that no page lets its reader type; ``ps`` of another verb is an alias."""
    shown = re.sub(r"\\\n\s*", "", code_of(docs))
    paths = {context.command_path: typed(context) for context in contexts}
    is_alias = {path for path in paths if path.endswith(" ps") and path.count(" ") > 1}
    return [path for path, pattern in paths.items() if path not in is_alias and not re.search(pattern, shown)]


def typed(context: click.Context) -> str:
    """A pattern: the verb as it is typed, a kind also behind its file (``report FILE topN``)."""
    parent, name = context.parent, re.escape(str(context.info_name))
    if parent is None:
        return rf"(?<![\w./-]){name}(?![\w.-])"
    file = r"(?:\S+ +)?" if isinstance(parent.command, Kinds) else ""
    return rf"{typed(parent)} +{file}{name}(?![\w.-])"


def headings(page: str) -> dict[str, bool]:
    """The id of each heading of the Python reference on a built page, and whether text stands below it."""
    parts = re.split(r'<h\d id="([^"]+)" class="doc doc-heading"', page)[1:]
    return {name: "<p>" in text for name, text in zip(parts[::2], parts[1::2], strict=True)}


def without_docstring(thing: Any, name: str) -> Iterator[str]:
    """The thing, and each public method of it, that says nothing of itself; what dataclasses say is their signature."""
    if get_origin(thing) is not None:  # a type's other name, which has its text on the page alone
        return
    text = getattr(thing, "__doc__", None) or ""
    if not text.strip() or (isinstance(thing, type) and text.startswith(f"{thing.__name__}(")):
        yield name
    if isinstance(thing, type):
        for member in dir(thing):
            owner = next((one for one in thing.__mro__ if member in vars(one)), object)
            is_ours = owner.__module__.partition(".")[0] == thing.__module__.partition(".")[0]
            if is_ours and not member.startswith("_") and _is_method(inspect.getattr_static(thing, member)):
                value = inspect.getattr_static(thing, member)
                value = value if isinstance(value, property | cached_property) else getattr(thing, member)
                yield from without_docstring(value, f"{name}.{member}")


def _is_method(member: Any) -> bool:
    """And no field of a dataclass, nor a class within the class."""
    kinds = (property, cached_property, classmethod, staticmethod, Command)
    return isinstance(member, kinds) or inspect.isfunction(member)


def shown_names(docs: Path) -> set[str]:
    """What the pages have sections of."""
    return {name for page in docs.rglob("*.md") for name in _SECTION.findall(page.read_text(encoding="utf-8"))}


_SECTION = re.compile(r"^::: *([\w.]+) *$", re.MULTILINE)


def thing_of(name: str) -> Any:
    """What a dotted name is: an attribute of a module."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def anchor(path: str) -> str:
    """Of a verb's heading."""
    return path.replace(" ", "-")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the verbs where they belong."""
    if VERBS not in markdown:
        return markdown
    os.environ["COLUMNS"] = str(WIDTH)
    sections = [
        f"{'#' * (2 if path.count(' ') < 2 else 3)} {path} {{ #{anchor(path)} }}\n\n```text\n{command.get_help(context)}\n```\n"
        for command, context in all_verbs()
        for path in [context.command_path]
    ]
    return markdown.replace(VERBS, "\n".join(sections))


def problems(site: Path, docs: Path) -> Iterator[str]:
    """Public names that no page has or says nothing of, methods without a docstring, verbs without a help, a page or an example."""
    pages = [page.read_text(encoding="utf-8") for page in site.rglob("*.html")]
    ids = {one for page in pages for one in re.findall(r'\bid="([^"]+)"', page)}
    told = {name: says for page in pages for name, says in headings(page).items()}
    for role in sorted(
        {role for page in pages for role in re.findall(r":(?:class|meth|func|attr|data|mod|exc):<", page)}
    ):
        yield f"{role.removesuffix('<')} is shown as it is: tools/site/annotations.py"
    public = {
        f"{package.__name__}.{name}"
        for package in (dotnetdiag, dotnetdiag.server, dotnetdiag.testing)
        for name in dir(package)
        if not name.startswith("_")
    }
    for name in sorted(public - told.keys()):
        yield f"{name} is on no page: docs/reference/python"
    yield from (f"{name}: nothing is said of it on its page" for name, says in sorted(told.items()) if not says)
    for name in sorted(public | shown_names(docs)):
        thing = thing_of(name)
        yield from (f"{one} has no docstring" for one in without_docstring(thing, name))
        members = thing.__members__ if isinstance(thing, EnumType) else ()
        yield from (
            f"{name}.{one} is not on its page: it has no docstring" for one in members if f"{name}.{one}" not in told
        )
    for command, context in all_verbs():
        if anchor(context.command_path) not in ids:
            yield f"{context.command_path} is on no page: docs/reference/cli.md"
        if not (command.help or "").strip():
            yield f"{context.command_path} has no help"
    yield from (f"no page shows {path}: docs/how-to" for path in unshown((context for _, context in all_verbs()), docs))


def on_post_build(config: Any) -> None:
    """Warn of all that is missing."""
    for problem in problems(Path(config["site_dir"]), Path(config["docs_dir"])):
        log.warning(problem)
