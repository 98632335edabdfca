"""What the rules of ``analysis.tags`` rest on: how runtimes write tags of every kind, and what a meter says of itself and of its failures."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.compiling import compiled
from tests.live.runtimes import command
from tests.shared import needs

import dotnetdiag as dd
from dotnetdiag.analysis.counters import Counters

pytestmark = [pytest.mark.live, needs("dotnet", "the workload on real runtimes")]

PROGRAM = r"""
using System;
using System.Collections.Generic;
using System.Diagnostics.Metrics;
using System.Threading;
static class Tags
{
    static KeyValuePair<string, object> T(string key, object value) => new KeyValuePair<string, object>(key, value);
    static void Main()
    {
        var meter = new Meter("Tag.Meter", "2.0", new[] { T("zone", "z,1"), T("area", "b=2") }, new object());
        var counter = meter.CreateCounter<long>("c", "{c}", "d");
        var once = meter.CreateHistogram<double>("once", "s");
        meter.CreateObservableGauge("g", () => new[] {
            new Measurement<double>(double.NaN, T("b", "2"), T("a", "1")), new Measurement<double>(1e300, T("x", "q\"u,o")) });
        meter.CreateObservableCounter<double>("bad", (Func<double>)(() => throw new Exception("no, =it\" fails")));
        Console.WriteLine("ready");
        while (true)
        {
            counter.Add(1, T("b", "2"), T("a", "1"), T("Z", "3"), T("é", "4"), T("_", "5"));
            counter.Add(2, T("k", "1"), T("k", "2"));
            counter.Add(3, T("n", null));
            counter.Add(4, T("f", 1.5), T("d", true));
            counter.Add(5, T("w", "x,m=1"));
            counter.Add(6, T("", ""));
            counter.Add(0, T("zero", "0"));
            if (once.Enabled) { once.Record(5); once = meter.CreateHistogram<double>("other"); }
            Thread.Sleep(10);
        }
    }
}
"""
PROVIDERS = "System.Diagnostics.Metrics:0x2:4:SessionId=tags;Metrics=Tag.Meter;RefreshInterval=0.3;MaxTimeSeries=1000;MaxHistograms=20"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(PROGRAM, tmp_path_factory.mktemp("tags"), "tags")


@pytest.fixture(scope="module", params=["8", "9", "10"])
def counters(request: pytest.FixtureRequest, program: Path) -> Iterator[Counters]:
    words, environment = command(request.param)
    process = subprocess.Popen(
        [*words[:-1], str(program)], stdout=subprocess.PIPE, stdin=subprocess.PIPE, env={**os.environ, **environment}
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        path = program.with_suffix(f".{request.param}.nettrace")
        dd.collect(process.pid, path, providers=PROVIDERS, duration=2, rundown=False)
        yield dd.counters(path)
    finally:
        process.kill()
        process.communicate()


def test_tags_are_in_the_order_of_their_keys_and_come_through(counters: Counters) -> None:
    found = [dict(one.tags) for one in counters.series if one.name == "c"]
    assert sorted(found, key=str) == sorted(
        [
            {"Z": "3", "_": "5", "a": "1", "b": "2", "é": "4"},
            {"k": "1,k=2"},  # two tags of one key: an object has room for one
            {"n": ""},
            {"d": "True", "f": "1.5"},
            {"w": "x,m=1"},  # m is before w: no key
            {"": ""},
            {"zero": "0"},
        ],
        key=str,
    )
    assert all(list(tags) == sorted(tags) for tags in found)


def test_a_count_of_nothing_is_a_value(counters: Counters) -> None:
    zero = [row for row in counters.rows.to_json() if row["tags"] == {"zero": "0"}]
    assert {(row["value"], row["delta"], row["rate"]) for row in zero} == {(0.0, 0.0, 0.0)}
    assert len(zero) >= 2
    once = [row for row in counters.rows.to_json() if row["instrument"] == "once"]
    assert [(row["count"], row["sum"]) for row in once] == [(1, 5.0), *[(0, 0.0)] * (len(once) - 1)]
    assert {row["quantiles"] is None for row in once[1:]} == {True}


def test_values_that_json_does_not_know_are_said_by_name(counters: Counters) -> None:
    gauge = {str(row["tags"]): row["value"] for row in counters.rows.to_json() if row["instrument"] == "g"}
    assert gauge == {"{'a': '1', 'b': '2'}": "NaN", "{'x': 'q\"u,o'}": 1e300}


def test_a_meter_has_tags_and_a_scope(counters: Counters) -> None:
    for one in counters.instruments:
        assert one.meter_tags == {"area": "b=2", "zone": "z,1"}
        assert one.scope.isdecimal()
        assert one.key.version == "2.0"


def test_what_fails_when_it_is_asked_is_told(counters: Counters) -> None:
    (note,) = counters.notes
    assert note.startswith("an instrument failed when it was asked for its value: ")
    assert 'no, =it" fails' in note
    (notice,) = counters.notices
    assert notice.session == "tags"
    assert notice.count >= 2
