"""Pages of reports in Chromium: what is drawn, what the pointer and the keyboard do, and names that are anything."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from tests.analysis.reference import opened
from tests.export.browser import Page, running
from tests.export.made import HOSTILE_NAMES, SMALL, hostile, profile_of
from tests.export.test_report_page import data_in, kept_alive, pool, types, written
from tests.shared import needs

from dotnetdiag.analysis.everything import everything
from dotnetdiag.analysis.stack_profile import StackProfile
from dotnetdiag.export import report_page
from dotnetdiag.export.report_charts import LONGEST_LABEL, MOST_ITEMS
from dotnetdiag.export.report_page import LONGEST_CELL
from dotnetdiag.export.texts import plain
from dotnetdiag.table import Table

# in a browser ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with running() as driver:
        yield driver


@pytest.fixture
def page(browser: webdriver.Chrome) -> Iterator[Page]:
    """A page that says nothing on the console, and asks nobody for anything."""
    made = Page(browser)
    yield made
    made.collect()
    assert made.problems == []
    assert [url for url in made.requests if not url.startswith(("file:", "about:"))] == []


def shown(page: Page, folder: Path, reports: dict[str, Any], flame: StackProfile | None = None) -> None:
    path = folder / "page.html"
    path.write_text(written(reports, flame=flame), encoding="utf-8")
    page.open(path)


def marks(page: Page) -> int:
    return int(page.value('document.querySelectorAll("#tab .mark").length'))


def column(page: Page, number: int) -> list[str]:
    found: list[str] = page.value(
        "[...document.querySelectorAll(`tbody tr td:nth-child(${arguments[0]})`)].map(one => one.textContent)", number
    )
    return found


def texts_outside(page: Page) -> list[str]:
    """Texts of charts that are cut by their edges."""
    found: list[str] = page.value(
        "[...document.querySelectorAll('.chart svg text')].filter(one => { const own = one.getBoundingClientRect(), "
        "all = one.ownerSVGElement.getBoundingClientRect(); return own.left < all.left - 1 || own.right > all.right + 1; })"
        ".map(one => one.textContent)"
    )
    return found


def open_tab(page: Page, name: str) -> None:
    page.run(
        "[...document.querySelectorAll('#tabs button')].find(one => one.textContent === arguments[0]).click()", name
    )
    page.settled()
    assert page.value("document.getElementById('tab').dataset.name") == name


@needs("fixtures", "the recordings")
@pytest.mark.parametrize("name", ["default-10", "web-10", "startup-10", "gcverbose-10"])
def test_tabs_show_what_their_kinds_have(page: Page, tmp_path: Path, name: str) -> None:
    made = everything(opened(name))
    shown(page, tmp_path, dict(made.reports))
    for tab in data_in(written(dict(made.reports)))["tabs"]:
        open_tab(page, tab["name"])
        assert page.value("document.querySelectorAll('#tab section').length") == len(tab["tables"])
        totals = page.value("[...document.querySelectorAll('#tab .totals > div')].map(one => one.textContent)")
        assert totals == [one["name"] + one["value"] for one in tab["totals"]]
        assert texts_outside(page) == []
        chart = tab["chart"]
        if chart is None:
            assert marks(page) == 0
        elif chart["kind"] == "time":
            points = [len(one["ms"]) for one in chart["areas"]]
            shades = len(chart.get("shades", ()))
            assert marks(page) == sum(points) + sum(len(one["ms"]) for one in chart["bars"]) + shades
        else:
            assert marks(page) == len(chart.get("items", chart.get("rows")))
    page.screenshot(f"report-{name}")


def test_long_names_of_methods_are_cut_in_front_and_whole_under_the_pointer(page: Page, tmp_path: Path) -> None:
    names = [f"System.{'Collections.Concurrent.' * 6}{last}(class System.Object)" for last in ("First", "Second")]
    made = SimpleNamespace(
        by_method=Table({"method": [*names, "App.Run()"], "compile_ms": [3.0, 2.0, 1.0]}),
        table=lambda: Table({"a": [1]}),
    )
    shown(page, tmp_path, {"jit": made})
    found = page.value("[...document.querySelectorAll('.chart text.name')].map(one => one.textContent)")
    assert [text[0] for text in found[:2]] == ["…", "…"]
    assert [text.rpartition(".")[2] for text in found[:2]] == ["First", "Second"]
    assert found[2] == "App.Run()"
    assert page.value("document.querySelector('.chart .mark').lines[0]") == names[0]


def test_what_charts_say_has_room(page: Page, tmp_path: Path) -> None:
    """Long times, and names of wide letters."""
    rows = [{**row, "duration_ms": 1_234_567.891} for row in kept_alive(4)]
    reports = {
        "requests": SimpleNamespace(requests=Table.of_rows(rows), table=lambda: Table({"a": [1]})),
        "allocations": types(["W" * 300, "M" * 100, "a"], [1.0, 2.0, 3.0]),
        "jit": SimpleNamespace(
            by_method=Table({"method": [f"{'MW.' * 100}M{at}()" for at in range(70)], "compile_ms": [9.0] * 70}),
            table=lambda: Table({"a": [1]}),
        ),
    }
    shown(page, tmp_path, reports)
    for name in reports:
        open_tab(page, name)
        assert marks(page) > 0
        assert texts_outside(page) == []


def test_the_others_together_do_not_make_all_else_small(page: Page, tmp_path: Path) -> None:
    made = SimpleNamespace(
        by_method=Table({"method": [f"App.M{at}()" for at in range(1000)], "compile_ms": [9.0] * 1000}),
        table=lambda: Table({"a": [1]}),
    )
    shown(page, tmp_path, {"jit": made})
    widths = page.value("[...document.querySelectorAll('.chart .mark')].map(one => +one.getAttribute('width'))")
    assert len(widths) == MOST_ITEMS + 1
    assert {*widths} == {widths[0]}
    assert page.value("document.querySelectorAll('.chart .others').length") == 1
    assert page.value("document.querySelector('.chart .others').lines[1]").strip() == "8,460"


def test_the_heap_is_drawn_as_far_as_it_is_known(page: Page, tmp_path: Path) -> None:
    """Before the first collection, and behind the last, there is some heap too."""
    row = {"pid": 1, "before_bytes": 4e6, "after_bytes": 1e6, "duration_ms": 10.0, "pause_ms": 10.0}
    rows = [{**row, "start_ms": at, "pause_start_ms": at} for at in (1000.0, 2000.0)]
    made = SimpleNamespace(collections=Table.of_rows(rows), table=lambda: Table({"a": [1]}))
    shown(page, tmp_path, {"gc": made})
    ground, line = page.value("[...document.querySelectorAll('.chart path')].map(one => one.getAttribute('d'))")
    assert ground.endswith("Z")
    heights = [float(one) for one in re.findall(r"[ V]([\d.]+)", line)]
    assert len(heights) == 4
    assert min(heights) == heights[0] == heights[2]
    assert heights[1] == heights[3] < 240
    assert page.value("getComputedStyle(document.querySelector('.ground')).stroke") == "none"


@pytest.mark.parametrize(("queue_ms", "is_drawn"), [(600.0, True), (0.01, False), (None, False)])
def test_how_long_a_request_waited_for_a_connection_is_drawn(
    page: Page, tmp_path: Path, queue_ms: float | None, is_drawn: bool
) -> None:
    rows = [{**row, "queue_ms": queue_ms if row["kind"] == "client" else None} for row in kept_alive(1)]
    rows[0] |= {"kind": "client", "queue_ms": queue_ms, "duration_ms": 1000.0, "parent": None}
    made = SimpleNamespace(requests=Table.of_rows(rows[:1]), table=lambda: Table({"a": [1]}))
    shown(page, tmp_path, {"requests": made})
    assert page.value("document.querySelectorAll('.chart rect.wait').length") == is_drawn
    if is_drawn:
        widths = page.value("['wait', 'mark'].map(one => +document.querySelector(`rect.${one}`).getAttribute('width'))")
        assert widths[0] == pytest.approx(0.6 * widths[1], rel=0.01)
        assert "waiting for a connection" in page.value("document.querySelector('.legend').textContent")


def test_failed_requests_are_red(page: Page, tmp_path: Path) -> None:
    shown(
        page,
        tmp_path,
        {"requests": SimpleNamespace(requests=Table.of_rows(kept_alive(4)), table=lambda: Table({"a": [1]}))},
    )
    colours = page.value("[...document.querySelectorAll('.chart .mark')].map(one => getComputedStyle(one).fill)")
    assert len(set(colours)) == 2
    assert [colour == colours[0] for colour in colours] == [True, False, False, False, True, False, False, False]


def test_a_page_says_when_it_was_recorded(page: Page, tmp_path: Path) -> None:
    path, out = tmp_path / "page.html", io.BytesIO()
    start = datetime(2026, 11, 30, 3, 12, 7, 500_000, tzinfo=UTC)
    report_page.write({"x": Table({"a": [1]})}, out, name="app.nettrace", start=start, seconds=29.96)
    path.write_bytes(out.getvalue())
    page.open(path)
    assert page.value("document.querySelector('h1 small').textContent") == "2026-11-30 03:12:07 UTC, 30.0 s"
    assert page.value("document.title") == "x of app.nettrace"
    shown(page, tmp_path, {"x": Table({"a": [1]})})
    assert page.value("document.querySelector('h1 small')") is None


def test_a_chart_over_time_is_as_wide_as_the_recording(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    out = io.BytesIO()
    made = pool([5.0, 20.0], [10.0, 10.0, 30.0], [40.0, 990.0, None])
    report_page.write({"threadpool": SimpleNamespace(**vars(made), table=lambda: made.threads)}, out, seconds=2.0)
    path.write_bytes(out.getvalue())
    page.open(path)
    left, right = page.value(
        "[document.querySelector('.grid').getBoundingClientRect()].flatMap(one => [one.left, one.right])"
    )
    shade = page.value(
        "[document.querySelector('.shade').getBoundingClientRect()].flatMap(one => [one.left, one.right])"
    )
    assert [(edge - left) / (right - left) for edge in shade] == pytest.approx([0.055, 0.5], abs=0.01)


@needs("fixtures", "the recording default-10")
def test_the_flame_graph_is_a_page_within_the_page(page: Page, tmp_path: Path) -> None:
    made = everything(opened("default-10"))
    shown(page, tmp_path, {"gc": made.reports["gc"]}, made.cpu)
    open_tab(page, "flame graph")
    page.driver.switch_to.frame(page.driver.find_element(By.TAG_NAME, "iframe"))
    page.until(lambda: page.value('document.querySelectorAll("g.frame").length') > 20)
    page.driver.switch_to.default_content()


def test_a_click_on_a_heading_sorts_and_another_turns_it_round(page: Page, tmp_path: Path) -> None:
    made = Table({"name": ["b", "c", "a", None], "ms": [9.5, 10.0, None, -1.0]})
    shown(page, tmp_path, {"x": made})
    assert column(page, 1) == ["b", "c", "a", ""]
    name, ms = page.driver.find_elements(By.CSS_SELECTOR, "th button")
    name.click()
    assert column(page, 1) == ["a", "b", "c", ""]
    name.click()
    assert column(page, 1) == ["c", "b", "a", ""]
    ms.click()  # numbers by their size, the greatest first
    assert column(page, 2) == ["10.0", "9.5", "-1.0", ""], "as many digits as one of them has"
    ms.click()
    assert column(page, 2) == ["-1.0", "9.5", "10.0", ""]
    sorts = [one.get_attribute("aria-sort") for one in page.driver.find_elements(By.TAG_NAME, "th")]
    assert sorts == ["none", "ascending"]


def test_a_filter_keeps_rows_that_have_all_words(page: Page, tmp_path: Path) -> None:
    names = [f"App.Type{number}" for number in range(1000)]
    shown(page, tmp_path, {"allocations": types(names, [float(number) for number in range(1000)])})
    assert len(column(page, 1)) == 200
    page.driver.find_element(By.CSS_SELECTOR, ".more").click()
    assert len(column(page, 1)) == 1000
    page.driver.find_element(By.CSS_SELECTOR, "input[type=search]").send_keys("type99 APP")
    assert column(page, 1) == ["App.Type99", *(f"App.Type99{number}" for number in range(10))]
    assert page.text(".tools span") == "11 of 1,000 rows"


def test_a_name_turns_no_sentence_round(page: Page, tmp_path: Path) -> None:
    text = "120 exceptions were thrown (\u202eevil\u2066); 120 of these by App.Main"
    findings = Table({"severity": [5.0], "question": ["exceptions"], "text": [text]})
    lacking: dict[str, str] = {}
    made = SimpleNamespace(
        findings=findings, unnamed=(), lacking=lacking, notes=(f"of {text}",), table=lambda: findings
    )
    shown(page, tmp_path, {"advice": made})
    expected = "120 exceptions were thrown (\\u202eevil\\u2066); 120 of these by App.Main"
    assert page.value("document.querySelector('.findings li').firstChild.textContent") == expected
    assert "\u202e" not in page.value("document.body.textContent")


def test_hostile_names_are_names_in_charts_tables_tabs_and_titles(page: Page, tmp_path: Path) -> None:
    names = [*HOSTILE_NAMES, "\u202eright to left", "<img src=x onerror=window.hacked=8>"]
    made = types(names, [float(100 - at) for at in range(len(names))])
    evil = "</script><script>window.hacked=9</script>"
    path = tmp_path / "page.html"
    reports = {"allocations": made, "__proto__": made, evil: made}
    path.write_text(written(reports, name=evil, flame=hostile()), encoding="utf-8")
    page.open(path)
    assert page.text("h1") == f"report of {evil}"
    assert marks(page) == len(names)
    expected = [plain(one) if len(one) <= LONGEST_CELL else None for one in names]
    found = column(page, 1)
    assert [one if text is not None else None for one, text in zip(found, expected, strict=True)] == expected
    for name in ("__proto__", evil, "flame graph"):
        open_tab(page, name)
    page.driver.switch_to.frame(page.driver.find_element(By.TAG_NAME, "iframe"))
    page.until(lambda: page.value('document.querySelectorAll("g.frame").length') > 5)
    assert page.value("window.hacked === undefined")
    page.driver.switch_to.default_content()
    assert page.value("window.hacked === undefined")
    assert page.value("document.querySelectorAll('img').length") == 0


def test_the_pointer_tells_the_whole_name(page: Page, tmp_path: Path) -> None:
    long = "N" * (LONGEST_LABEL - 1)
    shown(page, tmp_path, {"allocations": types([long, "b"], [3e6, 1e6])})
    webdriver.ActionChains(page.driver).move_to_element(page.driver.find_element(By.CSS_SELECTOR, ".mark")).perform()
    page.until(lambda: not page.value('document.getElementById("tip").hidden'))
    lines = page.value('[...document.querySelectorAll("#tip div")].map(one => one.textContent)')
    assert lines == [long, "3 MB, 75 %"]


def test_areas_of_a_treemap_are_as_the_values(page: Page, tmp_path: Path) -> None:
    values = [50.0, 25.0, 12.0, 8.0, 5.0]
    shown(page, tmp_path, {"allocations": types(list("abcde"), values)})
    areas = page.value(
        "[...document.querySelectorAll('.mark')].map(one => one.getAttribute('width') * one.getAttribute('height'))"
    )
    assert [100 * area / sum(areas) for area in areas] == pytest.approx(values)


def test_a_narrow_window_has_room_for_all(page: Page, tmp_path: Path) -> None:
    page.driver.set_window_size(420, 900)
    try:
        shown(page, tmp_path, {"topN": profile_of(*SMALL), "allocations": types(["a"], [1.0])})
        for name in ("topN", "allocations"):
            open_tab(page, name)
            assert page.value("document.documentElement.scrollWidth <= innerWidth")
    finally:
        page.driver.set_window_size(1400, 1000)
