"""The rows of counters as a widget: groups that fold, a line for each row. Only lines that can be seen are made, and only those that have
changed are drawn again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, TypeAlias

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from dotnetdiag.tui.counter_columns import CounterColumns, amount_in, label_parts
from dotnetdiag.tui.counter_view import CounterGroup, Line
from dotnetdiag.tui.sparkline import sparkline
from dotnetdiag.tui.widths import cells, cut

Parts: TypeAlias = "list[tuple[str, str]]"
"""Style and text of the pieces of a line."""
LineKey: TypeAlias = "str | tuple[int, str]"
"""A provider, or the key of a row."""


class CounterTree(ScrollView, can_focus=True):
    """Shows what :meth:`show` is given. One line is the cursor's."""

    class Folded(Message):
        """Somebody wants a group folded, or unfolded."""

        def __init__(self, provider: str, *, is_folded: bool) -> None:
            super().__init__()
            self.provider, self.is_folded = provider, is_folded

    STYLES: ClassVar[tuple[str, ...]] = (
        "group", "name", "process", "tags", "value", "change", "sparkline", "crossed", "ended", "cursor",
    )  # fmt: skip
    COMPONENT_CLASSES: ClassVar[set[str]] = {f"counter-tree--{name}" for name in STYLES}
    DEFAULT_CSS = """
    CounterTree {
        height: 1fr;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-gutter: stable;
        scrollbar-size-vertical: 1;
        .counter-tree--group { text-style: bold; color: $accent; }
        .counter-tree--process { color: $secondary; }
        .counter-tree--tags { text-style: dim; }
        .counter-tree--value { text-style: bold; }
        .counter-tree--change { text-style: dim; }
        .counter-tree--sparkline { color: $success; }
        .counter-tree--crossed { text-style: bold; color: $error; }
        .counter-tree--ended { text-style: dim; }
        .counter-tree--cursor { background: $surface; }
        &:focus .counter-tree--cursor { background: $primary-darken-3; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "up", show=False),
        Binding("down,j", "move(1)", "down", show=False),
        Binding("pageup", "move_page(-1)", "page up", show=False),
        Binding("pagedown", "move_page(1)", "page down", show=False),
        Binding("home", "move_to(0)", "first", show=False),
        Binding("end", "move_to(-1)", "last", show=False),
        Binding("left", "fold(True)", "fold", show=False),
        Binding("right", "fold(False)", "unfold", show=False),
        Binding("enter", "turn", "fold or unfold", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._lines: Sequence[Line] = ()
        self._with_process = False
        self._cursor = 0
        self._drawn: dict[int, Parts] = {}

    @property
    def columns(self) -> CounterColumns:
        """Of the lines as they are now."""
        return CounterColumns.of_width(self._width, with_process=self._with_process)

    @property
    def cursor(self) -> int:
        """The number of the line."""
        return self._cursor

    def show(self, lines: Sequence[Line], *, with_process: bool = False, keep: bool = True) -> None:
        """Show these lines; the figures of the same ones may have changed. ``keep``: the cursor stays at its row, wherever that is now."""
        key = _key(self._lines[self._cursor]) if keep and self._cursor < len(self._lines) else None
        is_same = lines is self._lines and with_process == self._with_process
        self._lines, self._with_process = lines, with_process
        if not is_same and key is not None:
            self._cursor = next((number for number, line in enumerate(lines) if _key(line) == key), self._cursor)
        self._cursor = max(min(self._cursor, len(lines) - 1), 0)
        size = Size(self._width, len(lines))
        if size != self.virtual_size:
            self.virtual_size = size
        self._draw_changed()

    def restore(self, cursor: int, scroll_y: float) -> None:
        """Where somebody has been before."""
        self._cursor = max(min(cursor, len(self._lines) - 1), 0)
        self.scroll_to(y=scroll_y, animate=False, immediate=True)
        self.refresh()

    def _draw_changed(self) -> None:
        first = self.scroll_offset.y
        for number in range(first, first + self.size.height):
            before = self._drawn.get(number)
            now = self._parts(number)
            if before != now:
                self._drawn[number] = now
                self.refresh_line(number)

    def render_line(self, y: int) -> Strip:
        """Line ``y`` of what can be seen."""
        if len(self._drawn) > 4 * self.size.height + 100:
            self._drawn.clear()
        number = y + self.scroll_offset.y
        base = self.rich_style
        parts = self._drawn[number] = self._parts(number)
        if number == self._cursor and self._lines:
            base += self._style("cursor")
        segments = [Segment(text, base + self._style(kind)) for kind, text in parts]
        return Strip(segments).adjust_cell_length(self.size.width, base)

    def _style(self, name: str) -> Style:
        return self.get_component_rich_style(f"counter-tree--{name}", partial=True)

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _parts(self, number: int) -> Parts:
        if not 0 <= number < len(self._lines):
            return []
        line, columns = self._lines[number], self.columns
        if isinstance(line, CounterGroup):
            text = f"{'▶' if line.is_folded else '▼'} {line.provider} ({line.rows:,})"
            crossed = f"  {line.crossed:,} beyond a threshold" if line.crossed else ""
            shown = cut(text, self._width)
            return [("group", shown), ("crossed", cut(crossed, max(self._width - cells(shown), 1)))]
        label = label_parts(line, columns.label - 2, with_process=self._with_process)
        value = amount_in(line.value, columns.value)
        parts: Parts = [("crossed", "! " if line.is_crossed else "  "), *label]
        parts.append(("crossed" if line.is_crossed else "value", f" {value}"))
        if columns.change:
            parts.append(("change", f" {amount_in(line.change, columns.change, sign=True)}"))
        if columns.sparkline:
            parts.append(("sparkline", f" {sparkline(line.history, columns.sparkline)}"))
        return [("ended", text) for _, text in parts] if line.has_ended or line.is_stale else parts

    # keys and mouse -----------------------------------------------------------------------------------------------------

    def action_move(self, step: int) -> None:
        """The cursor, by lines."""
        self._move(self._cursor + step)

    def action_move_page(self, step: int) -> None:
        """The cursor, by what can be seen."""
        self._move(self._cursor + step * max(self.size.height - 1, 1))

    def action_move_to(self, number: int) -> None:
        """The cursor to the first line (0), or to the last (-1)."""
        self._move(number if number >= 0 else len(self._lines) - 1)

    def action_fold(self, is_folded: bool) -> None:
        """The group at the cursor, or of the row there."""
        number = self._head(self._cursor)
        if number is not None:
            if is_folded:
                self._move(number)
            self._ask(number, is_folded)

    def action_turn(self) -> None:
        """The group at the cursor."""
        line = self._line(self._cursor)
        if isinstance(line, CounterGroup):
            self._ask(self._cursor, not line.is_folded)

    def on_click(self, event: events.Click) -> None:
        """The cursor comes; a group folds or unfolds."""
        number = event.y + self.scroll_offset.y
        if number < len(self._lines):
            self._move(number)
            self.action_turn()

    def on_resize(self) -> None:
        """Lines have another width."""
        self._drawn.clear()
        self.virtual_size = Size(self._width, len(self._lines))
        self._move(self._cursor)

    def _ask(self, number: int, is_folded: bool) -> None:
        line = self._lines[number]
        if isinstance(line, CounterGroup) and line.is_folded != is_folded:
            self.post_message(self.Folded(line.provider, is_folded=is_folded))

    def _line(self, number: int) -> Line | None:
        return self._lines[number] if 0 <= number < len(self._lines) else None

    def _head(self, number: int) -> int | None:
        """The line of the group that a line is of."""
        while number >= 0 and not isinstance(self._line(number), CounterGroup):
            number -= 1
        return number if number >= 0 else None

    def _move(self, number: int) -> None:
        before, self._cursor = self._cursor, max(min(number, len(self._lines) - 1), 0)
        first, height = self.scroll_offset.y, self.size.height
        if self._cursor < first:
            self.scroll_to(y=self._cursor, animate=False, immediate=True)
        elif height and self._cursor >= first + height:
            self.scroll_to(y=self._cursor - height + 1, animate=False, immediate=True)
        self.refresh_line(before)
        self.refresh_line(self._cursor)


def _key(line: Line) -> LineKey:
    return line.provider if isinstance(line, CounterGroup) else line.key
