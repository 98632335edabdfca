"""The job of pushing, with updates made by hand and a collector of our own."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import pytest
from tests.recipes.collectors import COLLECTORS, http_collector
from tests.recipes.test_counter_watch import OFTEN, PATIENCE, served
from tests.service.made import process, running

from dotnetdiag.analysis.series import CounterKind
from dotnetdiag.export.otlp_series import SeriesNames
from dotnetdiag.recipes.collector import collector_options
from dotnetdiag.recipes.counter_push import PARCEL_SIZE, CounterPush, _pieces, resource_attributes
from dotnetdiag.recipes.counter_watch import CounterTargets, CounterUpdate, CounterWatch


def test_attributes_tell_a_process_from_all_others() -> None:
    made = dict(resource_attributes(process(pid=os.getpid(), name="app"), "shop"))
    again = resource_attributes(process(pid=os.getpid(), name="app"), "shop")
    assert made == again
    assert made.pop("service.instance.id")
    assert made.pop("process.executable.name")
    assert made == {
        "service.name": "shop",
        "process.pid": os.getpid(),
        "process.runtime.name": ".NET",
        "process.runtime.version": "10.0",
        "host.name": platform.node(),
    }


def test_two_in_containers_with_one_process_id_are_two() -> None:
    ids = {
        resource_attributes(process(number, pid=1, target=target), "shop")["service.instance.id"]
        for number, target in enumerate(["a,connect", "b,connect", "b,connect"])
    }
    assert len(ids) == 3


@pytest.mark.parametrize("protocol", COLLECTORS)
def test_each_value_is_sent_once(protocol: str, tmp_path: Path) -> None:
    with (
        COLLECTORS[protocol]() as (url, received),
        served(tmp_path, "a", "b") as ports,
        CounterWatch(CounterTargets(ports=tuple(ports)), OFTEN) as watch,
        CounterPush(collector_options(url)) as pushing,
    ):
        for turn, update in enumerate(watch.updates()):
            pushing.take(update)
            pushing.take(CounterUpdate(counters=None, changes=(), processes=update.processes))
            if len(received.requests) > 3:
                break
            assert turn < PATIENCE
        sent = pushing.close()
        assert pushing.totals == sent
    made = received.metrics()
    assert sum(sent.sent.values()) == len(made)
    keys = [(one.name, tuple(one.tags.items()), one.point.time_unix_nano) for one in made]
    assert len(set(keys)) == len(keys)


def test_without_processes_nothing_is_sent() -> None:
    with http_collector() as (url, received), CounterPush(collector_options(url)) as pushing:
        pushing.take(CounterUpdate(counters=None, changes=(), processes=()))
    assert (received.asked, pushing.totals.sent) == (0, {})


def test_pieces_of_many_long_names_are_limited_in_bytes() -> None:
    names = SeriesNames()
    made = [running("n" * 10_000 + str(number), CounterKind.GAUGE, value=1.0) for number in range(200)]
    pieces = list(_pieces([(names.of(one.series), one) for one in made]))
    assert [one for some, _, _ in pieces for _, one in some] == made
    assert sum(points for _, points, _ in pieces) == 200
    assert all(10_000 * points < size <= PARCEL_SIZE for _, points, size in pieces)
