"""``counters push``: of servers of our own, to collectors of our own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.test_counters_serve import PATIENCE_S, Lines
from tests.recipes.collectors import COLLECTORS, Received, http_collector
from tests.recipes.test_counter_watch import served
from tests.transport.certificates import security

from dotnetdiag.cli.commands import commands
from dotnetdiag.errors import InputError, UsageError

CPU = "dotnet.process.cpu.time"


class Pushing:
    """The verb, as a process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines = Lines(process.stderr)

    def end(self) -> str:
        """Ctrl-C; its last line."""
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(PATIENCE_S) == 0
        return self.lines.until(": sent ")


@contextmanager
def pushing(*words: str, interval: str = "0.1", **variables: str) -> Iterator[Pushing]:
    process = subprocess.Popen(
        [sys.executable, "-m", "dotnetdiag", "counters", "push", "--refresh-interval", interval, *words],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        yield Pushing(process)
    finally:
        process.kill()
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


@pytest.fixture
def port(tmp_path: Path) -> Iterator[str]:
    with served(tmp_path, "server") as (port,):
        yield port


def has_cpu(received: Received) -> bool:
    return any(one.name == CPU for one in received.metrics())


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_a_collector_gets_what_a_process_counts(protocol: str, port: str) -> None:
    with COLLECTORS[protocol]() as (url, received), pushing("--dport", port, "--to", url) as ours:
        received.until(has_cpu)
        first = next(one for one in received.metrics() if one.name == CPU)
        received.until(lambda all: sum(one.tags == first.tags for one in all.metrics() if one.name == CPU) > 2)
        assert ours.end().startswith(f"{url}: sent ")
    assert first.kind == "sum"
    assert first.metric.sum.is_monotonic
    assert first.metric.unit == "s"
    assert first.scope.name == "System.Runtime"
    assert first.tags["cpu.mode"] in ("user", "system")
    assert first.resource.pop("service.instance.id")
    assert first.resource == {
        "service.name": os.environ.get("OTEL_SERVICE_NAME") or first.resource["service.name"],
        "process.pid": os.getpid(),
        "process.runtime.name": "Python",
        "process.runtime.version": ".".join(map(str, sys.version_info[:3])),
        "host.name": socket.gethostname(),
    }
    series = [one.point for one in received.metrics() if one.name == CPU and one.tags == first.tags]
    assert len({one.start_time_unix_nano for one in series}) == 1
    assert [one.time_unix_nano for one in series] == sorted({one.time_unix_nano for one in series})
    assert ours.lines.said[0] == f"Sending metrics to {url}. Press Ctrl+C to end."


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_a_collector_that_comes_late_gets_what_there_was(protocol: str, port: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    url = f"{protocol}://127.0.0.1:{number}"
    with pushing("--dport", port, "--to", url) as ours, ExitStack() as late:
        said = ours.lines.until(f"{url}: ")
        while "waits" not in said:
            said = ours.lines.until(f"{url}: ")
        assert "refused" in said.lower()
        _, received = late.enter_context(COLLECTORS[protocol](number))
        ours.lines.until(f"{url}: takes it again, after ")
        received.until(has_cpu)
        last = ours.end()
    assert "dropped" not in last
    assert not [
        line for line in ours.lines.said if "Traceback" in line or "Transient" in line or "Failed to export" in line
    ]


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_somebody_with_another_certificate_gets_nothing(protocol: str, port: str, tmp_path: Path) -> None:
    ours, others = security(tmp_path), security(tmp_path, name="others")
    with (
        COLLECTORS[protocol](tls=ours) as (url, received),
        pushing("--dport", port, "--to", url, "--ca", others.ca, "--header", "api-key=s3cret") as ours_is,
    ):
        assert "certificate" in ours_is.lines.until("; what it has not taken waits").lower()
        ours_is.end()
    assert received.asked == 0
    assert len(ours_is.lines.said) == 4, "one for what is sent where, one for the process, that one, and the totals"
    assert "s3cret" not in str(ours_is.lines.said)


def test_ctrl_c_does_not_wait_for_a_slow_collector(port: str) -> None:
    with http_collector() as (url, received), pushing("--dport", port, "--to", url) as ours:
        received.gate.clear()
        received.until(lambda all: all.asked)
        assert ours.lines.until("watched")
        last = ours.end()
    assert "sent nothing" in last
    assert "dropped" in last


def test_what_a_collector_refuses_is_said_and_counted(port: str) -> None:
    with http_collector() as (url, received), pushing("--dport", port, "--to", url) as ours:
        received.answers = [401] * 1000
        assert ours.lines.until(": refuses ").endswith("401 Unauthorized")
        assert "refused" in ours.end()


def test_headers_come_from_files_variables_and_the_environment(port: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of a file\nand more\n")
    words = ("--header", "a=of words=1", "--header-file", f"b={secret}", "--header-variable", "C=OF_US")
    variables = {"OF_US": "of a variable", "OTEL_EXPORTER_OTLP_HEADERS": "d=of%20all,a=not%20this"}
    with (
        http_collector() as (url, received),
        pushing("--dport", port, *words, **variables, OTEL_EXPORTER_OTLP_ENDPOINT=url) as ours,
    ):
        received.until(lambda all: all.headers)
        ours.end()
    assert {name: received.headers[0][name] for name in "abcd"} == {
        "a": "of words=1",
        "b": "of a file",
        "c": "of a variable",
        "d": "of all",
    }
    assert not [line for line in ours.lines.said if "of a" in line]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-p", "1"), "no collector is named"),
        (("-p", "1", "--to", "localhost:4318"), "http://HOST:4318"),
        (("--to", "http://localhost"), "--process-id"),
        (("-p", "1", "--to", "http://far.example", "--header", "a=b"), "has no TLS"),
        (("-p", "1", "--to", "http://localhost", "--header", "a"), "NAME=VALUE"),
        (("-p", "1", "--to", "http://localhost", "--header-variable", "a=NO_SUCH_VARIABLE"), "no such variable"),
        (("-p", "1", "--to", "http://localhost", "--counters", "A[x"), "a closing ']' is expected"),
    ],
)
def test_what_makes_no_sense_is_told_in_a_line(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    done = CliRunner().invoke(commands, ["counters", "push", *words])
    assert isinstance(done.exception, UsageError)
    assert said in str(done.exception)


def test_a_file_that_is_not_there_is_told() -> None:
    done = CliRunner().invoke(
        commands, ["counters", "push", "-p", "1", "--to", "http://localhost", "--header-file", "a=/no/such"]
    )
    assert isinstance(done.exception, InputError)


def test_nothing_goes_on_when_it_has_ended(port: str) -> None:
    before = set(threading.enumerate())
    with http_collector() as (url, _):
        words = ["counters", "push", "--dport", port, "--to", url, "--refresh-interval", "0.1", "--duration", "0.5s"]
        done = CliRunner().invoke(commands, words)
    assert done.exit_code == 0, done.output
    left = [one for one in set(threading.enumerate()) - before if one.name.startswith("dotnetdiag outbox")]
    assert left == []
