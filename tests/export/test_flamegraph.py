"""The flame graph as a file, and in a browser: a click zooms, a search highlights, nothing foreign runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from tests.analysis.reference import opened
from tests.export.browser import Page, running
from tests.export.made import DEEP, SMALL, hostile, profile_of, sample, written
from tests.nettrace.recordings import data_of, recordings
from tests.shared import needs

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.export.flamegraph import asset
from dotnetdiag.trace.trace import Trace

# the file -------------------------------------------------------------------------------------------------------------


class Elements(HTMLParser):
    """The start tags and scripts of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag == "script"
        if self._inside:
            self.scripts.append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts[-1] += data


def elements(result: Any) -> Elements:
    parsed = Elements()
    parsed.feed(written(result, "flamegraph").decode("utf-8"))
    parsed.close()
    return parsed


def data_in(result: Any) -> dict[str, Any]:
    text = written(result, "flamegraph").decode("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    assert found[1].isascii()
    assert "<" not in found[1]
    data: dict[str, Any] = json.loads(found[1])
    return data


def stacks_of(data: dict[str, Any]) -> dict[tuple[str, ...], float]:
    """(thread, state, outermost, ...) → weight, from the arrays of the page."""
    paths: list[tuple[str, ...]] = [()]
    depth = [0]
    for frame, up in zip(data["frame"], data["up"], strict=True):
        level = depth[-1] + 1 - up
        parent = next(i for i in range(len(depth) - 1, -1, -1) if depth[i] == level - 1)
        paths.append((*paths[parent], data["names"][frame]))
        depth.append(level)
    found: dict[tuple[str, ...], float] = {}
    place = 0
    for step, key, value in zip(*(data["rows"][name] for name in ("node", "key", "value")), strict=True):
        place += step
        thread, state = divmod(key, max(1, len(data["states"])))
        head = (data["threads"][thread], data["states"][state]) if data["threads"] else (str(key),)
        found[(*head, *paths[place])] = value * data["scale"]
    return found


def test_data_are_all_stacks_of_all_threads_and_states() -> None:
    data = data_in(profile_of(*SMALL, module=""))
    assert stacks_of(data) == {
        ("Thread (1)", "running", "ManagedModule!App.Main()", "ManagedModule!App.Work()"): 5,
        ("Thread (1)", "native code or waiting", "ManagedModule!App.Main()", "ManagedModule!App.Wait()"): 5,
        ("Thread (1)", "running", *(f"ManagedModule!App.{name}()" for name in ("Main", "Work", "Inner"))): 20,
        ("Thread (2)", "running", *(f"ManagedModule!App.{name}()" for name in ("Loop", "Work", "Inner"))): 20,
        ("Thread (2)", "running", *(f"ManagedModule!App.{name}()" for name in ("Loop", "Loop", "Work"))): 20,
    }
    assert "0 of 6 events lost" in data["facts"]
    assert "0 of 5 methods unresolved" in data["facts"]


def test_labels_are_short_and_know_the_framework() -> None:
    data = data_in(cpu(opened("default-10")))
    by_name = dict(zip(data["names"], zip(data["labels"], data["module"], strict=True), strict=True))
    label, module = by_name[
        "System.Linq!System.Linq.Enumerable.ToList(class System.Collections.Generic.IEnumerable`1<!!0>)"
    ]
    assert label == "Enumerable.ToList"
    assert data["framework"][module] == 1
    label, module = by_name["workload!Workload.Program.Main(class System.String[])"]
    assert (label, data["framework"][module]) == ("Program.Main", 0)


@pytest.mark.parametrize("name", recordings())
def test_every_recording_gives_a_file_with_all_its_weight(name: str) -> None:
    trace = Trace(data_of(name), name=name)
    for profile in (cpu(trace), stacks(trace)):
        data = data_in(profile)
        total = sum(data["rows"]["value"]) * data["scale"]
        assert total == pytest.approx(profile.total, abs=0.0005 * len(data["rows"]["value"]) + 1e-9)
        assert all(up >= 0 for up in data["up"])


def test_the_page_loads_nothing_and_lets_only_its_own_scripts_run() -> None:
    page = elements(hostile())
    assert not [value for _, attributes in page.tags for name, value in attributes.items() if name in ("src", "href")]
    assert [name for _, attributes in page.tags for name in attributes if name.startswith("on")] == []
    assert [tag for tag, _ in page.tags].count("script") == 4
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    hashes = re.findall(r"'sha256-([^']+)'", policy)
    assert hashes == [base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in page.scripts[1:]]


def test_the_page_is_small() -> None:
    assert len(written(profile_of(), "flamegraph")) < 110_000
    profile = cpu(opened("default-10"))
    nodes = int(profile.used_nodes().sum())
    data = data_in(profile)
    coded = sum(len(json.dumps(data[name], separators=(",", ":"))) for name in ("frame", "up", "rows"))
    assert coded < 40 * nodes + 40 * len(data["rows"]["node"])


def test_licences_are_beside_what_is_not_ours() -> None:
    assert "Permission to use, copy, modify, and/or distribute" in asset("d3/LICENSE")
    assert "Apache License" in asset("d3-flame-graph/LICENSE")
    text = written(profile_of(), "flamegraph").decode("utf-8")
    assert "d3-selection 3.0.0" in text
    assert "d3-flame-graph 4.1.3" in text


# in a browser ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with running() as driver:
        yield driver


@pytest.fixture
def page(browser: webdriver.Chrome) -> Iterator[Page]:
    """Afterwards nothing was said on the console and nothing was asked of a network."""
    browser.get("about:blank")
    made = Page(browser)
    made.collect()
    made.problems, made.requests = [], []
    yield made
    made.collect()
    assert made.problems == []
    assert made.requests
    assert [url for url in made.requests if not url.startswith("file://")] == []
    assert len(made.requests) == 1


def shown(page: Page, result: Any, path: Path) -> None:
    path.write_bytes(written(result, "flamegraph"))
    page.open(path)


@pytest.fixture
def small(page: Page, tmp_path: Path) -> Page:
    shown(page, profile_of(*SMALL), tmp_path / "small.html")
    return page


def test_boxes_are_as_wide_as_their_weight(small: Page) -> None:
    assert sorted(small.names()) == ["App.Inner", "App.Inner", "App.Loop", "App.Loop", "App.Main", "App.Wait", *["App.Work"] * 3, "all"]  # fmt: skip
    whole, main = small.frame("all"), small.frame("App.Main")
    assert main["width"] / whole["width"] == pytest.approx(30 / 70, abs=0.005)
    assert small.frame("App.Wait")["width"] / whole["width"] == pytest.approx(5 / 70, abs=0.005)
    assert main["top"] > whole["top"]
    assert small.driver.title == "made.nettrace"
    assert "0 of 6 events lost" in small.text("#facts")
    assert "methods unresolved" in small.text("#facts")
    labels = small.value('[...document.querySelectorAll(".d3-flame-graph-label")].map((one) => one.textContent)')
    assert "App.Main" in labels


def test_a_click_zooms_and_a_click_on_the_root_or_escape_goes_back(small: Page) -> None:
    before = small.frame("App.Wait")
    small.click("App.Main")
    after, whole = small.frame("App.Wait"), small.frame("all")
    assert small.frame("App.Main")["width"] == pytest.approx(whole["width"], abs=1)
    assert after["width"] == pytest.approx(before["width"] * 70 / 30, rel=0.02)
    assert "App.Loop" not in small.names()
    assert small.text("#said") == "app!App.Main(): 30.00 ms, 42.86%"
    small.click("all")
    assert "App.Loop" in small.names()
    small.click("App.Main")
    small.run('dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}))')
    small.settled()
    assert "App.Loop" in small.names()
    small.click("App.Wait")
    small.run('document.getElementById("reset").click()')
    small.settled()
    assert small.frame("App.Wait")["width"] == pytest.approx(before["width"], abs=1)


def test_a_search_highlights_and_says_how_much_it_found(small: Page) -> None:
    plain = small.frame("App.Main")["fill"]
    small.search("inner")
    fills = {one["fill"] for one in small.frames() if one["name"] == "App.Inner"}
    assert len(fills) == 1
    assert fills != {plain}
    assert small.frame("App.Main")["fill"] == plain
    assert small.text("#said") == "1 methods match: 40.00 ms, 57.14%"
    small.screenshot("flamegraph-search")
    small.search(r"/Work|Wait/")
    assert small.text("#said") == "2 methods match: 70.00 ms, 100.00%"
    small.search("[(")
    assert small.text("#said") == "0 methods match: 0.00 ms, 0.00%"
    small.run('document.getElementById("search").focus()')
    small.run('dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}))')
    small.settled()
    assert small.text("#said") == ""


def test_threads_and_states_can_be_chosen(small: Page) -> None:
    small.choose("#thread", "Thread (2)")
    assert sorted(small.names()) == ["App.Inner", "App.Loop", "App.Loop", "App.Work", "App.Work", "all"]
    small.choose("#thread", "Thread (1)")
    small.choose("#state", "native code or waiting")
    assert sorted(small.names()) == ["App.Main", "App.Wait", "all"]
    small.choose("#thread", "Thread (2)")
    assert "There is nothing to show." in small.text("#note")
    small.choose("#thread", "all threads")
    small.choose("#state", "all")
    assert len(small.names()) == 10
    texts = small.value('[...document.getElementById("thread").options].map((one) => one.textContent)')
    assert texts == ["all threads", "Thread (1)  42.86%", "Thread (2)  57.14%"]


def test_the_tooltip_has_times_and_percentages(small: Page) -> None:
    assert small.hover("App.Main").splitlines() == [
        "app!App.Main()",
        "with what it called: 30.00 ms, 42.86%",
        "itself: 0.00 ms, 0.00%",
    ]
    small.click("App.Main")
    assert small.hover("App.Wait").splitlines()[1:] == [
        "with what it called: 5.00 ms, 7.14%",
        "itself: 5.00 ms, 7.14%",
        "16.67% of what is zoomed to",
    ]


@needs("fixtures", "the recording default-10")
def test_dark_mode_follows_the_system_and_a_button(page: Page, tmp_path: Path) -> None:
    def ground() -> str:
        return str(page.value("getComputedStyle(document.documentElement).backgroundColor"))

    def prefer(scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    prefer("dark")
    shown(page, cpu(opened("default-10")), tmp_path / "dark.html")
    assert ground() == "rgb(13, 17, 23)"
    page.screenshot("flamegraph-dark")
    box = page.frame("Thread.StartCallback")["fill"]
    page.run('document.getElementById("theme").click()')
    page.settled()
    assert ground() == "rgb(255, 255, 255)"
    assert page.frame("Thread.StartCallback")["fill"] != box
    prefer("light")
    page.settled()
    assert ground() == "rgb(255, 255, 255)"
    prefer("dark")
    page.settled()
    assert ground() == "rgb(13, 17, 23)"
    prefer("light")


@needs("fixtures", "the recording default-10")
def test_a_recording_is_shown(page: Page, tmp_path: Path) -> None:
    profile = cpu(opened("default-10"))
    shown(page, profile, tmp_path / "default.html")
    page.screenshot("flamegraph")
    main = next(row for row in profile.top(1000) if "Program.Main(" in row.name())
    assert page.frame("Program.Main")["width"] / page.frame("all")["width"] == pytest.approx(
        main.inclusive_percent / 100, abs=0.01
    )
    assert "0 of 24,196 events lost" in page.text("#facts")
    assert "1 of 197 methods unresolved" in page.text("#facts")
    page.choose("#state", "running")
    assert any(name.startswith("Cpu.") for name in page.names())


def test_a_difference_is_coloured_by_what_grew(page: Page, tmp_path: Path) -> None:
    before = profile_of(sample(1, 0, 10, "A.Main", "A.Same"), sample(1, 10, 10, "A.Main", "A.Less"), sample(1, 20, 1, "A.Gone"))  # fmt: skip
    after = profile_of(sample(1, 0, 10, "A.Main", "A.Same"), sample(1, 10, 3, "A.Main", "A.Less"), sample(1, 13, 5, "A.Main", "A.More"))  # fmt: skip
    shown(page, diff(before, after), tmp_path / "diff.html")
    page.screenshot("flamegraph-difference")

    def hue(name: str) -> tuple[str, str]:
        found = re.match(r"hsl\((\d+) (\d+)%", page.frame(name)["fill"])
        assert found
        return found[1], found[2]

    assert hue("A.Same") == ("0", "0")
    assert hue("A.Less")[0] == "215"
    assert hue("A.More")[0] == "4"
    assert "A.Gone" not in page.names()
    assert page.hover("A.Less").splitlines() == [
        "app!A.Less()",
        "with what it called: 10.00 ms → 3.00 ms (-70.0%)",
        "itself: 10.00 ms → 3.00 ms (-70.0%)",
    ]
    assert page.hover("A.More").splitlines()[2] == "itself: 0.00 ms → 5.00 ms (new)"
    assert not page.value('document.getElementById("legend").classList.contains("away")')
    page.choose("#width", "before")
    assert "A.Gone" in page.names()
    assert page.frame("A.Less")["width"] == pytest.approx(page.frame("all")["width"] * 10 / 21, abs=2)


def test_no_name_runs(page: Page, tmp_path: Path) -> None:
    shown(page, hostile(), tmp_path / "hostile.html")
    assert page.value("typeof window.hacked") == "undefined"
    assert page.value('document.querySelectorAll("img, b, script:not([type])").length') == 3
    page.choose("#thread", "Thread (1)")
    assert sum("script>" in name for name in page.names()) >= 2
    page.click("T.Main")
    for name in [name for name in page.names() if "<" in name and page.names().count(name) == 1]:
        assert "<" in page.hover(name)
    page.search("hacked")
    page.screenshot("flamegraph-hostile")
    assert page.value("typeof window.hacked") == "undefined"
    assert page.driver.title.startswith("</script><script>window.hacked=5</script>\ufffd.nettrace")


def test_five_thousand_frames_are_drawn_a_part_at_a_time(page: Page, tmp_path: Path) -> None:
    deep = profile_of(sample(1, 0, 10, *(f"T.Deep{number}" for number in range(DEEP))), sample(1, 10, 10, "T.Main"))
    shown(page, deep, tmp_path / "deep.html")
    assert "4,750 more levels are not drawn" in page.text("#note")
    assert "5,000 levels" in page.text("#facts")
    names = page.names()
    assert "T.Deep249" in names
    assert "T.Deep250" not in names
    page.search("T.Deep4999")
    assert page.text("#said") == "1 methods match: 10.00 ms, 50.00%"
    for _ in range(DEEP // 250 + 1):
        lowest = [name for name in page.names() if name.endswith("more levels")]
        if not lowest:
            break
        page.click(lowest[0])
    assert "T.Deep4999" in page.names()
    assert any(name.endswith("more callers") for name in page.names())
    page.click(next(name for name in page.names() if name.endswith("more callers")))
    assert "T.Deep4999" not in page.names()
    page.click("all")
    assert "T.Deep0" in page.names()


def test_many_stacks_are_drawn_where_they_are_wide_enough(page: Page, tmp_path: Path) -> None:
    wide = profile_of(*(sample(1, number, 1, "T.Main", f"T.Leaf{number}") for number in range(20_000)))
    shown(page, wide, tmp_path / "wide.html")
    assert "20,000 stacks are too narrow to draw" in page.text("#note")
    assert page.names() == ["all", "T.Main"]
    page.search("Leaf1999")
    assert page.text("#said") == "11 methods match: 11.00 ms, 0.06%"


def test_nothing_is_said_to_be_nothing(page: Page, tmp_path: Path) -> None:
    shown(page, profile_of(), tmp_path / "nothing.html")
    assert page.text("#note") == "There is nothing to show."


def test_weights_of_other_units_are_shown_as_they_are(page: Page, tmp_path: Path) -> None:
    profile = profile_of(
        sample(1, 0, 0, "A.Main", "A.New", weight=1_234_567, state=State.NONE),
        sample(1, 1, 0, "A.Main", weight=10, state=State.NONE),
        unit="bytes",
    )
    shown(page, profile, tmp_path / "bytes.html")
    assert page.hover("A.New").splitlines()[1] == "with what it called: 1,234,567 bytes, 100.00%"
    assert page.value('document.querySelector(".only-states").classList.contains("away")')
