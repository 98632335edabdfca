"""``counters serve``: of servers of our own, and with a real Prometheus where there is one."""

from __future__ import annotations

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from click.testing import CliRunner
from prometheus_client import parser
from prometheus_client.openmetrics import parser as openmetrics
from tests.recipes.test_counter_watch import served

from dotnetdiag.cli.advice import advice_for
from dotnetdiag.cli.commands import commands
from dotnetdiag.errors import ConnectFailed, GrammarError, UsageError, WrongCombination

T = TypeVar("T")
PATIENCE_S = 60.0
POLL_S = 0.1
TOKEN = "a-token-of-some-length"


class Lines:
    """What a program says on a stream, until it ends."""

    def __init__(self, stream: Any) -> None:
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.said: list[str] = []
        self._thread = threading.Thread(target=self._read, args=(stream,), daemon=True)
        self._thread.start()

    def _read(self, stream: Any) -> None:
        for line in stream:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def until(self, part: str) -> str:
        """The next line with this in it."""
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            self.said.append(line)
            if part in line:
                return line
        raise AssertionError(f"it ended without {part!r}: {self.said}")


class Serving:
    """The verb in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.lines = process, Lines(process.stderr)
        self.url = self.lines.until("Serving ").split()[1]

    def page(self, accept: str = "", token: str = "") -> str:
        headers = {"Accept": accept} | ({"Authorization": f"Bearer {token}"} if token else {})
        with urllib.request.urlopen(urllib.request.Request(self.url, headers=headers), timeout=PATIENCE_S) as said:
            text: str = said.read().decode()
            return text


@contextmanager
def serving(*words: str, **environment: str) -> Iterator[Serving]:
    ours = [sys.executable, "-m", "dotnetdiag", "counters", "serve", "--bind", "127.0.0.1:0", *words]
    with subprocess.Popen(ours, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment}) as process:
        try:
            yield Serving(process)
        finally:
            process.kill()


def until(ask: Callable[[], T], enough: Callable[[T], Any]) -> T:
    """What is said once it is enough: it is asked for again and again, with a pause."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / POLL_S)):
        said = ask()
        if enough(said):
            return said
        pause.wait(POLL_S)
    raise AssertionError(f"after {PATIENCE_S} s: {said}")


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    with served(tmp_path, "server") as (port,):
        yield port


OFTEN = ("--refresh-interval", "100ms")


def test_both_formats_have_the_counters_of_a_process(port: str) -> None:
    with serving("--dport", port, *OFTEN) as ours:
        page = until(ours.page, lambda page: "dotnet_process_cpu_time" in page)
        families = {one.name: one for one in parser.text_string_to_metric_families(page)}
        other = ours.page("application/openmetrics-text; version=1.0.0")
        read: Any = openmetrics.text_string_to_metric_families
        assert {one.name for one in read(other)} >= {"dotnet_process_cpu_time_seconds"}
        cpu = families["dotnet_process_cpu_time_seconds"]
        assert cpu.type == "counter"
        for one in cpu.samples:
            assert one.labels["pid"] == str(os.getpid())
            assert one.labels["service"] == "shop"
            assert one.labels["diagnostic_port"] == port.removesuffix(",connect")
            assert one.labels["otel_scope_name"] == "System.Runtime"
        assert {one.labels["cpu_mode"] for one in cpu.samples} == {"user", "system"}
        (up,) = families["dotnetdiag_up"].samples
        assert (up.value, up.labels["service"]) == (1, "shop")


def test_nobody_need_be_there_at_first() -> None:
    with serving("--name", "no-such-program-anywhere") as ours:
        assert "dotnetdiag_scrapes_total 1.0" in ours.page()
        assert "dotnetdiag_up{" not in ours.page()


def ups(page: str) -> list[float]:
    families = {one.name: one for one in parser.text_string_to_metric_families(page)}
    return sorted(one.value for one in families["dotnetdiag_up"].samples)


def test_of_a_process_that_ends_there_are_no_series_and_it_is_not_up(tmp_path: Path) -> None:
    with ExitStack() as stack:
        (stays,) = stack.enter_context(served(tmp_path, "stays"))
        ends = stack.enter_context(ExitStack())
        (goes,) = ends.enter_context(served(tmp_path, "goes"))
        ours = stack.enter_context(serving("--dport", stays, "--dport", goes, *OFTEN))
        both = until(ours.page, lambda page: page.count("dotnet_process_cpu_number{") == 2)
        assert ups(both) == [1, 1]
        ends.close()
        ours.lines.until("goes")
        one = until(ours.page, lambda page: ups(page) == [0, 1])
        assert one.count("dotnet_process_cpu_number{") == 1


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_it(port: str, name: str) -> None:
    with serving("--dport", port, *OFTEN) as ours:
        ours.lines.until("watched")
        ours.process.send_signal(getattr(signal, name))
        assert ours.process.wait(PATIENCE_S) == 0


