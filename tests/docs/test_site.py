"""What the site's build finds missing."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import pytest
from tests.docs.examples import files
from tests.docs.pages import DOCS

import dotnetdiag
import dotnetdiag.server
from dotnetdiag.client.limits import TIMEOUT_S


def tool(name: str) -> ModuleType:
    """A module of tools/site."""
    spec = importlib.util.spec_from_file_location(name, DOCS.parent / "tools" / "site" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HOOKS = tool("hooks")


@pytest.mark.parametrize(
    ("page", "is_shown"),
    [
        ("```console\n$ dotnetdiag completion bash > x\n```\n", True),
        ("```sh\ndotnetdiag \\\n    completion bash\n```\n", True),
        ("Type `dotnetdiag completion zsh`.\n", True),
        ("1. One\n\n    ```sh\n    dotnetdiag completion\n    ```\n", True),
        ("dotnetdiag has completion.\n", False),
        ("```console\n```\n", False),
        ("`dotnetdiag trace collect`, then completion\n", False),
        ("```text\ndotnetdiag trace collect completion\n```\n", False),
        ("```text\ncomplete -F _dotnetdiag completion\n```\n", False),
        ("`dotnetdiag completion-of-something`\n", False),
        ("<!-- verbs -->\n\n`dotnetdiag completion`\n", False),
    ],
)
def test_a_verb_is_shown_where_a_page_lets_its_reader_type_it(page: str, is_shown: bool, tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text(page, encoding="utf-8")
    missing = HOOKS.unshown([context for _, context in HOOKS.all_verbs()], tmp_path)
    assert ("dotnetdiag completion" not in missing) == is_shown
    assert "dotnetdiag ps" in missing
    assert "dotnetdiag trace ps" not in missing


def test_a_verb_stands_behind_the_argument_of_the_one_above_it(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text("`dotnetdiag trace report x.nettrace topN`\n", encoding="utf-8")
    missing = HOOKS.unshown([context for _, context in HOOKS.all_verbs()], tmp_path)
    assert "dotnetdiag trace report topN" not in missing
    assert "dotnetdiag trace report spans" in missing


def test_the_pages_show_every_verb() -> None:
    assert not HOOKS.unshown([context for _, context in HOOKS.all_verbs()], DOCS)


def test_what_an_example_imports_is_installed_by_a_line_of_its_page() -> None:
    for page in DOCS.rglob("*.md"):
        text = page.read_text("utf-8")
        for file in files(page):
            names = {
                alias.name
                for node in ast.walk(ast.parse(file.read_text("utf-8")))
                if isinstance(node, ast.Import)
                for alias in node.names
            }
            for name in names - sys.stdlib_module_names - {"dotnetdiag"}:
                assert re.search(rf"pip install .*\b{name}\b", text), f"{page.name}: {file.name} needs {name}"


def said() -> None:
    """Something."""


def silent() -> None: ...


class Thing:
    """A thing."""

    def told(self) -> None:
        """Something."""

    def untold(self) -> None: ...

    @property
    def fact(self) -> int:
        return 1

    @classmethod
    def made(cls) -> None: ...

    def _ours(self) -> None: ...


@dataclass
class Values:
    x: int


@pytest.mark.parametrize(
    ("thing", "missing"),
    [
        (said, []),
        (silent, ["x"]),
        (Values, ["x"]),
        (Thing, ["x.fact", "x.made", "x.untold"]),
        (dotnetdiag.AsyncClient, []),
        (dotnetdiag.DumpType, []),
        (dotnetdiag.server.Handler, []),
    ],
)
def test_what_has_no_docstring(thing: Any, missing: list[str]) -> None:
    assert list(HOOKS.without_docstring(thing, "x")) == missing


def test_a_heading_without_text_below_it_says_nothing() -> None:
    page = (
        '<h3 id="a.b" class="doc doc-heading">b</h3><pre>b()</pre>'
        '<h4 id="a.b.c" class="doc doc-heading">c</h4><p>Text.</p>'
        '<h3 id="a.d" class="doc doc-heading">d</h3>'
    )
    assert HOOKS.headings(page) == {"a.b": False, "a.b.c": True, "a.d": False}


def test_the_build_tells_of_a_name_without_a_section_and_of_one_without_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "x.html").write_text('<h3 id="dotnetdiag.open" class="doc doc-heading">open</h3>', encoding="utf-8")
    monkeypatch.setattr(HOOKS, "commands", click.Group("dotnetdiag", commands=[click.Command("mute")]))
    found = list(HOOKS.problems(tmp_path, tmp_path))
    assert "dotnetdiag.cpu is on no page: docs/reference/python" in found
    assert "dotnetdiag.server.Refused is on no page: docs/reference/python" in found
    assert "dotnetdiag.open is on no page: docs/reference/python" not in found
    assert "dotnetdiag.open: nothing is said of it on its page" in found
    assert "dotnetdiag mute is on no page: docs/reference/cli.md" in found
    assert "dotnetdiag mute has no help" in found
    assert "no page shows dotnetdiag mute: docs/how-to" in found
    (tmp_path / "y.html").write_text("<p>As :meth:<code>x</code></p>", encoding="utf-8")
    assert ":meth: is shown as it is: tools/site/annotations.py" in HOOKS.problems(tmp_path, tmp_path)


def test_public_names_are_shown_as_what_they_stand_for() -> None:
    import griffe

    extensions = griffe.load_extensions(tool("annotations").Readable)
    package = griffe.load("dotnetdiag", search_paths=[DOCS.parent / "src"], extensions=extensions)
    assert package["open"].is_function
    assert package["open"].path == "dotnetdiag.open"
    assert package["processes"].docstring.value
    assert str(package["Client.trace"].returns) == "TraceSession"
    assert str(package["AsyncClient.trace"].returns) == "AsyncTraceSession"
    assert "async" in package["AsyncClient.trace"].labels
    assert "async" not in package["Client.trace"].labels
    assert ":func:" not in package["diff"].docstring.value
    assert 'identifier="dotnetdiag.recipes.verbs.report"' in package["diff"].docstring.value


def test_a_member_of_an_enumeration_without_a_docstring_is_told(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text(
        '<h3 id="dotnetdiag.DumpType" class="doc doc-heading"></h3><p>Text.</p>'
        '<h4 id="dotnetdiag.DumpType.MINI" class="doc doc-heading"></h4><p>Text.</p>',
        encoding="utf-8",
    )
    found = list(HOOKS.problems(tmp_path, tmp_path))
    assert any(one.startswith("dotnetdiag.DumpType.HEAP is not on its page") for one in found)
    assert not any(one.startswith("dotnetdiag.DumpType.MINI") for one in found)


def test_signatures_have_numbers_in_place_of_the_names_of_constants() -> None:
    import griffe

    package = griffe.load(
        "dotnetdiag",
        search_paths=[DOCS.parent / "src"],
        extensions=griffe.load_extensions(tool("annotations").Readable),
    )
    assert package["Client.connect"].parameters["timeout_s"].default == str(TIMEOUT_S)
    assert str(package["Client.write_dump"].parameters["dump_type"].default) == "DumpType.FULL"
