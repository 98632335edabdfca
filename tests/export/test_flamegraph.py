"""The flame graph as a file, and in a browser: a click zooms, a search highlights, nothing foreign runs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from tests.analysis.reference import opened
from tests.export.browser import Page, running
from tests.export.made import DEEP, SMALL, hostile, profile_of, sample, written
from tests.nettrace.recordings import data_of, recordings
from tests.shared import needs

from dotnetdiag.analysis.cpu import cpu
from dotnetdiag.analysis.diff import diff
from dotnetdiag.analysis.frames import Frames
from dotnetdiag.analysis.origin import Origin
from dotnetdiag.analysis.profile import State
from dotnetdiag.analysis.stacks import stacks
from dotnetdiag.export import flamegraph
from dotnetdiag.export.flamegraph import Code, code_of
from dotnetdiag.export.pages import asset
from dotnetdiag.recipes.report import ReportOptions, ViewOptions, report_of
from dotnetdiag.trace.frame import Frame, FrameKind
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


def paths_of(data: dict[str, Any]) -> list[tuple[str, ...]]:
    """The stack of each place, outermost first."""
    paths: list[tuple[str, ...]] = [()]
    depth = [0]
    for frame, up in zip(data["frame"], data["up"], strict=True):
        level = depth[-1] + 1 - up
        parent = next(i for i in range(len(depth) - 1, -1, -1) if depth[i] == level - 1)
        paths.append((*paths[parent], data["names"][frame]))
        depth.append(level)
    return paths


def stacks_of(data: dict[str, Any]) -> dict[tuple[str, ...], float]:
    """(thread, state, outermost, ...) → weight, from the arrays of the page."""
    paths = paths_of(data)
    found: dict[tuple[str, ...], float] = {}
    place = 0
    for step, key, value in zip(*(data["rows"][name] for name in ("node", "key", "value")), strict=True):
        place += step
        thread, state = divmod(key, max(1, len(data["states"])))
        head = (data["threads"][thread], data["states"][state]) if data["threads"] else (str(key),)
        stack = (*head, *paths[place])
        found[stack] = found.get(stack, 0) + value * data["scale"]
    return found


def test_data_are_all_stacks_of_all_threads_and_states() -> None:
    data = data_in(profile_of(*SMALL, module=""))
    assert stacks_of(data) == {
        ("Thread (1)", "running", "ManagedModule!App.Main()", "ManagedModule!App.Work()"): 5,
        ("Thread (1)", "waiting", "ManagedModule!App.Main()", "ManagedModule!App.Wait()"): 5,
        ("Thread (1)", "running", *(f"ManagedModule!App.{name}()" for name in ("Main", "Work", "Inner"))): 20,
        ("Thread (2)", "running", *(f"ManagedModule!App.{name}()" for name in ("Loop", "Work", "Inner"))): 20,
        ("Thread (2)", "running", *(f"ManagedModule!App.{name}()" for name in ("Loop", "Loop", "Work"))): 20,
    }
    assert "0 of 6 events lost" in data["facts"]
    assert "0 of 5 methods unresolved" in data["facts"]


def test_labels_are_short_and_know_the_framework() -> None:
    data = data_in(cpu(opened("default-10")))
    codes = [data["codes"][code] for code in data["code"]]
    by_name = dict(zip(data["names"], zip(data["labels"], codes, strict=True), strict=True))
    assert by_name[
        "System.Linq!System.Linq.Enumerable.ToList(class System.Collections.Generic.IEnumerable`1<!!0>)"
    ] == ("Enumerable.ToList", "framework")
    assert by_name["workload!Workload.Program.Main(class System.String[])"] == ("Program.Main", "program")


@pytest.mark.parametrize(
    ("code", "frame"),
    [
        (Code.PROGRAM, Frame(kind=FrameKind.METHOD, module="app", type_name="App.Main", method="Run")),
        (Code.PROGRAM, Frame(kind=FrameKind.METHOD, type_name="", method="made at run time")),
        (Code.PROGRAM, Frame(kind=FrameKind.SYMBOL, module="app", type_name="App.Main", method="Run", text="void")),
        (Code.FRAMEWORK, Frame(kind=FrameKind.METHOD, module="System.Linq", type_name="System.Linq.Enumerable")),
        (
            Code.FRAMEWORK,
            Frame(kind=FrameKind.UNRESOLVED, module="System.Linq", module_path="/x/System.Linq.dll", address=1),
        ),
        (Code.RUNTIME, Frame(kind=FrameKind.UNRESOLVED, module="libcoreclr.so", address=1)),
        (Code.RUNTIME, Frame(kind=FrameKind.SYMBOL, module="clrjit", text="jitNativeCode")),
        (Code.RUNTIME, Frame(kind=FrameKind.SYMBOL, module="memfd:doublemapper", text="stub <Precode>")),
        (Code.NATIVE, Frame(kind=FrameKind.SYMBOL, module="vmlinux", text="exc_page_fault")),
        (Code.NATIVE, Frame(kind=FrameKind.UNRESOLVED, module="libc.so.6", address=1)),
        (Code.NATIVE, Frame(kind=FrameKind.SYMBOL, module="libSystem.Native.so", text="SystemNative_Read")),
        (Code.UNKNOWN, Frame(kind=FrameKind.UNRESOLVED, address=1)),
        (Code.UNKNOWN, Frame(kind=FrameKind.UNRESOLVED, module="[heap]", address=1)),
        (Code.GROUP, Frame(kind=FrameKind.PSEUDO, text="Thread (12)")),
        (Code.FRAMEWORK, Frame(kind=FrameKind.PSEUDO, text="System.Linq")),
        (Code.RUNTIME, Frame(kind=FrameKind.PSEUDO, text="libcoreclr.so (native)")),
        (Code.NATIVE, Frame(kind=FrameKind.PSEUDO, text="vmlinux")),
        (Code.NATIVE, Frame(kind=FrameKind.PSEUDO, text="libc.so.6 (native)")),
        (Code.GROUP, Frame(kind=FrameKind.PSEUDO, text="[heap]")),
        (Code.GROUP, Frame(kind=FrameKind.PSEUDO, text="workload")),
    ],
)
def test_frames_are_told_apart_by_what_their_code_belongs_to(code: Code, frame: Frame) -> None:
    assert code_of(frame) is code


def methods_of(data: dict[str, Any], wanted: Callable[[str], bool]) -> dict[str, tuple[float, float]]:
    """(inclusive, exclusive) by name, a stack counting once for each method in it."""
    found: dict[str, tuple[float, float]] = {}
    for (_, state, *path), weight in stacks_of(data).items():
        if wanted(state):
            for name in set(path):
                inclusive, exclusive = found.get(name, (0.0, 0.0))
                found[name] = (inclusive + weight, exclusive + weight * (name == path[-1]))
    return found


@pytest.mark.parametrize("name", recordings())
@pytest.mark.parametrize("state", ["all", "cpu", "waiting"])
def test_methods_have_the_weights_of_the_report(name: str, state: str) -> None:
    trace = Trace(data_of(name), name=name)
    wanted = {"all": None, "cpu": "running", "waiting": "waiting"}[state]
    data = data_in(cpu(trace))
    found = methods_of(data, lambda one: wanted in (None, one))
    rows = report_of(trace, ReportOptions(number=100_000, view=ViewOptions(state=state))).rows
    names = [row.name for row in rows]
    error = 0.0005 * len(data["rows"]["value"]) + 1e-9  # each is written in whole microseconds
    for row in rows:
        if names.count(row.name) == 1:
            assert found[row.name] == pytest.approx((row.inclusive, row.exclusive), abs=error)
    assert set(names) == {name for name, (inclusive, _) in found.items() if inclusive > 0}


def test_states_of_waiting_are_one_and_say_what_they_mean() -> None:
    data = data_in(
        profile_of(sample(1, 0, 1, "A.B", state=State.UNMANAGED), sample(1, 1, 1, "A.B", state=State.BLOCKED))
    )
    assert data["states"] == ["waiting"]
    assert data["hints"] == ["the thread was off the processor"]
    assert [key for _, key, _ in zip(*data["rows"].values(), strict=True)] == [0, 0]
    data = data_in(profile_of(*SMALL))
    assert data["states"] == ["running", "waiting"]
    assert "cannot tell waiting from running" in data["hints"][1]


def test_stacks_in_order_of_time_are_runs_of_equal_ones() -> None:
    data = data_in(profile_of(*SMALL, sample(2, 45, 5, "App.Loop", "App.Loop", "App.Work")))
    places = {path: place for place, path in enumerate(paths_of(data))}
    short = {name.rpartition(".")[2].removesuffix("()"): name for name in data["names"]}
    times = data["times"]
    assert times["runs"] == [4, 2]
    assert times["gap"] == [0, 0, 0, 10_000, 5_000, 0]
    assert times["length"] == [10_000, 5_000, 5_000, 10_000, 20_000, 25_000]
    assert [data["states"][state] for state in times["state"]] == ["running"] * 2 + ["waiting"] + ["running"] * 3
    assert times["node"] == [
        places[tuple(short[name] for name in path.split())]
        for path in (
            "Main Work Inner",
            "Main Work",
            "Main Wait",
            "Main Work Inner",
            "Loop Work Inner",
            "Loop Loop Work",
        )
    ]


@pytest.mark.parametrize("name", recordings())
def test_order_of_time_holds_all_time_of_each_thread(name: str) -> None:
    profile = cpu(Trace(data_of(name), name=name))
    times = data_in(profile)["times"]
    assert (times is None) == (not profile.length_ns.any())
    if times is None:
        return
    assert min(times["gap"]) >= 0
    assert min(times["length"]) >= 0
    row = 0
    for thread, count in zip(profile.threads, times["runs"], strict=True):
        length = profile.length_ns[thread.rows.start : thread.rows.stop].sum() / 1e3
        assert sum(times["length"][row : row + count]) == pytest.approx(length, rel=0.002, abs=count)
        row += count


def test_order_of_time_is_left_out_where_it_is_too_long_or_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert data_in(profile_of(sample(1, 0, 0, "A.B", weight=5)))["times"] is None
    monkeypatch.setattr(flamegraph, "MOST_RUNS", 5)
    data = data_in(profile_of(*SMALL))
    assert data["times"] is None
    assert (
        "order of time is left out: 6 changes of stack, of 5 at most (fewer threads or less time have it)"
        in data["facts"]
    )
    monkeypatch.setattr(flamegraph, "MOST_RUNS", 6)
    data = data_in(profile_of(*SMALL))
    assert data["times"] is not None
    assert not [fact for fact in data["facts"] if "order of time" in fact]


def test_the_title_is_the_file_and_what_is_shown() -> None:
    origin = Origin(name="x" * 500 + ".nettrace", command_line="dotnet app.dll --with many arguments")
    data = data_in(profile_of(*SMALL, origin=origin))
    assert data["title"] == f"{'x' * 40}…{'x' * 31}.nettrace: Thread time"
    assert data["facts"][0] == "dotnet app.dll --with many arguments"
    one = profile_of(*SMALL, origin=Origin(name="old.nettrace", command_line="dotnet old.dll"))
    other = profile_of(*SMALL, origin=Origin(name="new.nettrace"))
    data = data_in(diff(one, other))
    assert data["title"] == "new.nettrace against old.nettrace"
    assert "before: dotnet old.dll" in data["facts"]


@pytest.mark.parametrize(
    ("begins_ms", "gap", "length"), [(1000.5, 0, 1_000_500), (1002, 2_000, 1_000_000), (999, 0, 999_000)]
)
def test_a_run_in_order_of_time_reaches_to_the_next_unless_there_is_a_gap(
    begins_ms: float, gap: int, length: int
) -> None:
    times = data_in(profile_of(sample(1, 0, 1000, "A.B"), sample(1, begins_ms, 10, "A.C")))["times"]
    assert (times["gap"], times["length"]) == ([0, gap], [length, 10_000])


@pytest.mark.parametrize(
    ("unit", "weight", "is_whole"),
    [("bytes", 3, True), ("samples", 3, True), ("bytes", 3.25, False), ("ms", 3, False), ("ms", 3.25, False)],
)
def test_counts_are_whole_numbers_and_all_else_is_scaled(unit: str, weight: float, is_whole: bool) -> None:
    data = data_in(profile_of(sample(1, 0, 1, "A.B", weight=weight), sample(1, 1, 1, "A.C", weight=2), unit=unit))
    assert (data["scale"] == 1) == is_whole
    assert sum(value * data["scale"] for value in data["rows"]["value"]) == pytest.approx(weight + 2)


def test_a_difference_says_what_either_recording_lacks() -> None:
    one = profile_of(*SMALL, origin=Origin(name="a", events=1000, lost=30))
    other = profile_of(*SMALL, origin=Origin(name="b", events=20, lost=None, complete=False, damage="cut off"))
    assert data_in(diff(one, other))["facts"][-3:] == [
        "before: 30 of 1,000 events lost",
        "after: events lost: not known",
        "after: the trace is broken: cut off",
    ]


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
    browser.set_window_size(1400, 1000)
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
def opened_small(page: Page, tmp_path: Path) -> Page:
    """As it opens: with what ran."""
    shown(page, profile_of(*SMALL), tmp_path / "small.html")
    return page


@pytest.fixture
def small(opened_small: Page) -> Page:
    """In all states."""
    pick(opened_small, "all")
    return opened_small


def pick(page: Page, state: str) -> None:
    """Click on a state."""
    (found,) = [
        one
        for one in page.driver.find_elements(By.CSS_SELECTOR, "#state label")
        if one.text.split("  ")[0].split()[0] == state
    ]
    found.click()
    page.settled()


def press(page: Page, *keys: str) -> None:
    webdriver.ActionChains(page.driver).send_keys(*keys).perform()
    page.settled()


def shift_click(page: Page, name: str) -> None:
    box = page.value(
        '[...document.querySelectorAll("g.frame")].find((g) => g.getAttribute("name") === arguments[0])', name
    )
    webdriver.ActionChains(page.driver).key_down(Keys.SHIFT).click(box).key_up(Keys.SHIFT).perform()
    page.settled()


def boxes_in(page: Page, chart: str) -> list[tuple[str, int]]:
    """(name, percent of the chart's width) of each box, by row from the top and then from the left."""
    found = page.value(
        """[...document.querySelectorAll(`#${arguments[0]} g.frame`)].map((g) => {
            const box = g.querySelector("rect").getBoundingClientRect();
            return [box.top, box.left, g.getAttribute("name"), box.width];
        })""",
        chart,
    )
    whole = max(one[3] for one in found)
    return [(name, round(100 * width / whole)) for _, _, name, width in sorted(found)]


def shows(page: Page, selector: str) -> bool:
    return bool(page.driver.find_element(By.CSS_SELECTOR, selector).is_displayed())


def focused(page: Page) -> str | None:
    name: str | None = page.value('document.activeElement.getAttribute("name") || document.activeElement.id')
    return name


def test_boxes_are_as_wide_as_their_weight(small: Page) -> None:
    assert sorted(small.names()) == ["App.Inner", "App.Inner", "App.Loop", "App.Loop", "App.Main", "App.Wait", *["App.Work"] * 3, "all"]  # fmt: skip
    whole, main = small.frame("all"), small.frame("App.Main")
    assert main["width"] / whole["width"] == pytest.approx(30 / 70, abs=0.005)
    assert small.frame("App.Wait")["width"] / whole["width"] == pytest.approx(5 / 70, abs=0.005)
    assert main["top"] > whole["top"]
    assert small.driver.title == "made.nettrace: Thread time"
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
    assert small.text("#said") == "1 method matches: 40.00 ms, 57.14%"
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
    pick(small, "waiting")
    assert sorted(small.names()) == ["App.Main", "App.Wait", "all"]
    small.choose("#thread", "Thread (2)")
    assert "There is nothing to show in this state." in small.text("#note")
    small.choose("#thread", "all threads")
    pick(small, "all")
    assert len(small.names()) == 10
    texts = small.value('[...document.getElementById("thread").options].map((one) => one.textContent)')
    assert texts == ["all threads", "Thread (1)  42.86%", "Thread (2)  57.14%"]


def test_the_page_opens_on_what_ran_and_waiting_is_one_click_away(opened_small: Page) -> None:
    page = opened_small
    assert "App.Wait" not in page.names()
    labels = [
        " ".join(one.text.split()) for one in page.driver.find_elements(By.CSS_SELECTOR, "#state legend, #state label")
    ]
    assert labels == ["State:", "running 92.86%", "waiting 7.14%", "all 100.00%"]
    assert page.value('document.querySelector("#state input:checked").parentNode.textContent').startswith(" running")
    assert page.hover("App.Main").splitlines()[1] == "with what it called: 25.00 ms, 38.46%"
    pick(page, "waiting")
    assert sorted(page.names()) == ["App.Main", "App.Wait", "all"]
    assert "cannot tell waiting from running" in page.text("#note")
    pick(page, "all")
    assert len(page.names()) == 10


def test_where_nothing_ran_all_is_shown_and_the_page_says_so(page: Page, tmp_path: Path) -> None:
    shown(page, profile_of(sample(1, 0, 5, "A.Main", "A.Wait", state=State.BLOCKED)), tmp_path / "waiting.html")
    assert page.names() == ["all", "A.Main", "A.Wait"]
    assert page.text("#note") == "Nothing ran while it was recorded: all states are shown."
    pick(page, "waiting")
    assert page.text("#note") == "waiting: the thread was off the processor."


def test_where_something_ran_nothing_is_said_of_it(small: Page) -> None:
    assert small.text("#note") == ""


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
    pick(page, "all")
    main = next(row for row in profile.top(1000) if "Program.Main(" in row.name())
    assert page.frame("Program.Main")["width"] / page.frame("all")["width"] == pytest.approx(
        main.inclusive_percent / 100, abs=0.01
    )
    assert "0 of 24,196 events lost" in page.text("#facts")
    assert "1 of 197 methods unresolved" in page.text("#facts")
    pick(page, "running")
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
    assert page.text("#legend").split() == ["more", "than", "before", "less", "than", "before"]
    assert shows(page, "#legend .grown")
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
    assert page.text("#said") == "1 method matches: 10.00 ms, 50.00%"
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
    assert not shows(page, "#state")
    assert not shows(page, "#order")
    assert page.text("#note") == ""


# callers and callees --------------------------------------------------------------------------------------------------


def test_callers_are_above_and_callees_below_over_all_calls_of_a_method(small: Page) -> None:
    small.search("App.Main")
    shift_click(small, "App.Work")
    assert small.text("#method") == "app!App.Work()"
    assert small.text("#weight") == "with what it called: 65.00 ms, 92.86%  ·  itself: 25.00 ms, 35.71%"
    assert boxes_in(small, "callers") == [("App.Loop", 31), ("App.Loop", 62), ("App.Main", 38), ("App.Work", 100)]
    assert boxes_in(small, "callees") == [("App.Work", 100), ("App.Inner", 62)]
    assert not shows(small, "#chart")
    small.screenshot("flamegraph-callers")


def test_a_stack_counts_once_for_a_method_that_calls_itself(small: Page) -> None:
    shift_click(small, "App.Loop")
    assert small.text("#weight") == "with what it called: 40.00 ms, 57.14%  ·  itself: 0.00 ms, 0.00%"
    assert boxes_in(small, "callers") == [("App.Loop", 100)]
    assert boxes_in(small, "callees") == [("App.Loop", 100), ("App.Work", 50), ("App.Loop", 50), ("App.Inner", 50), ("App.Work", 50)]  # fmt: skip


def test_callers_and_callees_follow_the_state_and_the_thread(small: Page) -> None:
    shift_click(small, "App.Main")
    assert [name for name, _ in boxes_in(small, "callees")] == ["App.Main", "App.Work", "App.Wait", "App.Inner"]
    pick(small, "running")
    assert [name for name, _ in boxes_in(small, "callees")] == ["App.Main", "App.Work", "App.Inner"]
    small.choose("#thread", "Thread (2)")
    assert small.text("#weight") == "with what it called: 0.00 ms, 0.00%  ·  itself: 0.00 ms, 0.00%"


def test_each_click_looks_at_another_method_and_back_returns_step_by_step(small: Page) -> None:
    small.click("App.Main")
    small.run('document.getElementById("callers-of").click()')
    assert small.text("#method") == "app!App.Main()"
    assert shows(small, "#callers")
    box = small.value("document.querySelector(\"#callees g[name='App.Wait']\")")
    webdriver.ActionChains(small.driver).click(box).perform()
    small.settled()
    assert small.text("#method") == "app!App.Wait()"
    small.driver.find_element(By.ID, "back").click()
    small.settled()
    assert small.text("#method") == "app!App.Main()"
    press(small, Keys.ESCAPE)
    assert shows(small, "#chart")
    assert not shows(small, "#callers")
    assert small.text("#said") == "app!App.Main(): 30.00 ms, 42.86%"


def test_a_search_lists_methods_whose_callers_are_a_click_away(small: Page) -> None:
    small.search("app")
    texts = [one.text for one in small.driver.find_elements(By.CSS_SELECTOR, "#found button")]
    assert [" ".join(text.split()) for text in texts] == [
        "92.86% app!App.Work()",
        "57.14% app!App.Inner()",
        "57.14% app!App.Loop()",
        "42.86% app!App.Main()",
        "7.14% app!App.Wait()",
    ]
    small.search("inner")
    press(small, Keys.TAB, Keys.TAB)
    assert "app!App.Inner()" in small.value("document.activeElement.textContent")
    press(small, Keys.ENTER)
    assert small.text("#method") == "app!App.Inner()"
    press(small, Keys.ENTER)
    assert shows(small, "#chart")


def test_boxes_are_reached_by_keyboard(small: Page) -> None:
    def label() -> str:
        return str(small.value('document.activeElement.getAttribute("aria-label")'))

    small.run('document.getElementById("theme").focus()')
    press(small, Keys.TAB)
    assert focused(small) == "all"
    assert label() == "all; with what it called: 70.00 ms, 100.00%; itself: 0.00 ms, 0.00%"
    assert small.value('document.activeElement.getAttribute("role")') == "button"
    press(small, Keys.ARROW_DOWN)
    assert focused(small) == "App.Loop"
    press(small, Keys.ARROW_RIGHT)
    assert focused(small) == "App.Main"
    assert shows(small, "#tip")
    press(small, Keys.ARROW_RIGHT)
    assert focused(small) == "App.Main"
    press(small, Keys.ENTER)
    assert small.text("#said") == "app!App.Main(): 30.00 ms, 42.86%"
    assert focused(small) == "App.Main"
    press(small, Keys.ARROW_DOWN, "s")
    assert small.text("#method") == "app!App.Work()"
    assert focused(small) == "back"
    press(small, Keys.TAB)
    assert focused(small) == "App.Work"
    press(small, Keys.ARROW_UP)
    assert focused(small) == "App.Loop"
    press(small, Keys.ENTER)
    assert small.text("#method") == "app!App.Loop()"
    press(small, Keys.ESCAPE, Keys.ESCAPE)
    assert focused(small) == "App.Main"
    press(small, Keys.ESCAPE)
    assert small.text("#said") == ""
    assert focused(small) == "all"


def test_callers_and_callees_have_the_weights_of_the_report(page: Page, tmp_path: Path) -> None:
    trace = Trace(data_of("cpu-only-10.nettrace"), name="cpu-only-10.nettrace")
    shown(page, cpu(trace), tmp_path / "cpu.html")
    made = report_of(trace, ReportOptions(number=6, inclusive=True, view=ViewOptions(state="cpu")))
    assert len(made.rows) == 6
    for row in made.rows:
        page.search(row.name)
        page.driver.find_element(By.CSS_SELECTOR, "#found button").click()
        page.settled()
        assert page.text("#method") == row.name
        assert page.text("#weight") == (
            f"with what it called: {row.inclusive:,.2f} ms, {row.inclusive_percent:.2f}%  ·  "
            f"itself: {row.exclusive:,.2f} ms, {row.exclusive_percent:.2f}%"
        )
        press(page, Keys.ESCAPE)


def test_callers_of_deep_stacks_say_what_is_not_drawn(page: Page, tmp_path: Path) -> None:
    deep = profile_of(sample(1, 0, 10, *(f"T.Deep{number}" for number in range(1000))))
    shown(page, deep, tmp_path / "deep.html")
    shift_click(page, "T.Deep240")
    assert "509 more levels are not drawn" in page.text("#note")
    assert "T.Deep0" in page.names()
    assert "T.Deep490" in page.names()
    assert "T.Deep491" not in page.names()


def test_a_difference_has_callers_and_callees_too(page: Page, tmp_path: Path) -> None:
    before = profile_of(sample(1, 0, 10, "A.Main", "A.Same"), sample(1, 10, 10, "A.Main", "A.Less"))
    after = profile_of(sample(1, 0, 10, "A.Main", "A.Same"), sample(1, 10, 5, "A.Main", "A.Less"))
    shown(page, diff(before, after), tmp_path / "diff.html")
    shift_click(page, "A.Main")
    assert page.text("#weight") == "with what it called: 15.00 ms, 100.00%  ·  itself: 0.00 ms, 0.00%"
    assert page.hover("A.Less").splitlines()[1] == "with what it called: 10.00 ms → 5.00 ms (-50.0%)"
    assert page.frame("A.Less")["fill"].startswith("hsl(215 ")


# order of time --------------------------------------------------------------------------------------------------------


def test_a_thread_can_be_shown_in_order_of_time(small: Page) -> None:
    small.choose("#thread", "Thread (1)")
    small.choose("#order", "in time")
    assert small.text("#said") == "Thread (1): 0.00 ms to 40.00 ms: 40.00 ms"
    assert boxes_in(small, "chart") == [
        ("Thread (1)", 100),
        *[("App.Main", 50), ("App.Main", 25)],
        *[("App.Work", 38), ("App.Wait", 12), ("App.Work", 25)],
        *[("App.Inner", 25), ("App.Inner", 25)],
    ]
    whole, waits = small.frame("Thread (1)"), small.frame("App.Wait")
    assert (waits["left"] - whole["left"]) / whole["width"] == pytest.approx(15 / 40, abs=0.005)
    last = max(one["left"] for one in small.frames() if one["name"] == "App.Main")
    assert (last - whole["left"]) / whole["width"] == pytest.approx(30 / 40, abs=0.005)
    assert small.hover("App.Wait").splitlines() == ["app!App.Wait()", "15.00 ms to 20.00 ms", "5.00 ms"]
    small.screenshot("flamegraph-time")
    small.click("App.Wait")
    assert small.text("#said") == "Thread (1): 15.00 ms to 20.00 ms: 5.00 ms"
    assert boxes_in(small, "chart") == [("Thread (1)", 100), ("App.Main", 100), ("App.Wait", 100)]
    press(small, Keys.ESCAPE)
    assert len(boxes_in(small, "chart")) == 8
    pick(small, "running")
    assert "App.Wait" not in small.names()
    shift_click(small, "App.Inner")
    assert small.text("#weight") == "with what it called: 20.00 ms, 80.00%  ·  itself: 20.00 ms, 80.00%"


def test_a_thread_that_never_was_in_a_state_shows_nothing_in_order_of_time(small: Page) -> None:
    small.choose("#thread", "Thread (2)")
    small.choose("#order", "in time")
    pick(small, "waiting")
    assert small.names() == ["Thread (2)"]
    assert "There is nothing to show in this state." in small.text("#note")
    pick(small, "all")
    assert len(small.names()) == 6


def test_a_profile_that_counts_samples_has_times_in_order_of_time(page: Page, tmp_path: Path) -> None:
    profile = profile_of(sample(1, 0, 10, "A.One", weight=1), sample(1, 10, 30, "A.Two", weight=1), unit="samples")
    shown(page, profile, tmp_path / "samples.html")
    assert page.hover("A.Two").splitlines()[1] == "with what it called: 1 samples, 50.00%"
    page.choose("#order", "in time")
    assert boxes_in(page, "chart") == [("Thread (1)", 100), ("A.One", 25), ("A.Two", 75)]
    assert page.hover("A.Two").splitlines()[1:] == ["10.00 ms to 40.00 ms", "30.00 ms"]


def test_another_thread_or_state_is_shown_over_all_of_its_time(small: Page) -> None:
    small.choose("#thread", "Thread (1)")
    small.choose("#order", "in time")
    small.click("App.Wait")
    small.choose("#thread", "Thread (2)")
    assert small.text("#said") == "Thread (2): 5.00 ms to 45.00 ms: 40.00 ms"
    small.choose("#thread", "Thread (1)")
    small.click("App.Wait")
    pick(small, "running")
    assert small.text("#said") == "Thread (1): 0.00 ms to 40.00 ms: 40.00 ms"


def test_order_of_time_begins_with_the_busiest_thread(small: Page) -> None:
    small.choose("#order", "in time")
    assert small.text("#said").startswith("Thread (2): 5.00 ms to 45.00 ms")
    assert boxes_in(small, "chart")[1:] == [("App.Loop", 100), ("App.Work", 50), ("App.Loop", 50), ("App.Inner", 50), ("App.Work", 50)]  # fmt: skip
    small.choose("#order", "most first")
    assert "all" in small.names()


def test_boxes_too_narrow_in_time_are_one_until_they_are_zoomed_to(page: Page, tmp_path: Path) -> None:
    many = [sample(1, 100 + number / 10, 0.1, "A.Main", f"A.Leaf{number % 2}") for number in range(1000)]
    shown(page, profile_of(sample(1, 0, 100, "A.Main"), *many, sample(1, 200, 1800, "A.Main")), tmp_path / "many.html")
    page.choose("#order", "in time")
    assert page.names() == ["Thread (1)", "A.Main", "…"]
    assert page.hover("…") == "1,000 boxes too narrow to draw: 100.00 ms"
    page.click("…")
    assert page.text("#said") == "Thread (1): 100.00 ms to 200.00 ms: 100.00 ms"
    assert page.names().count("A.Leaf0") == 500


def test_short_runs_far_apart_are_seen_in_order_of_time(page: Page, tmp_path: Path) -> None:
    shown(page, profile_of(*(sample(1, 30_000 * number, 1, "A.Main") for number in range(3))), tmp_path / "rare.html")
    page.choose("#order", "in time")

    for _ in range(3):  # they stay so: the library would change them some frames later
        page.settled()
        found = [one for one in page.frames() if one["name"] == "…"]
        assert [one["width"] for one in found] == [1, 1, 1]
    whole = page.frame("Thread (1)")
    assert [round((one["left"] - whole["left"]) / whole["width"], 2) for one in found] == [0, 0.5, 1]


def test_many_runs_with_gaps_are_drawn_a_part_at_a_time(page: Page, tmp_path: Path) -> None:
    many = [sample(1, 2 * number, 1, *(f"A.Deep{level}" for level in range(20))) for number in range(20_000)]
    shown(page, profile_of(*many), tmp_path / "gaps.html")
    page.choose("#order", "in time")
    assert page.names()[0] == "Thread (1)"
    assert 16 <= page.names().count("…") == len(page.names()) - 1 <= 17
    boxes = page.driver.find_elements(By.CSS_SELECTOR, "g.frame")
    webdriver.ActionChains(page.driver).move_to_element(boxes[1]).perform()
    assert page.text("#tip") == "1,251 boxes too narrow to draw: 2,501.00 ms"
    for _ in range(3):
        webdriver.ActionChains(page.driver).click(page.driver.find_elements(By.CSS_SELECTOR, "g.frame")[1]).perform()
        page.settled()
    assert "A.Deep19" in page.names()


def test_deep_stacks_in_order_of_time_are_drawn_a_part_at_a_time(page: Page, tmp_path: Path) -> None:
    shown(page, profile_of(sample(1, 0, 10, *(f"T.Deep{number}" for number in range(400)))), tmp_path / "deep.html")
    page.choose("#order", "in time")
    assert "150 more levels are not drawn" in page.text("#note")
    page.click("T.Deep249")
    assert "T.Deep399" in page.names()
    assert "more levels" not in page.text("#note")


# colours --------------------------------------------------------------------------------------------------------------

VISION = {
    "all colours": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
"""What people see of linear RGB: Machado, Oliveira, Fernandes, "A Physiologically-based Model for Simulation of Color
Vision Deficiency" (2009), at full strength."""
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colours: list[list[int]]) -> Any:
    """Linear RGB of sRGB from 0 to 255."""
    scaled = np.array(colours) / 255
    return np.where(scaled <= 0.04045, scaled / 12.92, ((scaled + 0.055) / 1.055) ** 2.4)


def lab(rgb: Any) -> Any:
    """CIELAB of linear RGB."""
    scaled = (rgb @ _XYZ.T) / [0.95047, 1, 1.08883]
    root = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    x, y, z = root[:, 0], root[:, 1], root[:, 2]
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.fixture
def every_code(page: Page, tmp_path: Path) -> Page:
    """A page with methods of each kind."""
    frames = [
        Frame(kind=FrameKind.METHOD, module="app", type_name="App", method="Main"),
        Frame(kind=FrameKind.METHOD, module="System.Linq", type_name="System.Linq.Enumerable", method="ToList"),
        Frame(kind=FrameKind.SYMBOL, module="libcoreclr.so", text="gc"),
        Frame(kind=FrameKind.SYMBOL, module="libc.so.6", text="read"),
        Frame(kind=FrameKind.UNRESOLVED, address=1),
        Frame(kind=FrameKind.PSEUDO, text="a group"),
    ]
    profile = profile_of(*(sample(1, number, 1, f"A.B{number}") for number in range(len(frames))))
    shown(page, replace(profile, frames=Frames(extra=frames)), tmp_path / "codes.html")
    page.search("main")
    return page


def swatches(page: Page) -> dict[str, list[int]]:
    """Red, green and blue by what the legend says."""
    found: list[tuple[str, str]] = page.value(
        """[...document.querySelectorAll("#legend .swatch")].map((one) =>
            [one.nextSibling.textContent, getComputedStyle(one).backgroundColor])"""
    )
    return {text: rgb(colour) for text, colour in found}


def rgb(text: str) -> list[int]:
    """Of ``rgb(1, 2, 3)``."""
    return [int(part) for part in re.findall(r"\d+", text)]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_legend_names_all_kinds_of_code_in_colours_that_anybody_tells_apart(every_code: Page, theme: str) -> None:
    if every_code.value("document.documentElement.dataset.theme") != theme:
        every_code.run('document.getElementById("theme").click()')
        every_code.settled()
    found = swatches(every_code)
    assert list(found) == [
        "the program", ".NET and its libraries", "the runtime and its JIT", "other native code, the system",
        "unknown: no name, no module", "no method", "found",
    ]  # fmt: skip
    every_code.screenshot(f"flamegraph-legend-{theme}")
    kinds = [colour for text, colour in found.items() if text != "no method"]
    for vision, matrix in VISION.items():
        seen = lab(np.clip(linear(kinds) @ np.array(matrix).T, 0, 1))
        distance = np.linalg.norm(seen[:, None] - seen[None], axis=2) + 1000 * np.eye(len(seen))
        assert distance.min() > 20, vision


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_labels_can_be_read_on_all_colours(every_code: Page, theme: str) -> None:
    if every_code.value("document.documentElement.dataset.theme") != theme:
        every_code.run('document.getElementById("theme").click()')
        every_code.settled()
    text = every_code.value('getComputedStyle(document.querySelector(".d3-flame-graph-label")).color')
    colours = [rgb(text), *swatches(every_code).values()]
    light, *others = linear(colours) @ _XYZ[1]
    for other in others:
        assert (max(light, other) + 0.05) / (min(light, other) + 0.05) > 4.5


def test_boxes_have_the_colour_of_the_legend(every_code: Page) -> None:
    press(every_code, Keys.ESCAPE)
    legend = linear(list(swatches(every_code).values()))
    fills: list[str] = every_code.value(
        '[...document.querySelectorAll("g.frame rect")].slice(1).map((one) => getComputedStyle(one).fill)'
    )
    boxes = lab(linear([rgb(fill) for fill in fills]))
    nearest = np.linalg.norm(boxes[:, None] - lab(legend)[None], axis=2)
    assert sorted(nearest.argmin(axis=1).tolist()) == list(range(len(boxes)))
    assert nearest.min(axis=1).max() < 5
