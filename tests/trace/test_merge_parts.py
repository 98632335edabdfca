"""Parts of one recording that are merged again."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.nettrace.recordings import data_of, recording
from tests.nettrace.test_parts import divided, with_points

from dotnetdiag.analysis.advice import advice
from dotnetdiag.analysis.exceptions import exceptions
from dotnetdiag.analysis.gc_collections import gc
from dotnetdiag.recipes.trace_rewrite import Rewritten, merge_files, trim
from dotnetdiag.trace.recorded import recorded_of
from dotnetdiag.trace.trace import Trace

NAME = "events-10.nettrace"


def same(made: Trace, whole: Trace) -> None:
    """The same process, of which the same is told."""
    assert made.raw.process.pid == whole.raw.process.pid
    assert len(made) == len(whole)
    assert made.lost.total == whole.lost.total
    assert recorded_of(made).of(whole.raw.process.pid or 0)[:2] == pytest.approx(recorded_of(whole)[:2], abs=0.01)
    ours, theirs = exceptions(made), exceptions(whole)
    assert ours.totals.caught == theirs.totals.caught == theirs.count == ours.count
    assert ours.by_type.values("threads") == theirs.by_type.values("threads")
    assert ours.by_method.to_pylist() == theirs.by_method.to_pylist()
    assert gc(made).totals.pause_percent == pytest.approx(gc(whole).totals.pause_percent, rel=0.01)
    told = [advice(one).findings.to_pylist() for one in (made, whole)]
    assert [row["text"] for row in told[0]] == [row["text"] for row in told[1]]


@pytest.mark.parametrize("turned", [False, True])
def test_the_files_of_a_rotation_are_one_process_again(turned: bool, tmp_path: Path) -> None:
    whole = with_points(data_of(NAME), 300, 5)
    paths = []
    for number, file in enumerate(divided(whole).files):
        paths.append(tmp_path / f"{number}.nettrace")
        paths[-1].write_bytes(file.getvalue())
    assert len(paths) > 4
    made = merge_files(paths[::-1] if turned else paths, tmp_path / "all.nettrace")
    assert made.renumbered == ()
    same(Trace((tmp_path / "all.nettrace").read_bytes()), Trace(whole))


def merged(folder: Path, *parts: tuple[float | None, float | None] | None) -> Rewritten:
    """Parts of a recording, or (None) all of it."""
    paths = []
    for number, part in enumerate(parts):
        path = recording(NAME)
        if part is not None:
            path = folder / f"{number}.nettrace"
            trim(recording(NAME), path, start_s=part[0], end_s=part[1], strict=True)
        paths.append(path)
    return merge_files(paths, folder / "all.nettrace")


def test_what_was_cut_in_two_is_one_process_again(tmp_path: Path) -> None:
    made = merged(tmp_path, (None, 1.5), (1.5, 2.25), (2.25, None))
    assert made.renumbered == ()
    trace, whole = Trace((tmp_path / "all.nettrace").read_bytes()), Trace(data_of(NAME))
    assert exceptions(trace).count == exceptions(whole).count
    assert recorded_of(trace).of(whole.raw.process.pid or 0)[:2] == pytest.approx(recorded_of(whole)[:2], abs=1e-6)


@pytest.mark.parametrize(
    "parts",
    [
        [None, None],  # twice the same
        [None, (1.5, None)],  # which has that already
        [(None, 2.0), (1.5, None)],  # they overlap
        [(None, 1.0), (1.5, None)],  # nobody knows what was between
    ],
)
def test_what_does_not_go_on_where_the_other_ends_is_another_process(
    parts: list[tuple[float | None, float | None] | None], tmp_path: Path
) -> None:
    assert len(merged(tmp_path, *parts).renumbered) == 1


def test_a_part_keeps_what_is_before_it(tmp_path: Path) -> None:
    """Merged without what came before."""
    merged(tmp_path, (1.5, 2.0), (2.0, None))
    trace = Trace((tmp_path / "all.nettrace").read_bytes())
    pid = trace.raw.process.pid or 0
    assert recorded_of(trace).missing_s(pid) == pytest.approx(1.5)
