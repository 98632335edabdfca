"""Pages, read back by the parsers of the library that wrote them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser
from prometheus_client.exposition import choose_encoder
from prometheus_client.openmetrics import parser as openmetrics
from tests.service.made import NOW_NS, running, served, snapshot

from dotnetdiag.analysis.running_totals import RunningSeries
from dotnetdiag.analysis.series import CounterKind
from dotnetdiag.errors import MissingDependency
from dotnetdiag.service.fleet_state import FleetSnapshot
from dotnetdiag.service.prometheus import PrometheusPages

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
BOTH = ("", OPENMETRICS)
PROCESS = {"pid": "77", "process": "app", "service": "shop"}
METER = {**PROCESS, "otel_scope_name": "Meter"}

PATIENCE_S = 30.0

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def parsed(
    shown: FleetSnapshot, accept: str = "", pages: PrometheusPages | None = None
) -> tuple[dict[str, Any], Samples]:
    """Families by name, samples by name and labels."""
    pages = pages or PrometheusPages()
    pages.show(shown)
    page = pages.page(accept)
    assert page.content_type.startswith(accept.partition(";")[0] or "text/plain")
    read = openmetrics if accept else parser
    families = {one.name: one for one in read.text_string_to_metric_families(page.body.decode())}
    samples: Samples = {}
    for family in families.values():
        for one in family.samples:
            key = one.name, frozenset(one.labels.items())
            assert key not in samples, "two samples have one name and the same labels"
            samples[key] = one.value
    return families, samples


def sample(samples: Samples, name: str, labels: Mapping[str, str]) -> float:
    return samples[name, frozenset(labels.items())]


@pytest.mark.parametrize("accept", BOTH)
def test_each_kind_is_what_prometheus_has_for_it(accept: str) -> None:
    quantiles = {"0.99": 1009.0, "0.5": 1004.0}
    families, samples = parsed(
        snapshot(
            running("cpu.time", unit="s", total=1.5, description="Time\nof the \\ processor"),
            running("sold", CounterKind.RATE, number=1, total=7.0),
            running("room", CounterKind.GAUGE, number=2, unit="Cel", value=-3.0),
            running("size", CounterKind.MEAN, number=3, unit="MB", value=2.5),
            running("queue", CounterKind.UP_DOWN_COUNTER, number=4, value=-1.0),
            running("latency", CounterKind.HISTOGRAM, number=5, unit="ms", count=68, sum=2000.0, quantiles=quantiles),
        ),
        accept,
    )
    assert {name: one.type for name, one in families.items() if not name.startswith("dotnetdiag")} == {
        "cpu_time_seconds": "counter",
        "sold": "counter",
        "room_celsius": "gauge",
        "size_bytes": "gauge",
        "queue": "gauge",
        "latency_seconds": "summary",
    }
    assert sample(samples, "cpu_time_seconds_total", METER) == 1.5
    assert sample(samples, "sold_total", METER) == 7
    assert sample(samples, "room_celsius", METER) == -3
    assert sample(samples, "size_bytes", METER) == 2.5e6
    assert sample(samples, "queue", METER) == -1
    assert sample(samples, "latency_seconds_count", METER) == 68
    assert sample(samples, "latency_seconds_sum", METER) == 2
    assert sample(samples, "latency_seconds", {**METER, "quantile": "0.99"}) == pytest.approx(1.009)
    assert families["cpu_time_seconds"].documentation == "Time of the \\ processor"
    assert families["sold"].documentation == "sold of Meter"
    if accept:
        assert families["size_bytes"].unit == "bytes"


@pytest.mark.parametrize("accept", BOTH)
def test_what_the_runtime_has_not_told_has_no_sample(accept: str) -> None:
    families, _ = parsed(
        snapshot(
            running("a"),
            running("b", CounterKind.GAUGE, number=1),
            running("c", CounterKind.HISTOGRAM, number=2),
            running("d", CounterKind.HISTOGRAM, number=3, quantiles={"0.5": -1.0}),
            running("e", CounterKind.HISTOGRAM, number=4, quantiles={"0.5": 1.0}),
            running("f", CounterKind.HISTOGRAM, number=5, count=2, sum=-4.0),
        ),
        accept,
    )
    assert {name for name in families if not name.startswith("dotnetdiag")} == {"e", "f"}
    assert [one.name for one in families["f"].samples] == ["f_count"], "OpenMetrics has no sums below zero"


@pytest.mark.parametrize("accept", BOTH)
@pytest.mark.parametrize("text", ["a,b", "=", '"', "\\", "\n", "zażółć=🐍", " ", "}", "\x00", "\\n"])
def test_tags_come_through_exactly(text: str, accept: str) -> None:
    _, samples = parsed(snapshot(running(total=1.0, tags={"room": text})), accept)
    assert sample(samples, "orders_total", {**METER, "room": text}) == 1


def test_half_of_a_surrogate_pair_does_not_spoil_the_page() -> None:
    _, samples = parsed(snapshot(running(total=1.0, tags={"a": "x\ud83d"}, description="\udc0d")))
    assert sample(samples, "orders_total", {**METER, "a": "x\ufffd"}) == 1


@pytest.mark.parametrize("accept", BOTH)
def test_tags_do_not_take_the_labels_of_the_process_or_of_the_meter(accept: str) -> None:
    tags = {"pid": "1", "service": "x", "otel.scope.name": "y", "quantile": "z", "duplicate": "d"}
    _, samples = parsed(snapshot(running(total=1.0, tags=tags)), accept)
    told = {"tag_pid": "1", "tag_service": "x", "tag_otel_scope_name": "y", "tag_quantile": "z", "tag_duplicate": "d"}
    assert sample(samples, "orders_total", {**METER, **told}) == 1


def test_one_instrument_of_two_meters_is_one_family() -> None:
    _, samples = parsed(
        snapshot(
            running(total=1.0),
            running(total=2.0, number=1, provider="Other", version="1.2", meter_tags={"host": "h", "name": "n"}),
        )
    )
    other = {
        "otel_scope_name": "Other",
        "otel_scope_version": "1.2",
        "otel_scope_host": "h",
        "otel_scope_tag_name": "n",
    }
    assert sample(samples, "orders_total", METER) == 1
    assert sample(samples, "orders_total", {**PROCESS, **other}) == 2


@pytest.mark.parametrize("accept", BOTH)
def test_a_name_of_two_kinds_is_two_families(accept: str) -> None:
    families, samples = parsed(
        snapshot(
            running("x", total=1.0),
            running("x", CounterKind.GAUGE, number=1, value=2.0),
            running("x", CounterKind.HISTOGRAM, number=2, count=3, sum=1.0),
        ),
        accept,
    )
    assert {name: one.type for name, one in families.items() if name.startswith("x")} == {
        "x": "counter",
        "x_current": "gauge",
        "x_distribution": "summary",
    }
    assert sample(samples, "x_current", METER) == 2


@pytest.mark.parametrize("accept", BOTH)
def test_instruments_that_nobody_can_tell_apart_are_both_there(accept: str) -> None:
    same = [running(total=float(number), number=number) for number in range(3)]
    _, samples = parsed(snapshot(*same, running(total=3.0, number=3, tags={"empty": ""})), accept)
    assert sample(samples, "orders_total", METER) == 0
    assert [sample(samples, "orders_total", {**METER, "duplicate": str(number)}) for number in (2, 3, 4)] == [1, 2, 3]


def of_orders(pages: PrometheusPages, *series: RunningSeries) -> dict[float, str | None]:
    """What a page has of them: by value the label that parts one from its like."""
    _, samples = parsed(snapshot(*series), pages=pages)
    return {value: dict(labels).get("duplicate") for (name, labels), value in samples.items() if name == "orders_total"}


def test_what_parts_one_from_its_like_stays_with_it() -> None:
    pages = PrometheusPages()
    first, second, third = (running(total=float(number), number=number) for number in range(3))
    over, silent = replace(first, ended=True), replace(second, utc_ns=NOW_NS - 60_000_000_000)
    assert of_orders(pages, first, second) == {0: None, 1: "2"}
    assert of_orders(pages, over, second) == {1: "2"}
    assert of_orders(pages, over, second, third) == {1: "2", 2: "3"}, "the first one's is nobody's"
    assert of_orders(pages, over, silent, third) == {2: "3"}
    assert of_orders(pages, over, third, second) == {1: "2", 2: "3"}, "the second has come back"
    assert of_orders(pages, third) == {2: "3"}


def test_when_all_of_them_are_over_they_begin_anew_and_nothing_is_kept_of_them() -> None:
    pages = PrometheusPages()
    of_orders(pages, running(total=0.0), running(total=1.0, number=1))
    assert of_orders(pages, running(total=2.0, number=2)) == {2: None}
    duplicates = pages._families._duplicates
    assert (len(duplicates), len(duplicates._last)) == (1, 1)


def test_one_whose_labels_change_is_among_others_then() -> None:
    pages = PrometheusPages()
    assert of_orders(pages, running(total=0.0), running(total=1.0, number=1)) == {0: None, 1: "2"}
    assert of_orders(pages, running(total=0.0), running(total=1.0, number=1, tags={"a": "b"})) == {0: None, 1: None}


def test_a_page_of_many_with_equal_labels_takes_steps_for_each_not_for_each_pair() -> None:
    def steps(number_of_series: int) -> int:
        pages = PrometheusPages()
        pages.show(snapshot(*(running(total=1.0, number=number) for number in range(number_of_series))))
        made = 0

        def count(*_: object) -> None:
            nonlocal made
            made += 1

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            pages.page()
        finally:
            sys.setprofile(before)
        return made

    steps(1)  # modules are loaded
    assert steps(400) < 5 * steps(100)


def test_who_asks_for_a_page_that_is_there_does_not_wait_for_one_that_is_made() -> None:
    pages, got = PrometheusPages(), []
    there = pages.page()
    asking = threading.Thread(target=lambda: got.append(pages.page()), daemon=True)
    with pages._making:
        asking.start()
        asking.join(PATIENCE_S)
        assert got == [there]


def test_tags_of_an_instrument_are_labels_too() -> None:
    _, samples = parsed(snapshot(running(total=1.0, instrument_tags={"a": "1", "b": "2"}, tags={"b": "3"})))
    assert sample(samples, "orders_total", {**METER, "a": "1", "b": "3"}) == 1


@pytest.mark.parametrize("name", ["dotnet.thread_pool.thread.count", "dotnet.thread_pool.queue.length"])
def test_a_counter_of_the_runtime_that_falls_is_a_gauge(name: str) -> None:
    one = running(name, provider="System.Runtime", unit="{x}", total=12.0, value=4.0)
    families, _ = parsed(snapshot(one))
    (made,) = [one for name, one in families.items() if name.startswith("dotnet_")]
    assert (made.type, [one.value for one in made.samples]) == ("gauge", [4])


@pytest.mark.parametrize("accept", BOTH)
def test_processes_are_up_or_not(accept: str) -> None:
    _, samples = parsed(
        snapshot(
            running(total=1.0, pid=0),
            running(total=2.0, pid=1, number=1),
            processes=(
                served(0),
                served(1, pid=78, is_up=False),
                served(2, pid=1, target="/a.sock,connect"),
                served(3, pid=1, target="/b.sock,connect"),
                served(4, pid=None, name="", service="", target="h:1"),
            ),
        ),
        accept,
    )
    assert sample(samples, "dotnetdiag_up", PROCESS) == 1
    assert sample(samples, "dotnetdiag_up", {**PROCESS, "pid": "78"}) == 0
    for port in ("/a.sock", "/b.sock"):
        assert sample(samples, "dotnetdiag_up", {**PROCESS, "pid": "1", "diagnostic_port": port}) == 1
    assert sample(samples, "dotnetdiag_up", {"diagnostic_port": "h:1"}) == 1
    assert sample(samples, "orders_total", METER) == 1
    assert [value for (name, _), value in samples.items() if name == "orders_total"] == [1]


@pytest.mark.parametrize("accept", BOTH)
def test_what_up_means_is_said_on_the_page(accept: str) -> None:
    families, _ = parsed(snapshot(), accept)
    assert "with values or none yet (1)" in families["dotnetdiag_up"].documentation
    assert "silent after its first value (0)" in families["dotnetdiag_up"].documentation


def test_a_process_whose_id_is_used_again_is_told_once() -> None:
    _, samples = parsed(snapshot(processes=(served(7), served(3, is_up=False))))
    assert sample(samples, "dotnetdiag_up", PROCESS) == 1


@pytest.mark.parametrize("accept", BOTH)
def test_losses_and_scrapes_are_counted(accept: str) -> None:
    pages = PrometheusPages()
    _, samples = parsed(FleetSnapshot(lost=3, damaged=2, refused=1), accept, pages)
    told = ("lost_events", "damaged_events", "refused_values")
    assert [sample(samples, f"dotnetdiag_counters_{name}_total", {}) for name in told] == [3, 2, 1]
    assert sample(samples, "dotnetdiag_scrapes_total", {}) == 1
    assert pages.page(accept) is pages.page(accept), "a page is made once for a snapshot"
    _, samples = parsed(FleetSnapshot(), accept, pages)
    assert sample(samples, "dotnetdiag_scrapes_total", {}) == 4


def test_few_pages_of_a_snapshot_are_kept() -> None:
    pages = PrometheusPages()
    for number in range(20):
        pages.page(f"application/openmetrics-text; version=1.0.{number}")
    assert len(pages._pages) <= 4


def test_before_the_first_interval_there_is_a_page() -> None:
    assert b"dotnetdiag_scrapes_total 1.0" in PrometheusPages().page().body


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("", "text/plain; version=0.0.4; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
        ("application/openmetrics-text; version=x.y", "text/plain; version=0.0.4; charset=utf-8"),
        (
            "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
            "application/openmetrics-text",
        ),
    ],
)
def test_who_asks_says_in_which_format(accept: str, content_type: str) -> None:
    assert PrometheusPages().page(accept).content_type.startswith(content_type)


def test_names_that_are_not_used_any_more_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dotnetdiag.service.prometheus.SNAPSHOTS_OF_NAMES", 2)
    pages = PrometheusPages()
    for name in ("a", "b", "c", "d"):
        parsed(snapshot(running(name, total=1.0)), pages=pages)
    assert len(pages._families._names) == 1
    assert len(pages._families._entries) == 1


def test_without_the_library_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "prometheus_client"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(MissingDependency, match=r"pip install 'dotnetdiag\[prometheus\]'"):
        PrometheusPages()


TEXTS = st.text(max_size=6)
FLOATS = st.floats()


@st.composite
def any_series(draw: st.DrawFn) -> RunningSeries:
    kind = draw(st.sampled_from(CounterKind))
    return running(
        draw(TEXTS | st.sampled_from(["x", "x_total", "x.count", "dotnetdiag.up"])),
        kind,
        number=draw(st.integers(0, 9)),
        provider=draw(TEXTS),
        unit=draw(st.sampled_from(["", "ms", "s", "1", "%", "By/s", "info"])),
        tags=draw(st.dictionaries(TEXTS | st.sampled_from(["pid", "le"]), TEXTS, max_size=3)),
        description=draw(TEXTS),
        total=draw(st.floats(min_value=0, allow_infinity=False)),
        value=draw(FLOATS),
        count=draw(st.integers(0, 1 << 60) | st.none()),
        sum=draw(st.floats(allow_infinity=False, allow_nan=False)),
        quantiles=draw(st.dictionaries(st.sampled_from(["0.5", "0.99", "7"]), FLOATS, max_size=2)),
    )


def some_series(most: int) -> st.SearchStrategy[list[RunningSeries]]:
    return st.lists(any_series(), max_size=most, unique_by=lambda one: one.series.number)


@given(some_series(6), st.sampled_from(BOTH))
def test_whatever_programs_call_their_series_the_page_can_be_read(made: list[RunningSeries], accept: str) -> None:
    families, _ = parsed(snapshot(*made), accept)
    assert "dotnetdiag_up" in families


FORMATS = (
    *BOTH,
    "application/openmetrics-text;version=1.0.0;escaping=values",
    "text/plain;version=1.0.0;escaping=allow-utf-8",
)


def of_the_library(pages: PrometheusPages, accept: str) -> bytes:
    """The page of the last snapshot as the library writes all of it."""
    metrics = []
    for family in pages._families._families:
        metric = family.head.metric()
        for line, value in zip(family.lines, family.values, strict=True):
            metric.add_sample(line.name, dict(line.labels), value)
        metrics.append(metric)
    encode, _ = choose_encoder(accept)
    return encode(SimpleNamespace(collect=lambda: metrics))


@given(some_series(4), some_series(4), st.sampled_from(FORMATS))
def test_a_page_is_what_the_library_writes(
    first: list[RunningSeries], second: list[RunningSeries], accept: str
) -> None:
    pages = PrometheusPages()
    for series in (first, second, first):
        pages.show(snapshot(*series))
        assert pages.page(accept).body == of_the_library(pages, accept)


@pytest.mark.parametrize("accept", FORMATS)
def test_values_are_written_as_the_library_does_when_a_series_goes_on(accept: str) -> None:
    pages, values = PrometheusPages(), [0.0, -0.0, 999999.5, 1e6, 1234567.25, 1e15, 1e16, 1e22, 1e-7, -1e7, 0.1 + 0.2]
    for value in (*values, float("inf"), float("-inf"), float("nan")):
        pages.show(snapshot(running("room", CounterKind.GAUGE, value=value), running(number=1, total=abs(value))))
        assert pages.page(accept).body == of_the_library(pages, accept)


def test_lines_of_series_that_are_gone_are_not_kept() -> None:
    pages = PrometheusPages()
    for number in range(50):
        parsed(snapshot(running(f"orders{number}", number=number, total=1.0)), pages=pages)
    (form,) = pages._families._formats.values()
    assert len(form._starts) < 20
    assert len(form._heads) < 20


def test_who_asks_for_many_formats_makes_few_be_kept() -> None:
    pages = PrometheusPages()
    pages.show(snapshot(running(total=1.0)))
    for version in range(9):
        pages.page(f"application/openmetrics-text;version=1.0.{version}")
    assert len(pages._families._formats) <= 2
