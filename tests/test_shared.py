"""The run with and without ../shared: where it is looked for, and what is said of tests that were left out."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from tests.imports import SHARED, files, imported
from tests.left_out import count_left_out, describe
from tests.nettrace.recordings import SMALL_FOLDER, data_of, recordings, small_unpacked
from tests.shared import NOT_HERE, find_shared, shared_part, skip_without

from dotnetdiag.nettrace import read


def test_a_folder_beside_the_checkout_is_found_when_it_holds_something_of_ours(tmp_path: Path) -> None:
    assert find_shared("", tmp_path) is None
    (tmp_path / "fixtures").mkdir()
    assert find_shared("", tmp_path) == tmp_path


def test_the_environment_names_the_folder_or_hides_it(tmp_path: Path) -> None:
    (tmp_path / "fixtures").mkdir()
    assert find_shared("none", tmp_path) is None
    assert find_shared(str(tmp_path), Path("/nonexistent")) == tmp_path
    with pytest.raises(FileNotFoundError, match="DOTNETDIAG_SHARED=/nonexistent"):
        find_shared("/nonexistent", tmp_path)


def test_skipped_tests_are_counted_by_what_they_lack() -> None:
    reasons = [
        f"Skipped: {NOT_HERE}the workload on real runtimes",
        f"Skipped: {NOT_HERE}the workload on real runtimes",
        f"Skipped: {NOT_HERE}the recording web-10",
        f"Skipped: {NOT_HERE}the recording http-10",
        "Skipped: no browser here",
    ]
    counted = count_left_out(reasons)
    assert counted.missing == {
        "the workload on real runtimes": 2,
        "the recording web-10": 1,
        "the recording http-10": 1,
    }
    assert counted.others == 1
    assert describe(counted, hidden=True) == [
        "left out: ../shared is not there (or hidden): 4 tests skipped",
        "  2 tests for want of the workload on real runtimes",
        "  2 tests for want of 2 recordings: http-10, web-10",
        "skipped for other reasons, which are listed above: 1 test",
    ]


def test_a_whole_run_says_that_nothing_was_left_out() -> None:
    assert describe(count_left_out([]), hidden=False) == ["left out: nothing, ../shared is there"]


def test_a_part_that_is_missing_is_said() -> None:
    counted = count_left_out([NOT_HERE + "the workload on real runtimes"])
    assert describe(counted, hidden=False)[0] == "left out: something of ../shared is not there: 1 test skipped"


def test_small_recordings_are_copies_of_the_shared_ones() -> None:
    fixtures = shared_part("fixtures")
    if fixtures is None:
        skip_without("the recordings of which the small ones are copies")
    for path in small_unpacked().iterdir():
        if path.name == "README.md":
            continue
        assert path.read_bytes() == (fixtures / path.name).read_bytes(), path.name


def test_small_recordings_are_small_and_of_three_formats() -> None:
    sizes = [path.stat().st_size for path in SMALL_FOLDER.iterdir()]
    assert max(sizes) <= 200_000
    assert sum(sizes) <= 800_000
    formats = set()
    for path in small_unpacked().iterdir():
        if path.name.endswith((".nettrace", ".netperf.xz")):
            data = path.read_bytes()
            formats.add(read(lzma.decompress(data) if path.suffix == ".xz" else data).format)
    assert formats == {"NetPerf 3", "nettrace 4", "nettrace 6.0"}


def test_a_recording_that_is_not_here_skips_the_test_that_asks_for_it() -> None:
    with pytest.raises(pytest.skip.Exception, match=f"{NOT_HERE}the recording none"):
        data_of("none.nettrace")
    assert recordings()


def test_who_speaks_of_the_folder_or_its_variable_can_tell_whether_it_is_there() -> None:
    words = ("find_shared", "shared_part(", "skip_without(", 'parent / "shared"')
    strangers = [
        name
        for name, path in files().items()
        if name != SHARED
        and any(word in path.read_text(encoding="utf-8") for word in words)
        and SHARED not in imported(name)
    ]
    assert strangers == []
    assert SHARED in imported("tests.nettrace.test_writer")  # through recordings.py
    assert SHARED not in imported("tests.ipc.test_frames")
