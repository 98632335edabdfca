"""Names of families, units and labels."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.service.prometheus_names import (
    CLAIMED,
    COUNTER,
    GAUGE,
    SUMMARY,
    FamilyNames,
    base_unit,
    family_name,
    label_names,
)

NAME = re.compile(r"[a-z_][a-z0-9_]*")
LABEL = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")
KINDS = (COUNTER, GAUGE, SUMMARY)


@pytest.mark.parametrize(
    ("instrument", "unit", "family", "name"),
    [
        ("dotnet.process.cpu.time", "s", COUNTER, "dotnet_process_cpu_time_seconds"),
        ("dotnet.gc.collections", "{collection}", COUNTER, "dotnet_gc_collections"),
        ("http.server.request.duration", "ms", SUMMARY, "http_server_request_duration_seconds"),
        ("alloc-rate", "B", COUNTER, "alloc_rate_bytes"),
        ("working-set", "MB", GAUGE, "working_set_bytes"),
        ("cpu-usage", "%", GAUGE, "cpu_usage_ratio"),
        ("fill", "1", GAUGE, "fill_ratio"),
        ("done", "1", COUNTER, "done"),
        ("sent", "By/s", GAUGE, "sent_bytes_per_second"),
        ("sent", "{packet}/s", GAUGE, "sent_per_second"),
        ("pulled", "items", COUNTER, "pulled_items"),
        ("pulled.items", "items", COUNTER, "pulled_items"),
        ("temperature", "Cel", GAUGE, "temperature_celsius"),
        ("latency.ms", "ms", SUMMARY, "latency_seconds"),
        ("latency_seconds", "s", SUMMARY, "latency_seconds"),
        ("ms", "ms", GAUGE, "seconds"),
        ("queue", "total", GAUGE, "queue"),
        ("queue", "total", COUNTER, "queue"),
        ("queue", "total", SUMMARY, "queue"),
        ("queue", "bucket", GAUGE, "queue_buckets"),
        ("queue.bucket", "bucket", GAUGE, "queue_buckets"),
        ("queue", "info", GAUGE, "queue_information"),
        ("queue", "created", GAUGE, "queue_creation"),
        ("queue", "sum", GAUGE, "queue_amount"),
        ("queue", "sum", SUMMARY, "queue_amount"),
        ("queue", "gcount", GAUGE, "queue_gnumber"),
        ("queue", "By/total", GAUGE, "queue_bytes_per_totals"),
        ("queue_bucket_total", "", GAUGE, "queue_buckets"),
        ("queue", "a total", GAUGE, "queue_a_totals"),
        ("total", "", GAUGE, "total"),
        ("requestTime", "", GAUGE, "request_time"),
        ("HTTPRequests", "", GAUGE, "httprequests"),
        ("requests_total", "", COUNTER, "requests"),
        ("requests-total", "", GAUGE, "requests"),
        ("thread-count", "", GAUGE, "thread_number"),
        ("thread-count", "", COUNTER, "thread_count"),
        ("thread-count", "", SUMMARY, "thread_number"),
        ("9lives", "", GAUGE, "_9lives"),
        ("température", "", GAUGE, "temp_rature"),
        ("温度", "", GAUGE, "unnamed"),
    ],
)
def test_a_name_has_words_and_its_unit(instrument: str, unit: str, family: str, name: str) -> None:
    assert family_name(instrument, unit, family)[0] == name


@given(st.sampled_from(["", "queue", "a.total", "sum"]), st.sampled_from(KINDS), st.data())
def test_no_name_ends_in_a_word_that_means_another_kind(instrument: str, family: str, data: st.DataObject) -> None:
    said = data.draw(st.lists(st.sampled_from(["total", "bucket", "info", "created", "sum", "x", "By/"]), max_size=3))
    name, unit = family_name(instrument, "_".join(said), family)
    others = ("total", "bucket", "info", "created", *(() if family == COUNTER else ("sum", "count")))
    assert not name.endswith(tuple(f"_{word}" for word in others))
    assert not unit.word or name.endswith(unit.word)


@pytest.mark.parametrize(
    ("text", "word", "factor"),
    [
        ("s", "seconds", 1),
        ("ms", "seconds", 1e-3),
        ("h", "seconds", 3600),
        ("By", "bytes", 1),
        ("MB", "bytes", 1e6),
        ("MiBy", "bytes", 1 << 20),
        ("bit", "bytes", 0.125),
        ("%", "ratio", 0.01),
        ("KB/min", "bytes_per_minute", 1e3),
        ("{request}", "", 1),
        ("count", "", 1),
        ("", "", 1),
        ("Foo Bars", "foo_bars", 1),
        ("/", "", 1),
        ("€", "", 1),
    ],
)
def test_units_are_base_units(text: str, word: str, factor: float) -> None:
    unit = base_unit(text, GAUGE)
    assert (unit.word, unit.factor) == (word, factor)


def test_instruments_of_other_names_or_kinds_do_not_share_a_name() -> None:
    names = FamilyNames({"dotnetdiag_up"})
    assert names.name("a.b", "s", COUNTER)[0] == "a_b_seconds"
    assert names.name("a_b", "s", COUNTER)[0] == "a_b_added_seconds"
    assert names.name("a-b", "s", COUNTER)[0] == "a_b_added_2_seconds"
    assert names.name("a.b", "s", GAUGE)[0] == "a_b_current_seconds"
    assert names.name("a.b", "ms", COUNTER) == ("a_b_seconds", base_unit("ms", COUNTER)), (
        "it is the same in other units"
    )
    assert names.name("a.b", "s", SUMMARY)[0] == "a_b_distribution_seconds"
    assert names.name("a.b", "s", COUNTER)[0] == "a_b_seconds"
    assert names.name("dotnetdiag.up", "", GAUGE)[0] == "dotnetdiag_up_current"


def test_a_name_that_nobody_has_any_more_is_free() -> None:
    names = FamilyNames()
    names.name("a.b", "", GAUGE)
    names.name("a.b", "", COUNTER)
    names.keep([("a.b", "", COUNTER)])
    assert len(names) == 1
    assert names.name("a_b", "", GAUGE)[0] == "a_b"
    assert names.name("a.b", "", COUNTER)[0] == "a_b_added"


@given(
    st.lists(st.tuples(st.text(max_size=8), st.sampled_from(["", "s", "ms", "1", "%", "x/y"]), st.sampled_from(KINDS)))
)
def test_names_are_valid_and_samples_of_two_families_never_have_one(asked: list[tuple[str, str, str]]) -> None:
    names = FamilyNames()
    owners: dict[str, tuple[str, str, str]] = {}
    for instrument, unit, family in asked:
        name, base = names.name(instrument, unit, family)
        assert NAME.fullmatch(name)
        for end in CLAIMED[family]:
            owner = instrument, base.word, family
            assert owners.setdefault(name + end, owner) == owner


@pytest.mark.parametrize(
    ("tags", "labels"),
    [
        (["http.method"], {"http.method": "http_method"}),
        (["httpMethod"], {"httpMethod": "http_method"}),
        (["Zone"], {"Zone": "Zone"}),
        (["pid", "le", "quantile"], {"pid": "tag_pid", "le": "tag_le", "quantile": "tag_quantile"}),
        (["pid", "tag_pid"], {"tag_pid": "tag_pid", "pid": "tag_pid_2"}),
        (["a.b", "a_b", "a-b"], {"a_b": "a_b", "a-b": "a_b_2", "a.b": "a_b_3"}),
        (["__name__"], {"__name__": "_name__"}),
        (["9"], {"9": "_9"}),
        (["", "é"], {"": "tag", "é": "tag_2"}),
    ],
)
def test_tags_have_labels_of_their_own(tags: list[str], labels: dict[str, str]) -> None:
    assert label_names(tags, ["pid"]) == labels


@given(st.sets(st.text(max_size=5)))
def test_labels_are_valid_and_different(tags: set[str]) -> None:
    labels = label_names(tags, ["pid", "tag", "a"])
    assert labels.keys() == tags
    assert len(set(labels.values())) == len(tags)
    assert all(LABEL.fullmatch(label) for label in labels.values())
    assert not {"pid", "tag", "a", "le", "quantile"} & set(labels.values())
