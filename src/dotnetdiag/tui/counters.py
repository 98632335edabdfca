"""Counters of one process or of many, on the whole screen, while they run.

The updates of the watch are taken by a thread, which never waits for the screen; the screen draws what is kept when it gets to it, and then the
visible tab alone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import TYPE_CHECKING, ClassVar, Protocol, TextIO

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input, Static

from dotnetdiag._dataclasses import dataclass, field, replace
from dotnetdiag.tui.counter_changes import silence_text
from dotnetdiag.tui.counter_columns import heading
from dotnetdiag.tui.counter_model import CounterModel, CounterRow, Threshold, WatchedProcess
from dotnetdiag.tui.counter_tree import CounterTree
from dotnetdiag.tui.counter_view import CounterView, Line, SortBy, arranged
from dotnetdiag.tui.plain import clean
from dotnetdiag.tui.process_tabs import ProcessTab, ProcessTabs
from dotnetdiag.tui.widths import cells, cut

if TYPE_CHECKING:
    from dotnetdiag.recipes.counter_watch import CounterChange, CounterOptions, CounterUpdate

__all__ = ["CounterApp", "Threshold", "Watch", "show_counters"]

END_S = 10.0
"""For the thread that takes the updates to end; a watch that is stopped ends at once."""
NOTIFIED_S = 4.0
HELP = "space pause  / filter  s sort  S reverse  ←→ fold  Tab process  x close  q end"
ALL = "All"


class Watch(Protocol):
    """What the screen needs of a :class:`~dotnetdiag.recipes.counter_watch.CounterWatch`."""

    options: CounterOptions

    def updates(self, until_s: float | None = None) -> Iterator[CounterUpdate]:
        """One in each interval."""

    def stop(self) -> None:
        """End the updates at once."""


@dataclass(slots=True)
class _TabState:
    """How somebody has left a tab."""

    folded: set[str] = field(default_factory=set)
    cursor: int = 0
    scroll_y: float = 0.0


class CounterApp(App[None]):
    """The screen. It ends with ``q``, and with the updates; what these raised is ``error`` then."""

    class Taken(Message):
        """The model has taken an update."""

    class Ended(Message):
        """There are no more updates."""

    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { layout: vertical; }
    #heading, #banner, #log, #status { height: 1; width: 1fr; text-wrap: nowrap; }
    #heading { text-style: bold; }
    #banner { background: $warning; color: $text; display: none; }
    #status { background: $panel; }
    #help { height: auto; background: $panel; display: none; }
    #filter { height: 1; border: none; padding: 0; display: none; }
    #filter:focus { border: none; }
    Toast { height: 1; width: auto; max-width: 100%; padding: 0 1; margin: 0; }
    ToastRack { margin: 0 0 2 0; padding: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "pause", "pause", show=False),
        # priority: the app does it before it looks at the next key, which is text then
        Binding("slash", "filter", "filter", show=False, priority=True),
        Binding("enter", "keep_filter", "keep the filter", show=False, priority=True),
        Binding("escape", "show_all", "show all", show=False, priority=True),
        Binding("s", "sort", "sort", show=False),
        Binding("S", "reverse", "reverse", show=False),
        Binding("tab,ctrl+i", "next_tab(1)", "next process", show=False, priority=True),
        Binding("shift+tab", "next_tab(-1)", "process before", show=False, priority=True),
        Binding("x", "close_tab", "close a tab", show=False),
        Binding("question_mark", "help", "help", show=False),
        Binding("q", "quit", "end", show=False),
        Binding("ctrl+c,ctrl+q", "quit", "end", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", "suspend", show=False, priority=True),
    ]

    def __init__(
        self,
        watch: Watch,
        until_s: float | None = None,
        *,
        thresholds: Sequence[Threshold] = (),
        waiting: str = "",
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], datetime] = datetime.now,
    ) -> None:
        """``until_s`` as of :meth:`Watch.updates`; ``waiting`` says who is waited for, until something
        happens. ``clock`` and ``time_of_day`` as of :class:`CounterModel`."""
        super().__init__()
        self.error: Exception | None = None
        self._watch, self._until_s, self._waiting = watch, until_s, waiting
        self._model = CounterModel(thresholds, clock=clock, time_of_day=time_of_day)
        self._lock = threading.Lock()
        """Of the model."""
        self._is_told = False
        """A message is on its way that says that the model has taken something."""
        self._said: list[str] = []
        """What has happened, and was not notified yet."""
        self._thread = threading.Thread(target=self._take_updates, name="dotnetdiag counters", daemon=True)
        self._view = CounterView()
        self._tab: int | None = None
        self._tabs: dict[int | None, _TabState] = {}
        self._paused: list[CounterRow] | None = None
        """The rows as they were when the screen was paused."""
        self._paused_at = 0
        self._lines: list[Line] = []
        self._lines_of: object = None
        """What the lines were arranged for."""
        self._tree, self._process_tabs = CounterTree(), ProcessTabs()
        self._heading, self._banner = Static(id="heading"), Static(id="banner")
        self._log_line, self._status, self._help = Static(id="log"), Static(id="status"), Static(id="help")
        self._filter = Input(placeholder="type to filter; Enter keeps it, Esc shows all", id="filter")

    @property
    def updates(self) -> int:
        """How many were taken."""
        return self._model.updates

    @property
    def departures(self) -> tuple[CounterChange, ...]:
        """Who went, or could not be watched, for a reason; the last hundred of them."""
        return tuple(self._model.departures)

    @property
    def log_lines(self) -> tuple[str, ...]:
        """What has happened, the last hundred lines."""
        return tuple(self._model.log)

    def compose(self) -> ComposeResult:
        """From the top to the bottom."""
        yield self._process_tabs
        yield self._heading
        yield self._banner
        yield self._tree
        yield self._filter
        yield self._log_line
        yield self._help
        yield self._status

    def on_mount(self) -> None:
        """Begin to take updates."""
        self._tree.focus()
        self._help.update(Text(HELP))
        self.set_interval(1.0, self.draw)
        self._thread.start()

    def on_unmount(self) -> None:
        """Nobody looks any more."""
        self._watch.stop()

    def finish(self) -> None:
        """Wait for the thread that takes the updates, after the screen has gone."""
        self._watch.stop()
        if self._thread.ident is not None:
            self._thread.join(END_S)

    # updates ------------------------------------------------------------------------------------------------------------

    def _take_updates(self) -> None:
        """In a thread of its own."""
        try:
            for update in self._watch.updates(self._until_s):
                with self._lock:
                    self._said += self._model.take(update)
                    tells, self._is_told = not self._is_told, True
                if tells:
                    self._tell(self.Taken())
        except Exception as error:
            self.error = error
        self._tell(self.Ended())

    def _tell(self, message: Message) -> None:
        with suppress(RuntimeError):  # the screen has gone
            self.post_message(message)

    def on_counter_app_taken(self) -> None:
        """Draw what has come, and say what has happened."""
        with self._lock:
            self._is_told = False
            said, self._said = self._said, []
        if said:
            more = f"  (and {len(said) - 1:,} more)" if len(said) > 1 else ""
            room = max(self.size.width - 4 - len(more), 1)
            self.notify(cut(said[-1], room) + more, timeout=NOTIFIED_S, markup=False)
        self.draw()

    def on_counter_app_ended(self) -> None:
        """The last process has ended, the time is over, or a signal has come."""
        self.exit()

    # drawing ------------------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """All that may have changed. While the screen is paused its rows stand still."""
        if not self.is_running or not self._tree.is_mounted:
            return
        with self._lock:
            if self._paused is None:
                self._model.forget_gone()
            self._draw_tabs()
            self._arrange()
            process = None if self._tab is None else self._model.processes.get(self._tab)
            banner = self._banner_text(process)
            log = self._model.log[-1] if self._model.log else clean(self._waiting)
            count = sum(not one.is_gone for one in self._model.processes.values())
            refused = self._model.refused
            kept = self._model.updates - self._paused_at
        self._tree.show(self._lines, with_process=self._tab is None)
        width = self.size.width
        self._banner.display = bool(banner)
        self._banner.update(Text(cut(banner, width)))
        self._log_line.update(Text(cut(log, width)))
        self._status.update(self._status_text(count, refused, kept, width))
        self._draw_heading()

    def _draw_heading(self) -> None:
        self._heading.update(
            Text(
                heading(
                    self._tree.columns,
                    sort=self._view.sort.value,
                    is_reversed=self._view.is_reversed,
                    every_s=self._watch.options.interval_s,
                )
            )
        )

    def _draw_tabs(self) -> None:
        tabs = self._shown_tabs()
        if self._tab not in {one.number for one in tabs}:
            self._leave_for(tabs[0].number)
        self._process_tabs.show(tabs, self._tab)

    def _shown_tabs(self) -> list[ProcessTab]:
        processes = list(self._model.processes.values())
        tabs = [ProcessTab(number=one.number, text=one.name, is_gone=one.is_gone) for one in processes]
        return tabs if len(tabs) == 1 else [ProcessTab(number=None, text=ALL), *tabs]

    def _arrange(self) -> None:
        """The lines anew, where others are to be shown or their order may be another."""
        state = self._state()
        given: object = None
        # the heads of groups say how many rows are beyond a threshold, and other orders are those of the values
        if self._view.sort is SortBy.NAME and not self._model.has_thresholds:
            given = self._tab, self._view, self._model.version, frozenset(state.folded), self._paused is None
        if given is not None and given == self._lines_of:
            return
        self._lines_of = given
        rows = (
            self._model.rows(self._tab)
            if self._paused is None
            else [one for one in self._paused if self._tab in (None, one.process)]
        )
        self._lines = arranged(rows, self._view, state.folded)

    def _banner_text(self, process: WatchedProcess | None) -> str:
        if process is None:
            return "" if self._model.processes else "no process is watched"
        if process.is_gone:
            why = f": {process.why}" if process.why else ""
            return f"gone at {process.gone}{why}  (x closes the tab)"
        if process.silence is None:
            return ""
        return silence_text(replace(process.silence, seconds=self._model.silent_s(process)), named=False)

    def _status_text(self, count: int, refused: int, kept: int, width: int) -> Text:
        every_s = self._watch.options.interval_s
        parts = [f"{count:,} {'process' if count == 1 else 'processes'}, every {every_s:g} s"]
        if self._view.words:
            parts.append(f"filter: {self._view.words}")
        if refused:
            parts.append(f"{refused:,} series too many are not shown")
        text = Text()
        if self._paused is not None:
            text.append(f" PAUSED, {kept:,} kept since ", style="reverse bold")
            text.append(" ")
        text.append("  ·  ".join(parts))
        end = "? help  q end"
        left = width - cells(text.plain) - len(end)
        if left >= 1:
            text.append(" " * left + end)
        text.truncate(width, overflow="ellipsis")
        return text

    def on_resize(self) -> None:
        """Everything has another width."""
        self.call_after_refresh(self.draw)

    # tabs ---------------------------------------------------------------------------------------------------------------

    def _state(self) -> _TabState:
        return self._tabs.setdefault(self._tab, _TabState())

    def _leave_for(self, number: int | None) -> None:
        """Another tab: the one before is left as it is."""
        before = self._state()
        before.cursor, before.scroll_y = self._tree.cursor, self._tree.scroll_y
        self._tab = number
        known = {None, *self._model.processes}
        self._tabs = {tab: state for tab, state in self._tabs.items() if tab in known}
        after = self._state()
        self._lines_of = None
        self.call_after_refresh(self._tree.restore, after.cursor, after.scroll_y)

    def on_process_tabs_chosen(self, event: ProcessTabs.Chosen) -> None:
        """Somebody has clicked at a tab."""
        if event.number != self._tab:
            self._leave_for(event.number)
            self.draw()

    def on_counter_tree_folded(self, event: CounterTree.Folded) -> None:
        """A group is folded, or unfolded, in this tab."""
        folded = self._state().folded
        (folded.add if event.is_folded else folded.discard)(event.provider)
        self.draw()

    # keys ---------------------------------------------------------------------------------------------------------------

    async def action_quit(self) -> None:
        """End the screen."""
        self._watch.stop()
        self.exit()

    def action_next_tab(self, step: int) -> None:
        """The tab beside, and the first after the last."""
        with self._lock:
            numbers = [one.number for one in self._shown_tabs()]
        if len(numbers) > 1:
            self._leave_for(numbers[(numbers.index(self._tab) + step) % len(numbers)])
            self.draw()

    def action_close_tab(self) -> None:
        """That of a process that has gone."""
        with self._lock:
            process = None if self._tab is None else self._model.processes.get(self._tab)
            if process is None or not process.is_gone:
                self.bell()
                return
            self._model.forget(process.number)
        self.draw()

    def action_pause(self) -> None:
        """The screen stands still, or goes on. Values are kept meanwhile."""
        with self._lock:
            if self._paused is None:
                self._paused = [row.copy() for row in self._model.rows()]
                self._paused_at = self._model.updates
            else:
                self._paused = None
        self._lines_of = None
        self.draw()

    def action_sort(self) -> None:
        """By name, value, change."""
        self._look(replace(self._view, sort=self._view.sort.next))

    def action_reverse(self) -> None:
        """The other way round."""
        self._look(replace(self._view, is_reversed=not self._view.is_reversed))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Keys that mean something else while a filter is typed."""
        if action in ("filter", "keep_filter"):
            return (action == "keep_filter") == (self.focused is self._filter)
        return super().check_action(action, parameters)

    def action_filter(self) -> None:
        """Open the line that filters as one types."""
        self._filter.display = True
        self.screen.set_focus(self._filter)

    def action_keep_filter(self) -> None:
        """The filter stays, and its line goes."""
        self._filter.display = False
        self.screen.set_focus(self._tree)

    def action_show_all(self) -> None:
        """No filter."""
        self._filter.value = ""
        self.action_keep_filter()
        self._look(replace(self._view, words=""))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Filter by what is typed so far."""
        self._look(replace(self._view, words=event.value.strip()))

    def _look(self, view: CounterView) -> None:
        self._view = view
        self.draw()

    def action_help(self) -> None:
        """The line of keys, or none."""
        self._help.display = not self._help.display


def show_counters(
    watch: Watch,
    until_s: float | None = None,
    *,
    thresholds: Sequence[Threshold] = (),
    waiting: str = "",
    terminal: TextIO | None = None,
) -> tuple[CounterChange, ...]:
    """Show the values of a watch until somebody ends it, until it ends, or until it is ``until_s`` (``time.monotonic``). The terminal is as
    before then. ``waiting`` as of :class:`CounterApp`. Returns :attr:`CounterApp.departures`; raises what the watch raised.

    Keys are read from stdin. ``terminal`` (stderr, where none is given) is drawn on: it should neither raise nor wait when the terminal has
    gone, for Textual's thread that writes would die of it, and what waits for that thread would wait forever.
    """
    with _drawn_on(sys.stderr if terminal is None else terminal), _size_of_the_terminal():
        app = CounterApp(watch, until_s, thresholds=thresholds, waiting=waiting)
        app.run()
    app.finish()
    if app.error is not None:
        raise app.error
    if app.return_code:
        raise RuntimeError("the screen has failed")
    return app.departures


@contextmanager
def _drawn_on(terminal: TextIO) -> Iterator[None]:
    """Textual writes to the stderr that the interpreter began with, whatever stands in its place."""
    before = sys.__stderr__
    setattr(sys, "__stderr__", terminal)  # noqa: B010 -- it is not to be assigned, as types have it
    try:
        yield
    finally:
        setattr(sys, "__stderr__", before)  # noqa: B010


@contextmanager
def _size_of_the_terminal() -> Iterator[None]:
    """What the environment says of it, some shells do, stays the same when the terminal is made larger."""
    said = {name: os.environ.pop(name) for name in ("COLUMNS", "LINES") if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(said)
