"""What pages show of ``examples``: below ``<!-- examples/NAME.py -->`` stands that file, whole, as a ``python`` block.

``python -m tests.docs.examples`` writes the blocks anew that say something else.
"""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from textwrap import indent

from tests.docs.pages import DOCS

CHECKOUT = DOCS.parent

_SOURCE = re.compile(r"<!-- *(examples/.*?) *-->")
_BLOCK = re.compile(rf"^(( *){_SOURCE.pattern}\n\2```python\n).*?(?=^\2```$)", re.MULTILINE | re.DOTALL)


def texts() -> list[Path]:
    """All that may show an example."""
    return [CHECKOUT / "README.md", *sorted(DOCS.rglob("*.md"))]


def files(page: Path) -> list[Path]:
    """Files of the checkout that the page shows: its reader saves them."""
    return [CHECKOUT / name for name in _SOURCE.findall(page.read_text("utf-8"))]


def with_code(text: str) -> str:
    """The page with each block as its file is now; ``ValueError`` where a comment has no block below it."""
    alone = Counter(_SOURCE.findall(text)) - Counter(block[3] for block in _BLOCK.finditer(text))
    if alone:
        raise ValueError(f"no python block right below the comment: {', '.join(alone)}")
    return _BLOCK.sub(_as_in_file, text)


def _as_in_file(block: re.Match[str]) -> str:
    return block[1] + indent((CHECKOUT / block[3]).read_text("utf-8"), block[2])


if __name__ == "__main__":
    for path in texts():
        text = path.read_text("utf-8")
        if (wanted := with_code(text)) != text:
            path.write_text(wanted, encoding="utf-8")
            print(path.relative_to(CHECKOUT))
