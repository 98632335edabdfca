"""A line with a tab for each process, as a widget. More than fit move along, so that the active one is always seen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.tui.widths import cells, shortened

WIDEST = 30
"""Cells of a tab."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTab:
    """``number`` is that of the process, None for all together. ``text`` is clean."""

    number: int | None
    text: str
    is_gone: bool = False

    @property
    def label(self) -> str:
        """As it is written, with a mark at one that has gone."""
        return f" {'✗ ' if self.is_gone else ''}{shortened(self.text, WIDEST)} "


class ProcessTabs(Widget):
    """Shows what :meth:`show` is given."""

    class Chosen(Message):
        """Somebody has clicked at a tab."""

        def __init__(self, number: int | None) -> None:
            super().__init__()
            self.number = number

    COMPONENT_CLASSES: ClassVar[set[str]] = {"process-tabs--active", "process-tabs--gone"}
    DEFAULT_CSS = """
    ProcessTabs {
        height: 1;
        background: $panel;
        .process-tabs--active { text-style: bold reverse; }
        .process-tabs--gone { text-style: dim; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._tabs: tuple[ProcessTab, ...] = ()
        self._active = 0
        self._first = 0

    def show(self, tabs: Sequence[ProcessTab], active: int | None) -> None:
        """These tabs; ``active`` is the number of one of them."""
        place = next((place for place, one in enumerate(tabs) if one.number == active), 0)
        if (tuple(tabs), place) != (self._tabs, self._active):
            self._tabs, self._active = tuple(tabs), place
            self.refresh()

    def render_line(self, y: int) -> Strip:  # noqa: ARG002 -- there is one line
        """The line."""
        base = self.rich_style
        width = self.size.width
        self._first = self._first_shown(width)
        segments = [Segment("‹" if self._first else " ", base)]
        left = width - 2
        for place, tab in enumerate(self._tabs[self._first :], self._first):
            left -= cells(tab.label)
            if left < 0 and place != self._first:
                segments.append(Segment("›", base))
                break
            style = base
            if tab.is_gone:
                style += self.get_component_rich_style("process-tabs--gone", partial=True)
            if place == self._active:
                style += self.get_component_rich_style("process-tabs--active", partial=True)
            segments.append(Segment(tab.label, style))
        return Strip(segments).adjust_cell_length(width, base)

    def on_click(self, event: events.Click) -> None:
        """Tell which tab is under the mouse."""
        at = 1
        for tab in self._tabs[self._first :]:
            if at <= event.x < at + cells(tab.label):
                self.post_message(self.Chosen(tab.number))
            at += cells(tab.label)

    def _first_shown(self, width: int) -> int:
        """The first tab, so that the active one is whole."""
        if sum(cells(tab.label) for tab in self._tabs) <= width - 2:
            return 0
        first = min(self._first, self._active)
        while (
            first < self._active and sum(cells(tab.label) for tab in self._tabs[first : self._active + 1]) > width - 2
        ):
            first += 1
        return first
