"""The line of tabs."""

from __future__ import annotations

import asyncio

from tests.tui.screens import screen_lines
from textual.app import App, ComposeResult

from dotnetdiag.tui.process_tabs import ProcessTab, ProcessTabs

TABS = [ProcessTab(number=number, text=f"service-{number:02}", is_gone=number == 3) for number in range(20)]


class Tabs(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.tabs = ProcessTabs()
        self.chosen: list[int | None] = []

    def compose(self) -> ComposeResult:
        yield self.tabs

    def on_process_tabs_chosen(self, event: ProcessTabs.Chosen) -> None:
        self.chosen.append(event.number)


def test_the_active_tab_is_seen_however_many_there_are() -> None:
    async def test() -> None:
        app = Tabs()
        async with app.run_test(size=(50, 3)) as pilot:
            for active in (*range(20), *range(19, -1, -1)):
                app.tabs.show(TABS, active)
                await pilot.pause()
                line = screen_lines(app)[0]
                assert TABS[active].label.rstrip() in line
                assert line.startswith("‹") == ("service-00" not in line)
                assert line.endswith("›") == ("service-19" not in line)
            app.tabs.show(TABS[:2], 1)
            await pilot.pause()
            assert screen_lines(app)[0] == "  service-00  service-01"

    asyncio.run(test())


def test_a_click_chooses_the_tab_under_it() -> None:
    async def test() -> None:
        app = Tabs()
        async with app.run_test(size=(50, 3)) as pilot:
            app.tabs.show(TABS, 19)
            await pilot.pause()
            await pilot.click(ProcessTabs, offset=(screen_lines(app)[0].index("service-18"), 0))
            app.tabs.show(TABS, 2)
            await pilot.pause()
            await pilot.click(ProcessTabs, offset=(screen_lines(app)[0].index("✗ service-03"), 0))
            await pilot.click(ProcessTabs, offset=(0, 0))
            await pilot.pause()
            assert app.chosen == [18, 3]

    asyncio.run(test())


def test_a_long_name_is_shortened_and_one_that_has_gone_is_marked() -> None:
    tab = ProcessTab(number=0, text="n" * 100 + " (1234)", is_gone=True)
    assert tab.label.startswith(" ✗ nnn")
    assert tab.label.endswith("(1234) ")
    assert len(tab.label) == 34
