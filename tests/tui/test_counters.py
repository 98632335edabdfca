"""The full screen of counters, through Textual's pilot. The pictures are kept in ``screens``: see :func:`assert_kept`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.tui.scene import CPU, HEAP, ORDERS, PAYMENTS, Above, Scene, interval, on_screen
from tests.tui.screens import assert_kept, screen_lines, screen_text, until
from tests.tui.updates import FakeWatch, gone, joined, process, row, series, update
from textual.widgets import Input

from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.recipes.counter_watch import CounterNotice, CounterSilence
from dotnetdiag.tui.counter_model import STAYS_S
from dotnetdiag.tui.counters import CounterApp

SIZES = ((80, 24), (120, 40))


def lines_with(scene: Scene, text: str) -> list[str]:
    return [line for line in screen_lines(scene.app) if text in line]


def shown_names(scene: Scene) -> list[str]:
    """The first words of the lines of rows."""
    return [line.split()[0] for line in screen_lines(scene.app)[2:-2] if line.startswith("  ") and line.strip()]


# pictures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_all_processes_are_a_tab(size: tuple[int, int]) -> None:
    async def test(scene: Scene) -> None:
        assert_kept(scene.app, f"all-{size[0]}x{size[1]}")

    on_screen(test, size=size)


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_a_process_is_a_tab(size: tuple[int, int]) -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab", "question_mark")
        assert_kept(scene.app, f"process-{size[0]}x{size[1]}")

    on_screen(test, size=size, thresholds=[Above("dotnet.process.cpu.time", 0.25)])


def test_a_process_that_has_gone_is_marked() -> None:
    async def test(scene: Scene) -> None:
        await scene.give(update((), gone(PAYMENTS, "the connection was\nclosed"), processes=[ORDERS]))
        await scene.press("shift+tab")
        assert_kept(scene.app, "gone-80x24")

    on_screen(test)


def test_before_anything_comes_the_screen_says_so() -> None:
    async def test(scene: Scene) -> None:
        assert_kept(scene.app, "empty-80x24")

    on_screen(test, intervals=0)


# keys -----------------------------------------------------------------------------------------------------------------


def test_space_lets_the_screen_stand_still_while_values_are_kept() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab", "space")
        rows = screen_lines(scene.app)[:-1]
        new = series(50, "new", tags={"a": "b"})
        await scene.give(*map(interval, range(12, 15)), update([row(new, 1.0)], processes=[ORDERS, PAYMENTS]))
        assert screen_lines(scene.app)[:-1] == rows
        assert screen_lines(scene.app)[-1].startswith(" PAUSED, 4 kept since ")
        await scene.press("down", "end", "home")
        assert screen_lines(scene.app)[:-1] == rows
        await scene.press("space")
        assert "PAUSED" not in screen_text(scene.app)
        assert "new" in shown_names(scene)
        (cpu,) = lines_with(scene, "dotnet.process.cpu.time")
        assert cpu.split()[3] == "0.45", "the last of those that came meanwhile"
        assert len(cpu.split()[-1]) >= 10

    on_screen(test, size=(120, 40))


def test_what_is_paused_can_be_sorted_and_filtered() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab", "space", "s", "slash", *"gen", "enter")
        assert [line.split()[3] for line in lines_with(scene, "=gen")] == ["2,090,112", "1,090,112", "90,112"]

    on_screen(test, size=(120, 40))


def test_a_filter_works_while_it_is_typed_until_escape() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab")
        before = shown_names(scene)
        await scene.press("slash", *"HEAP")
        assert len(shown_names(scene)) == 3
        await scene.press("space", *"gen1")
        assert len(lines_with(scene, "gen1")) == 3, "the row, the line that is typed, and the status"
        await scene.press("backspace")
        assert len(lines_with(scene, "heap.size")) == 3
        await scene.press("escape")
        assert shown_names(scene) == before

    on_screen(test)


def test_enter_keeps_the_filter_and_keys_are_keys_again() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("slash", *"squash", "enter")
        assert shown_names(scene) == []
        assert "filter: squash" in screen_lines(scene.app)[-1]
        await scene.press("slash", *["backspace"] * 6, *"pay", "enter", "s")
        assert shown_names(scene) == ["dotnet.process.cpu.time"]
        assert lines_with(scene, "value▼")
        await scene.press("escape")
        assert "filter" not in screen_text(scene.app)

    on_screen(test, size=(120, 40))


def test_s_sorts_by_name_value_and_change_and_capital_s_the_other_way() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab", "slash", *"System.Runtime", "enter")
        names = shown_names(scene)
        by_name = [line.split()[2] for line in lines_with(scene, "(By)")]
        assert by_name == ["gc.heap.generation=gen0", "gc.heap.generation=gen1", "gc.heap.generation=gen2"]
        assert names[-1] == "dotnet.process.cpu.time"
        await scene.press("S")
        assert shown_names(scene) == names[::-1]
        await scene.press("S", "s")
        assert [line.split()[2][-1] for line in lines_with(scene, "(By)")] == ["2", "1", "0"]
        assert lines_with(scene, "value▼")
        await scene.press("S")
        assert shown_names(scene)[0] == "dotnet.process.cpu.time"
        assert lines_with(scene, "value▲")
        await scene.press("S", "s")
        assert lines_with(scene, "change▼")
        assert shown_names(scene)[-1] == "dotnet.process.cpu.time"
        await scene.press("s")
        assert shown_names(scene) == names

    on_screen(test, size=(120, 40))


def test_groups_fold_and_unfold() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab")
        await scene.press("down", "left")
        assert lines_with(scene, "▶ Hotel (1)")
        assert not lines_with(scene, "temperature")
        assert lines_with(scene, "▼ System.Runtime (4)")
        await scene.press("right")
        assert lines_with(scene, "temperature")
        await scene.press("enter")
        assert lines_with(scene, "▶ Hotel (1)")
        await scene.press("shift+tab")
        assert lines_with(scene, "▼ Hotel (1)"), "each tab has its own"
        await scene.press("tab")
        assert lines_with(scene, "▶ Hotel (1)")

    on_screen(test)


def test_a_click_folds_and_chooses() -> None:
    async def test(scene: Scene) -> None:
        await scene.pilot.click("ProcessTabs", offset=(8, 0))
        await scene.settle()
        await scene.pilot.click("CounterTree", offset=(3, 0))
        await scene.settle()
        assert lines_with(scene, "▶ Hotel (1)")
        assert not lines_with(scene, "pay[red]ments\\x1b[31m (1001)  ")

    on_screen(test)


def test_tab_goes_round() -> None:
    async def test(scene: Scene) -> None:
        start = screen_text(scene.app)
        seen = {start}
        for _ in range(2):
            await scene.press("tab")
            seen.add(screen_text(scene.app))
        assert len(seen) == 3
        await scene.press("tab")
        assert screen_text(scene.app) == start
        await scene.press("shift+tab")
        assert screen_text(scene.app) in seen - {start}

    on_screen(test)


def test_the_cursor_scrolls_the_rows_and_a_tab_is_left_as_it_is() -> None:
    many = [series(100 + number, f"x{number:03}") for number in range(60)]

    async def test(scene: Scene) -> None:
        await scene.give(update([row(one, 1.0) for one in many], processes=[ORDERS, PAYMENTS]))
        await scene.press("tab", "end")
        assert shown_names(scene)[-1] == "x059"
        await scene.press("tab", "shift+tab")
        assert shown_names(scene)[-1] == "x059"
        await scene.press("pageup", "pageup")
        assert "x025" in shown_names(scene)
        await scene.press("home")
        assert lines_with(scene, "▼ Hotel (1)")
        await scene.press(*["pagedown"] * 2, "k", "j")
        assert "x025" in shown_names(scene)

    on_screen(test)


def test_question_mark_shows_the_keys_and_hides_them() -> None:
    async def test(scene: Scene) -> None:
        before = screen_text(scene.app)
        await scene.press("question_mark")
        assert lines_with(scene, "space pause")
        await scene.press("question_mark")
        assert screen_text(scene.app) == before

    on_screen(test)


@pytest.mark.parametrize("key", ["q", "ctrl+c", "ctrl+q"])
def test_a_key_ends_it(key: str) -> None:
    async def test(scene: Scene) -> None:
        await scene.pilot.press(key)
        assert scene.watch.stopped

    app = on_screen(test)
    assert app.return_code == 0
    assert app.error is None


def test_x_closes_the_tab_of_one_that_has_gone_and_no_other() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("x", "tab", "x")
        assert "orders" in screen_lines(scene.app)[0]
        await scene.give(update((), gone(ORDERS, "it has ended"), processes=[PAYMENTS]))
        assert "✗ orders (1000)" in screen_lines(scene.app)[0]
        assert lines_with(scene, "gone at 12:30:00: it has ended")
        assert lines_with(scene, "temperature"), "its last values stay"
        await scene.press("x")
        assert screen_lines(scene.app)[0].split()[0].startswith("pay"), "one process needs no tab for all"

    on_screen(test)


# what comes and goes --------------------------------------------------------------------------------------------------


def test_one_that_has_gone_stays_for_a_minute() -> None:
    async def test(scene: Scene) -> None:
        await scene.give(update((), gone(ORDERS), processes=[PAYMENTS]))
        scene.clock.now_s = STAYS_S - 1
        scene.app.draw()
        await scene.settle()
        assert "✗ orders (1000)" in screen_lines(scene.app)[0]
        scene.clock.now_s = STAYS_S
        scene.app.draw()
        await scene.settle()
        assert "orders" not in screen_lines(scene.app)[0]

    on_screen(test)


def test_the_last_tab_may_go_too() -> None:
    async def test(scene: Scene) -> None:
        await scene.give(update((), gone(ORDERS), gone(PAYMENTS)))
        await scene.press("tab", "x", "x")
        assert lines_with(scene, "no process is watched")
        await scene.give(update((), joined(process(5, "later")), processes=[process(5, "later")]))
        assert "later (1005)" in screen_lines(scene.app)[0]

    on_screen(test)


def test_changes_are_notified_in_a_line_and_stand_in_the_log() -> None:
    async def test(scene: Scene) -> None:
        failed = process(9, "shy\x1b[2J[b]")
        await scene.give(update((), gone(PAYMENTS, "ended"), gone(failed, "it refuses"), processes=[ORDERS]))
        text = "shy\\x1b[2J[b] (process 1009): it refuses"
        await until(scene.pilot, lambda: bool(lines_with(scene, f"{text}  (and 1 more)")))
        assert lines_with(scene, f"12:30:00  {text}")

    app = on_screen(test, notifications=True)
    assert [one.why for one in app.departures] == ["ended", "it refuses"]


def test_what_a_runtime_says_of_its_limits_is_told_once() -> None:
    notice = CounterNotice(process=ORDERS, text="the limit of time series was reached")

    async def test(scene: Scene) -> None:
        for notices in ([notice], []):
            await scene.give(update([row(CPU, 1.0)], processes=[ORDERS, PAYMENTS], notices=notices))
        assert lines_with(scene, "orders (1000): the limit of time series was reached")
        assert sum("the limit of" in line for line in scene.app.log_lines) == 1

    on_screen(test, size=(120, 40))


def test_one_that_is_silent_is_said_to_be_until_it_gives_values_again() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab")
        scene.clock.now_s = 4
        silence = CounterSilence(process=ORDERS, seconds=4.0, is_stopped=True)
        await scene.give(update((), processes=[ORDERS, PAYMENTS], silences=[silence]))
        assert lines_with(scene, "orders (process 1000): no values for 4.0 s: it is stopped")
        scene.clock.now_s = 12
        scene.app.draw()
        await scene.settle()
        assert screen_lines(scene.app)[2] == "no values for 12.0 s: it is stopped; it goes on with kill -CONT 1000"
        await scene.give(update((), processes=[ORDERS, PAYMENTS], silences=[replace(silence, is_over=True)]))
        assert screen_lines(scene.app)[2].startswith("▼")
        assert lines_with(scene, "gives values again")

    on_screen(test)


# figures --------------------------------------------------------------------------------------------------------------


def test_what_is_beyond_a_threshold_is_marked_and_coloured() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab")
        marked = [line for line in screen_lines(scene.app) if line.startswith("! ")]
        assert [line.split()[4] for line in marked] == ["1,090,112", "2,090,112"]
        assert lines_with(scene, "▼ System.Runtime (4)  2 beyond a threshold")
        plain, crossed = (
            {segment.style.color for segment in strip if segment.style and "090,112" in segment.text}
            for strip in scene.app.screen._compositor.render_strips()
            if any("gen0" in segment.text or "gen2" in segment.text for segment in strip)
        )
        assert plain != crossed
        await scene.press("shift+tab")
        assert [line for line in screen_lines(scene.app) if line.startswith("! ")]

    on_screen(test, thresholds=[Above(HEAP[0].name, 1_000_000)])


def test_tags_and_names_drive_neither_the_terminal_nor_the_markup() -> None:
    async def test(scene: Scene) -> None:
        text = screen_text(scene.app)
        assert "pay[red]ments\\x1b[31m (1001)" in text
        await scene.press("tab")
        (line,) = lines_with(scene, "[b]temperature (°C)")
        assert "room=客室,1\\x1b[2J, [link]=[/red]" in line
        assert not any(ord(one) < 32 or 127 <= ord(one) < 160 for line in screen_lines(scene.app) for one in line)

    on_screen(test, size=(120, 40))


def test_the_screen_follows_the_size_of_the_terminal() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("tab")
        for width, height in ((80, 24), (40, 10), (20, 5), (1, 1), (120, 40)):
            await scene.pilot.resize_terminal(width, height)
            await scene.settle()
            assert len(screen_lines(scene.app)) == height
            assert lines_with(scene, "▁") or width < 80
        await scene.give(interval(12))
        assert lines_with(scene, "dotnet.process.cpu.time")

    on_screen(test)


# ends -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, DiagnosticsError("nobody is there"), KeyError("x")], ids=repr)
def test_the_screen_ends_with_the_updates_and_keeps_what_they_raised(error: Exception | None) -> None:
    async def test(scene: Scene) -> None:
        scene.watch.end(error)
        await until(scene.pilot, lambda: not scene.app.is_running or scene.app._exit)

    app = on_screen(test)
    assert app.error is error
    assert app.return_code == 0


def test_it_is_told_when_to_end() -> None:
    watch = FakeWatch()
    app = CounterApp(watch, 12.5)
    watch.end()
    app._take_updates()
    assert watch.until_s == 12.5


def test_a_key_that_means_something_is_text_in_the_filter() -> None:
    async def test(scene: Scene) -> None:
        await scene.press("slash", *"qsxS", "slash", "question_mark")
        assert scene.app.query_one(Input).value == "qsxS/?"
        assert not scene.watch.stopped

    on_screen(test)
