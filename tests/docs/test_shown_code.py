"""The pages show the code of ``examples`` as it is: also to who reads them in the repository."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.examples import CHECKOUT, files, texts, with_code

NAME = "examples/who_is_there.py"
CODE = (CHECKOUT / NAME).read_text("utf-8")


@pytest.mark.parametrize("page", texts(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_a_page_shows_each_example_as_the_file_is(page: Path) -> None:
    text = page.read_text("utf-8")
    assert text == with_code(text), "an example has changed: python -m tests.docs.examples"


@pytest.mark.parametrize("page", texts(), ids=lambda page: str(page.relative_to(CHECKOUT)))
def test_no_page_includes_what_is_not_seen_in_the_repository(page: Path) -> None:
    assert "--8<--" not in page.read_text("utf-8"), "<!-- examples/NAME.py --> above a python block instead"


def test_pages_show_examples() -> None:
    assert CHECKOUT / "examples" / "ten_lines.py" in files(CHECKOUT / "docs" / "index.md")


@pytest.mark.parametrize("old", ["", "x = 1\n", CODE + "\n", CODE[1:]])
def test_what_differs_is_written_anew_and_nothing_else(old: str) -> None:
    def page(code: str) -> str:
        return f"Text.\n\n<!-- {NAME} -->\n```python\n{code}```\n\n```python\nx = 1\n```\n"

    assert with_code(page(old)) == page(CODE)
    assert with_code(page(CODE)) == page(CODE)


def test_a_block_in_a_list_stays_in_it() -> None:
    page = with_code(f"1. One\n\n    <!-- {NAME} -->\n    ```python\n    ```\n\n    More.\n")
    lines = page.splitlines()
    assert lines[:4] == ["1. One", "", f"    <!-- {NAME} -->", "    ```python"]
    assert [line.removeprefix("    ") for line in lines[4:-3]] == CODE.splitlines()
    assert lines[-3:] == ["    ```", "", "    More."]
    assert not [line for line in lines if line.isspace()]


@pytest.mark.parametrize("below", ["", "Text.\n", "\n```python\n```\n", "```sh\n```\n", "```python\n"])
def test_a_comment_without_a_block_right_below_it_is_an_error(below: str) -> None:
    whole = f"<!-- {NAME} -->\n```python\n```\n"
    with pytest.raises(ValueError, match=f"no python block right below the comment: {NAME}"):
        with_code(f"{whole}\n<!-- {NAME} -->\n{below}")


def test_a_comment_that_names_no_file_is_an_error() -> None:
    with pytest.raises(FileNotFoundError, match="not_there"):
        with_code("<!-- examples/not_there.py -->\n```python\n```\n")
