"""Files made of files: what is told of them is what they hold, and where nothing can be made there is no file."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nettrace import by_hand
from tests.nettrace.recordings import data_of
from tests.nettrace.traces import SMALL

from dotnetdiag.errors import FormatError, NotUnderstood, OutputExists, UnknownName, UsageError
from dotnetdiag.recipes.exporting import ConvertOptions, convert_file
from dotnetdiag.recipes.trace_files import open_trace
from dotnetdiag.recipes.trace_rewrite import Rewritten, filter_events, merge_files, redact_file, trim
from dotnetdiag.trace.merge import NEXT_PROCESS
from dotnetdiag.trace.redact import redact

MESSAGE = "Microsoft-Windows-DotNETRuntime/Exception/Start.ExceptionMessage"
COMMAND_LINE = "Microsoft-DotNETCore-EventPipe/ProcessInfo.CommandLine"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "events.nettrace"
    path.write_bytes(data_of("events-10.nettrace"))
    return path


def check(done: Rewritten, output: Path) -> None:
    assert done.path == output
    assert done.size_bytes == output.stat().st_size
    assert done.events == len(open_trace(output))
    assert open_trace(output).complete


def test_a_redacted_file_is_the_trace_with_the_texts_replaced(source: Path, tmp_path: Path) -> None:
    done = redact_file(source, tmp_path / "x", fields=[MESSAGE])
    check(done, tmp_path / "x")
    assert done.replaced == {MESSAGE: 80, COMMAND_LINE: 1}
    assert done.blanked == {}
    assert (tmp_path / "x").read_bytes() == redact(open_trace(source), [MESSAGE]).data != source.read_bytes()


@pytest.mark.parametrize("force", [False, True])
def test_what_is_not_understood_leaves_what_was_there(source: Path, force: bool, tmp_path: Path) -> None:
    output = tmp_path / "x"
    if force:
        output.write_bytes(b"mine")
    whole = source.read_bytes()
    source.write_bytes(whole + b"--password=hunter2")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(NotUnderstood, match=r"events\.nettrace.*behind the end marker"):
        redact_file(source, output, force=force)
    with pytest.raises(UnknownName):
        redact_file(source, output, fields=["Exception/Start.Mesage"], force_partial=True, force=force)
    assert sorted(tmp_path.iterdir()) == before
    assert not force or output.read_bytes() == b"mine"
    done = redact_file(source, output, force_partial=True, force=force)
    assert list(done.blanked.values()) == [18]
    assert output.read_bytes() == redact(open_trace(source), force_partial=True).data
    with pytest.raises(OutputExists):
        redact_file(source, output, force_partial=True)


def test_a_trimmed_file_has_the_events_of_the_range(source: Path, tmp_path: Path) -> None:
    whole = open_trace(source)
    for name, start_s, end_s in (("a", None, None), ("b", 1.0, None), ("c", None, 1.0), ("d", 0.5, 1.0)):
        done = trim(source, tmp_path / name, start_s=start_s, end_s=end_s, strict=True)
        check(done, tmp_path / name)
        assert done.events == len(whole.events(time=(start_s, end_s)))
        named = trim(source, tmp_path / name, start_s=start_s, end_s=end_s, force=True)
        check(named, tmp_path / name)
        assert done.events <= (named.events or 0) <= len(whole)


@pytest.mark.parametrize("kind", [kind for kind in SMALL if kind != "NetPerf 3"])
def test_a_trimmed_file_is_of_version_6_where_its_source_is(kind: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(SMALL[kind])
    trim(tmp_path / "a", tmp_path / "b", start_s=None, end_s=None)
    assert open_trace(tmp_path / "b").format == ("nettrace 6.0" if kind.startswith("nettrace 6") else "nettrace 4")


def test_a_file_without_a_trace_object_is_not_rewritten(tmp_path: Path) -> None:
    whole = by_hand.trace()
    (tmp_path / "a").write_bytes(whole[: len("Nettrace") + 12] + bytes(4))
    with pytest.raises(FormatError, match="a: there is no Trace object"):
        trim(tmp_path / "a", tmp_path / "b", start_s=None, end_s=None)
    with pytest.raises(UsageError, match="its clock is not known"):
        merge_files([tmp_path / "a", tmp_path / "a"], tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_a_filtered_file_has_the_events_of_all_that_is_named(source: Path, tmp_path: Path) -> None:
    whole, counts = open_trace(source), {}
    for providers, names in (
        (["Workload-Manifest"], []),
        ([], ["Exception/Start"]),
        (["Workload-Manifest"], ["Exception/Start"]),
    ):
        output = tmp_path / f"{len(providers)}{len(names)}"
        done = filter_events(source, output, providers=providers, names=names, strict=True)
        check(done, output)
        counts[len(providers), len(names)] = done.events
        assert set(open_trace(output).counts()) <= {"Workload-Manifest", "Microsoft-Windows-DotNETRuntime"}
    assert counts[0, 1] == len(whole.events(names="Exception/Start")) == 80
    assert counts[1, 1] == (counts[1, 0] or 0) + 80
    with pytest.raises(UsageError, match="nothing to filter by"):
        filter_events(source, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_merged_file_says_which_processes_got_another_number(tmp_path: Path) -> None:
    sources = [tmp_path / name for name in ("a", "b", "c")]
    for source, kind in zip(sources, ("nettrace 5", "nettrace 6", "nettrace 4"), strict=True):
        source.write_bytes(SMALL[kind])
    sources[2].write_bytes(SMALL["nettrace 4"][:-40])
    done = merge_files(sources, tmp_path / "all")
    check(done, tmp_path / "all")
    pid = open_trace(sources[0]).raw.process.pid
    assert pid
    assert done.renumbered == (
        (sources[1], pid, pid + NEXT_PROCESS),
        (sources[2], pid, pid + 2 * NEXT_PROCESS),
    )
    assert [text.partition(":")[0] for text in done.damage] == ["c"]
    with pytest.raises(UsageError, match="two files"):
        merge_files(sources[:1], tmp_path / "one")
    assert not (tmp_path / "one").exists()


def test_of_a_format_that_does_not_count_losses_it_is_said_that_the_output_cannot_say_so(
    source: Path, tmp_path: Path
) -> None:
    old = tmp_path / "old.netperf"
    old.write_bytes(data_of("eventpipe-dotnetcore2.1-linux-x64-tracelogging.netperf.xz"))
    said = "old.netperf does not tell whether events were lost: what is written of it says that none were"
    assert trim(old, tmp_path / "part", start_s=0, end_s=None).notes == (said,)
    assert merge_files([source, old], tmp_path / "both").notes == (said,)
    (made,) = convert_file(old, ["nettrace"])
    assert made.notes == (said,)
    assert trim(source, tmp_path / "part2", start_s=0, end_s=None).notes == ()


def test_events_of_types_that_a_file_does_not_define_are_left_out_and_told(tmp_path: Path) -> None:
    path, output = tmp_path / "odd.nettrace", tmp_path / "made.nettrace"
    blocks = by_hand.metadata(by_hand.event_type(1)), by_hand.events(by_hand.event(7)), by_hand.events(by_hand.event(1))
    path.write_bytes(by_hand.trace(*blocks))
    said = "1 events of types that odd.nettrace does not define were left out"
    for version in (4, 5, 6):
        options = ConvertOptions(nettrace_version=version, force=True)
        (made,) = convert_file(path, ["nettrace"], output, options)
        assert made.notes == (said,)
        assert len(open_trace(output)) == 1
    done = trim(path, output, start_s=None, end_s=1, force=True)
    assert (done.events, done.notes) == (1, (said,))
    with pytest.raises(FormatError, match=r"odd\.nettrace: 1 events are of types that the file does not define"):
        merge_files([path, output], tmp_path / "all.nettrace")
    assert not (tmp_path / "all.nettrace").exists()


def test_the_damage_of_a_file_is_told_when_it_is_redacted(tmp_path: Path) -> None:
    path = tmp_path / "cut.nettrace"
    path.write_bytes(SMALL["nettrace 5"][:-1])
    done = redact_file(path, tmp_path / "out.nettrace")
    assert [line.endswith("the data ends here, without the end marker") for line in done.damage] == [True]
