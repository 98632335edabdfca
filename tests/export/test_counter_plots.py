"""Counters over time as a page and as a picture."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.analysis.counters_made import MadeCounters
from tests.cli.test_counters_report import EVIL, made
from tests.export.browser import Page, running

import dotnetdiag as dd
from dotnetdiag.analysis.counters import Counters
from dotnetdiag.errors import MissingDependency, UsageError
from dotnetdiag.export import counter_charts, counter_page, counter_picture


def page_of(counters: Counters, name: str = "") -> str:
    out = io.BytesIO()
    counter_page.write(counters, out, name=name)
    return out.getvalue().decode()


def data_in(page: str) -> dict[str, Any]:
    (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page)
    found: dict[str, Any] = json.loads(text)
    return found


def test_each_instrument_is_a_chart_with_a_line_for_each_series_and_quantile() -> None:
    data = data_in(page_of(dd.counters(made().trace()), "app.nettrace"))
    assert data["title"] == "Counters of app.nettrace"
    assert data["facts"] == ["8 values of 4 series"]
    charts = {chart["title"]: chart for chart in data["charts"]}
    assert charts["Meter: orders"] == {
        "title": "Meter: orders", "unit": "{order}/s", "description": "",
        "lines": [{"label": "kind=a,b", "ms": [1000.0, 2000.0], "values": [10.0, 20.0]}],
    }  # fmt: skip
    assert [line["label"] for line in charts["Meter: latency"]["lines"]] == [
        f"quantile {name}" for name in ("0.5", "0.95", "0.99")
    ]
    assert charts["My-Source: answer"]["lines"][0]["values"] == [42.5, 42.5]


def test_no_name_ends_the_data_and_nothing_is_loaded() -> None:
    page = page_of(dd.counters(made().trace()), EVIL)
    assert page.count("</script>") == 2
    assert EVIL.replace("\u202e", "\\u202e") in data_in(page)["title"]
    assert "default-src 'none'" in page
    assert not re.search(r"""(src|href)=|@import|url\(|https?://(?!www\.w3\.org/2000/svg)""", page)


def test_what_has_no_value_is_a_gap_and_what_is_endless_too() -> None:
    counters = dd.counters(
        MadeCounters()
        .gauge(lastValue="1")
        .gauge(lastValue="NaN")
        .gauge(lastValue="-Infinity")
        .gauge(lastValue="1.7E+308")
        .trace()
    )
    (chart,) = data_in(page_of(counters))["charts"]
    assert chart["lines"][0]["values"] == [1.0, None, None, 1e300]


def test_processes_have_charts_of_their_own() -> None:
    both = MadeCounters("8", version=6).gauge(lastValue="1").at(0, thread=2).gauge(lastValue="2")
    charts = data_in(page_of(dd.counters(both.trace())))["charts"]
    assert [chart["title"] for chart in charts] == ["Meter: one of process 77", "Meter: one of process 78"]


def test_of_too_many_points_some_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    many = MadeCounters()
    for ms in range(100):
        many.at(ms).gauge(lastValue=str(ms))
    counters = dd.counters(many.trace())
    monkeypatch.setattr(counter_charts, "MOST_POINTS", 30)
    data = data_in(page_of(counters))
    assert data["charts"][0]["lines"][0]["values"] == list(map(float, range(0, 100, 4)))
    assert "75 points are left out" in data["facts"]


def test_what_is_no_counters_is_refused() -> None:
    for module in (counter_page, counter_picture):
        with pytest.raises(UsageError, match="shows counters, not a Table"):
            module.write(dd.Table({}), io.BytesIO())


@pytest.mark.parametrize("recorded", [made(), MadeCounters().metric(3), MadeCounters().gauge(lastValue="NaN")])
def test_the_picture_is_a_picture(recorded: MadeCounters) -> None:
    out = io.BytesIO()
    counter_picture.write(dd.counters(recorded.trace()), out, name="$a_b$ 🐍 _x")
    assert out.getvalue().startswith(b"\x89PNG")


def test_a_picture_of_too_many_charts_shows_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    out, whole = io.BytesIO(), io.BytesIO()
    counters = dd.counters(made().trace())
    counter_picture.write(counters, whole)
    monkeypatch.setattr(counter_picture, "MOST_CHARTS", 1)
    counter_picture.write(counters, out)
    height = [int.from_bytes(file.getvalue()[20:24], "big") for file in (out, whole)]
    assert height == [300, 900]


def test_without_matplotlib_there_is_no_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependency, match="plot"):
        counter_picture.write(dd.counters(made().trace()), io.BytesIO())


def test_the_page_draws_itself_in_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "counters.html"
    path.write_text(page_of(dd.counters(made().trace()), "app.nettrace"), encoding="utf-8")
    with running() as driver:
        page = Page(driver)
        page.open(path)
        assert page.text("h1") == "Counters of app.nettrace"
        assert page.value("document.querySelectorAll('section').length") == 4
        assert page.value("document.querySelectorAll('path.drawn').length") == 6
        assert page.text("#said") == "4 of 4 charts"
        page.run("const s = document.getElementById('search'); s.value = 'ORDERS'; s.dispatchEvent(new Event('input'))")
        assert page.text("#said") == "1 of 4 charts"
        page.run("document.querySelector('section:not([hidden]) .legend button').click()")
        assert page.value("document.querySelectorAll('section:not([hidden]) path.drawn').length") == 0
        page.run("document.querySelector('section:not([hidden]) .legend button').click()")
        page.run("""const svg = document.querySelector('section:not([hidden]) svg'), box = svg.getBoundingClientRect();
            svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.right - 9, clientY: box.top + 20}))""")
        assert page.text("#tip") == "2 skind=a,b: 20 {order}/s"
        page.run("const s = document.getElementById('search'); s.value = ''; document.getElementById('moving').click()")
        assert page.text("#said") == "2 of 4 charts"
        page.collect()
        assert page.problems == []
        assert [one for one in page.requests if not one.startswith("file:")] == []
