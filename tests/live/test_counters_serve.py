"""``counters serve`` of real runtimes: every value is what the workload does, every tag as the program said it, and promtool has nothing to say."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest
from prometheus_client import parser
from tests.cli.test_counters_serve import PATIENCE_S, program, serving, until, ups
from tests.live.runtimes import workload
from tests.shared import needs

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]

COUNTERS = "System.Runtime,Workload.Meter,Workload-Counters"


@pytest.mark.parametrize("runtime", ["3.1", "8", "9", "10", "NativeAOT"])
def test_prometheus_gets_what_the_workload_counts(runtime: str) -> None:
    promtool = program("promtool")
    meters = runtime != "3.1"
    awaited = ("latency_seconds_count", "requests_total") if meters else ("requests_total", "cpu_usage_ratio")
    with (
        workload(runtime, "counters+meters" if meters else "counters") as target,
        serving("-p", str(target.pid), "--counters", COUNTERS, OTEL_SERVICE_NAME="of us, not of the target") as ours,
    ):
        page = until(ours.page, lambda page: all(f"\n{name}" in page for name in awaited))
        again = until(ours.page, lambda later: later != page and all(f"\n{name}" in later for name in awaited))
    done = subprocess.run(
        [promtool, "check", "metrics"], input=again, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    made = {one.name: one for one in parser.text_string_to_metric_families(again)}
    own = [one for family in made.values() for one in family.samples if "pid" in one.labels]
    assert {one.labels["pid"] for one in own} == {str(target.pid)}
    assert len({one.labels["service"] for one in own} - {"of us, not of the target"}) == 1
    assert [one.value for one in made["dotnetdiag_up"].samples] == [1]
    assert [one.value for one in made["answer"].samples] == [42.5]
    assert {one.labels["zone"] for one in made["request_time_seconds"].samples} == {"eu,west=1"}
    assert made["requests"].type == "counter"
    assert all(one.labels["otel_scope_name"] == "Workload-Counters" for one in made["requests"].samples)
    if not meters:
        return
    assert {one.labels["room"]: one.value for one in made["temperature_celsius"].samples} == {
        "a,b": 21.5,
        "zażółć=🐍": -3,
    }
    orders = {one.labels.get("kind"): one.value for one in made["orders"].samples}
    assert orders.keys() == {None, "web", "shop"}
    assert orders["shop"] > orders["web"] > 0
    latency = made["latency_seconds"]
    assert latency.type == "summary"
    of_slow = {one.labels.get("quantile", one.name): one.value for one in latency.samples if "route" in one.labels}
    assert 1.0 <= of_slow["0.5"] <= of_slow["0.95"] <= of_slow["0.99"] <= 1.1
    assert 1.0 <= of_slow["latency_seconds_sum"] / of_slow["latency_seconds_count"] <= 1.1
    if runtime in ("9", "10"):
        assert made["dotnet_process_cpu_time_seconds"].type == "counter"
        assert made["dotnet_thread_pool_thread_number"].type == "gauge"


def test_a_process_that_is_stopped_is_not_up_until_it_goes_on() -> None:
    with (
        workload("10", "counters+meters") as stops,
        workload("10", "counters+meters") as goes,
        serving(
            "-p", str(stops.pid), "-p", str(goes.pid), "--counters", "Workload.Meter", "--refresh-interval", "0.5"
        ) as ours,
    ):
        orders = f'orders_total{{otel_scope_name="Workload.Meter",otel_scope_version="1.2.3",pid="{stops.pid}"'
        until(ours.page, lambda page: page.count("\norders_total{") == 6)
        os.kill(stops.pid, signal.SIGSTOP)
        try:
            silent = until(ours.page, lambda page: ups(page) == [0, 1])
            assert orders not in silent
            assert silent.count("\norders_total{") == 3
        finally:
            os.kill(stops.pid, signal.SIGCONT)
        until(ours.page, lambda page: ups(page) == [1, 1] and orders in page)
