"""What kinds of ``trace report`` have in common: a question to a file, whose answer has tables, a document, and lines for people."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dotnetdiag.cli.losses import say_losses_of
from dotnetdiag.cli.output import show

if TYPE_CHECKING:
    from dotnetdiag.table import Table


class Answer(Protocol):
    """What was found."""

    def to_json(self) -> dict[str, Any]:
        """All of it."""


A = TypeVar("A", bound=Answer)


def answer(
    file: Path, form: str, ask: Callable[[Any], A], *, rows: Callable[[A], Table], people: Callable[[A], None]
) -> None:
    """Print what ``ask`` finds in a file in a form: ``rows`` for formats of tables, the whole as JSON, and ``people``'s lines."""
    from dotnetdiag.recipes.trace_files import open_trace

    trace = open_trace(file)
    made = ask(trace)
    show(form, lambda: rows(made), people=lambda: people(made), document=made.to_json, digits=3)
    say_losses_of(trace)
