"""Headless Chromium, without any network: the page is a file, and every name resolves to nothing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait

SCREENSHOTS = Path(__file__).parents[2] / "build" / "screenshots"
TIMEOUT_S = 30
PROGRAMS = {"browser": ("chromium", "chromium-browser", "google-chrome"), "driver": ("chromedriver",)}


def programs() -> tuple[str, str]:
    """Paths of the browser and its driver. Without them the test is skipped; where CI says so, it fails."""
    found = [next(filter(None, map(shutil.which, names)), None) for names in PROGRAMS.values()]
    if not all(found):
        text = "no browser: install chromium and chromium-driver (apt-get install chromium chromium-driver)"
        if os.environ.get("CI") == "true":
            pytest.fail(text)
        pytest.skip(text)
    browser, driver = found
    assert browser is not None
    assert driver is not None
    return browser, driver


class Page:
    """An open page."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver
        self.problems: list[str] = []
        self.requests: list[str] = []

    def open(self, path: Path) -> None:
        self.driver.get(path.as_uri())
        self.settled()

    def settled(self) -> None:
        """Wait until the chart is drawn: what the library delays has come."""
        self.run("window.settled = 0; requestAnimationFrame(() => setTimeout(() => { window.settled = 1 }, 60))")
        self.until(lambda: self.value("window.settled === 1"))

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def value(self, expression: str, *arguments: Any) -> Any:
        return self.run(f"return {expression}", *arguments)

    def until(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, TIMEOUT_S, poll_frequency=0.02).until(lambda _: condition())

    def text(self, selector: str) -> str:
        return str(self.value("document.querySelector(arguments[0]).textContent", selector))

    def frames(self) -> list[dict[str, Any]]:
        """What is drawn: name, colour, width in pixels, and how far from the left and the top."""
        found: list[dict[str, Any]] = self.value(
            """[...document.querySelectorAll("g.frame")].map((g) => {
                const box = g.querySelector("rect").getBoundingClientRect();
                return {name: g.getAttribute("name"), fill: g.querySelector("rect").getAttribute("fill"),
                        width: box.width, left: box.left, top: box.top};
            })"""
        )
        return found

    def names(self) -> list[str]:
        return [one["name"] for one in self.frames()]

    def frame(self, name: str) -> dict[str, Any]:
        (found,) = [one for one in self.frames() if one["name"] == name]
        return found

    def click(self, name: str) -> None:
        (found,) = self.value(
            '[...document.querySelectorAll("g.frame")].filter((g) => g.getAttribute("name") === arguments[0])', name
        )
        webdriver.ActionChains(self.driver).move_to_element(found).click().perform()
        self.settled()

    def hover(self, name: str) -> str:
        (found,) = self.value(
            '[...document.querySelectorAll("g.frame")].filter((g) => g.getAttribute("name") === arguments[0])', name
        )
        webdriver.ActionChains(self.driver).move_to_element(found).perform()
        self.until(lambda: not self.value('document.getElementById("tip").hidden'))
        return "\n".join(self.value('[...document.querySelectorAll("#tip div")].map((one) => one.textContent)'))

    def choose(self, selector: str, text: str) -> None:
        """Choose the option that begins with a text."""
        self.run(
            """const list = document.querySelector(arguments[0]);
               const option = [...list.options].find((one) => one.textContent.startsWith(arguments[1]));
               list.value = option.value; list.dispatchEvent(new Event("change"));""",
            selector,
            text,
        )
        self.settled()

    def search(self, text: str) -> None:
        box = self.driver.find_element(By.ID, "search")
        box.clear()
        box.send_keys(text)
        self.until(lambda: self.value('document.getElementById("chart").dataset.searched') == text)
        self.settled()

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        assert self.driver.save_screenshot(str(SCREENSHOTS / f"{name}.png"))

    def collect(self) -> None:
        """Read what the browser has said since: errors on the console, and requests."""
        self.problems += [str(one) for one in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] in ("Network.requestWillBeSent", "Network.webSocketCreated"):
                parameters = message["params"]
                self.requests.append(parameters["request"]["url"] if "request" in parameters else parameters["url"])


@contextmanager
def running() -> Iterator[webdriver.Chrome]:
    """A browser."""
    browser, driver = programs()
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for argument in (
        "--headless=new",
        "--no-sandbox",  # in containers there is none
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--window-size=1400,1000",
        "--force-color-profile=srgb",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        made.set_page_load_timeout(120)
        yield made
    finally:
        made.quit()