def test_it_ends_after_its_time(port: str) -> None:
    with serving("--dport", port, *OFTEN, "--duration", "500ms") as ours:
        assert ours.process.wait(PATIENCE_S) == 0


def test_who_has_no_token_gets_nothing(port: str) -> None:
    with serving("--dport", port, "--token-variable", "MINE", MINE=TOKEN) as ours:
        with pytest.raises(urllib.error.HTTPError) as caught:
            ours.page(token="another")
        with caught.value as refusal:
            assert refusal.code == 401
        assert "dotnetdiag_scrapes_total" in ours.page(token=TOKEN)


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        (("--bind", "x"), GrammarError, "a port"),
        (
            ("--bind", "0.0.0.0:0"),
            WrongCombination,
            "--token-file or --token-variable gives it, --insecure does without",
        ),
        (("--tls-key", "x"), WrongCombination, "--tls-cert gives it"),
        (("--tls-cert", "/nobody"), UsageError, "no certificate and key can be read"),
        (("--token-file", "/nobody"), UsageError, "no token can be read"),
        (("--token-variable", "NOBODYS"), UsageError, "there is no such variable"),
        (("--token-variable", "A", "--token-file", "b"), UsageError, "give one"),
        (("--refresh-interval", "0"), UsageError, "an interval of 0 is none"),
        (("--bind", "no-such-host.invalid:1"), ConnectFailed, "no-such-host.invalid:1"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(words: tuple[str, ...], error: type[Exception], said: str) -> None:
    done = CliRunner().invoke(commands, ["counters", "serve", "--all", *words])
    assert isinstance(done.exception, error)
    assert said in f"{done.exception} {advice_for(done.exception)}"


# a real Prometheus ------------------------------------------------------------------------------------------------------


def program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} (Debian has it in the package prometheus)")
    return found


def test_promtool_finds_nothing(port: str) -> None:
    promtool = program("promtool")
    with serving("--dport", port, *OFTEN, "--counters", r"System.Runtime,System.Net.Http") as ours:
        page = until(ours.page, lambda page: "dotnet_process_cpu_time" in page)
    done = subprocess.run(
        [promtool, "check", "metrics"], input=page, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@contextmanager
def prometheus(folder: Path, target: str) -> Iterator[str]:
    """The address of a Prometheus that asks one target."""
    config = folder / "prometheus.yml"
    config.write_text(
        json.dumps(
            {
                "global": {"scrape_interval": "1s", "scrape_timeout": "1s"},
                "scrape_configs": [
                    {
                        "job_name": "dotnet",
                        "authorization": {"credentials": TOKEN},
                        "static_configs": [{"targets": [target]}],
                    }
                ],
            }
        )
    )
    words = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0")
    with subprocess.Popen([program("prometheus"), *words], stderr=subprocess.PIPE, text=True) as process:
        try:
            line = Lines(process.stderr).until("Listening on")
            address = line.partition("address=")[2].split()[0]
            yield f"http://{address}"
        finally:
            process.kill()


def test_a_prometheus_asks_and_answers(port: str, tmp_path: Path) -> None:
    program("prometheus")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    query = urllib.parse.quote('sum by (service, cpu_mode) (dotnet_process_cpu_time_seconds_total{process!=""})')
    with (
        serving("--dport", port, *OFTEN, "--token-file", str(tmp_path / "token")) as ours,
        prometheus(tmp_path, urllib.parse.urlsplit(ours.url).netloc) as address,
    ):

        def answer() -> Any:
            try:
                with urllib.request.urlopen(f"{address}/api/v1/query?query={query}", timeout=PATIENCE_S) as said:
                    return json.load(said)["data"]["result"]
            except urllib.error.HTTPError as error:  # it is not ready yet
                error.close()
                return []

        found = until(answer, len)
    assert {(one["metric"]["service"], one["metric"]["cpu_mode"]) for one in found} == {
        ("shop", "user"),
        ("shop", "system"),
    }
    assert all(float(one["value"][1]) >= 0 for one in found)
