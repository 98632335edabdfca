"""The registry: names, suffixes, and that a format is loaded when it is asked for."""

from __future__ import annotations

import io
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from tests.export.made import SMALL, profile_of, sample, written

from dotnetdiag.analysis.diff import diff
from dotnetdiag.errors import MissingDependency, UsageError
from dotnetdiag.export import FORMATS, find_format, format_of
from dotnetdiag.export.texts import clean, file_stem, profile_only


def test_names_and_suffixes_are_what_is_documented() -> None:
    assert {name: one.suffix for name, one in FORMATS.items()} == {
        "speedscope": ".speedscope.json",
        "chromium": ".chromium.json",
        "perfetto": ".perfetto-trace",
        "firefox": ".firefox.json",
        "pprof": ".pb.gz",
        "collapsed": ".collapsed.txt",
        "flamegraph": ".flamegraph.html",
        "json": ".profile.json",
        "csv": ".csv",
        "jsonl": ".jsonl",
        "parquet": ".parquet",
        "sqlite": ".sqlite",
        "markdown": ".md",
        "html": ".table.html",
    }


def test_a_format_needs_all_its_libraries() -> None:
    one = replace(FORMATS["pprof"], libraries=("json", "email.mime"))
    one.check()
    for missing in ("no_such_library", "no_such_library.inner", "email.no_such_part"):
        with pytest.raises(MissingDependency, match=r"the format pprof.*pprof"):
            replace(one, libraries=("json", missing)).check()


def test_formats_that_nobody_can_read_say_so() -> None:
    assert {name for name, one in FORMATS.items() if not one.is_text} == {"perfetto", "pprof", "parquet", "sqlite"}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_found_by_name_and_by_suffix_in_any_case(name: str) -> None:
    assert find_format(name.upper()) is FORMATS[name]
    assert format_of(f"/x/APP{FORMATS[name].suffix.upper()}") is FORMATS[name]
    assert FORMATS[name].help


@pytest.mark.parametrize("name", [name for name, one in FORMATS.items() if not one.tables])
def test_no_table_takes_the_name_of_a_profile(name: str) -> None:
    with pytest.raises(UsageError, match=f"{name} shows stacks, and tables have none"):
        format_of(f"app{FORMATS[name].suffix}", table=True)


def test_unknown_names_and_suffixes_say_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"no format 'svg'; there are: speedscope, .*csv"):
        find_format("svg")
    with pytest.raises(UsageError, match=r"app.xml: .*\.speedscope\.json"):
        format_of("app.xml")


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_writes_profiles_and_says_whether_it_can_write_differences(name: str) -> None:
    profile = profile_of(*SMALL)
    assert written(profile, name)
    changed = diff(profile, profile)
    if FORMATS[name].differences:
        assert written(changed, name)
    else:
        with pytest.raises(UsageError, match=r"cannot show a difference; collapsed, flamegraph, json, csv, .* can"):
            written(changed, name)
    if FORMATS[name].is_text:
        written(profile, name).decode("utf-8")


@pytest.mark.parametrize("name", FORMATS)
def test_no_format_takes_what_is_no_result(name: str) -> None:
    with pytest.raises(UsageError, match="not a str"):
        FORMATS[name].write("text", io.BytesIO())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", FORMATS)
def test_weights_that_are_no_weights_count_nothing(name: str) -> None:
    odd = [float("nan"), float("inf"), -5.0, 2.0]
    profile = profile_of(*(sample(1, at, 0, "A.B", weight=weight) for at, weight in enumerate(odd)), unit="bytes")
    assert profile_only(profile, name).total == 2.0
    data = written(profile, name).partition(b'id="data">')
    text = (data[2] or data[0]).partition(b"</script>")[0].lower().replace(b"nanoseconds", b"")
    assert not FORMATS[name].is_text or not any(word in text for word in (b"nan", b"inf", b"-5"))


def test_the_registry_loads_no_format() -> None:
    code = "import sys, dotnetdiag.export; print([m for m in sys.modules if m.startswith(('dotnetdiag.export.', 'numpy', 'google'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        *((f"app{suffix}", "app") for suffix in (".nettrace", ".nettrace.gz", ".nettrace.xz", ".netperf", ".gz", "")),
        *(("app.nettrace.bak", "app.nettrace.bak"), ("a.b.nettrace", "a.b"), (".nettrace", ""), ("app.gz.txt",) * 2),
    ],
)
def test_the_stem_of_a_file_is_without_what_says_its_form(name: str, stem: str) -> None:
    assert file_stem(name) == stem


def test_clean_texts_are_valid_and_whole() -> None:
    assert clean("plain") == "plain"
    assert clean("\u00e9 \U0001f600") == "\u00e9 \U0001f600"
    assert clean("a\ud800b") == "a\ufffdb"
    assert clean("\ud83d\ude00") == "\U0001f600"


def test_weights_below_nothing_and_beyond_all_count_nothing() -> None:
    weights = (0.25, 0.0, -0.25, -3.0, math.inf, -math.inf, math.nan, 2.0)
    profile = profile_of(*(sample(1, at, 0, "A.B", weight=weight) for at, weight in enumerate(weights)), unit="bytes")
    assert profile_only(profile, "x").weight.tolist() == [0.25, 0, 0, 0, 0, 0, 0, 2.0]
