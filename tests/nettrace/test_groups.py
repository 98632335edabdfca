"""Blocks of events on their way to a decoder: which go together, what their ids stand for, how the work is shared."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest

from dotnetdiag.nettrace import whole
from dotnetdiag.nettrace.block import Block
from dotnetdiag.nettrace.columns import HeaderColumns
from dotnetdiag.nettrace.constants import BlockKind
from dotnetdiag.nettrace.decode import FIRST_GROUP_BYTES, GROUP_BYTES, GROUP_EVENTS, Lender
from dotnetdiag.nettrace.group import EventRun, Form, Gathering, Group, one_form
from dotnetdiag.nettrace.ids import IdMap
from dotnetdiag.nettrace.kernel_types import BLOCK
from dotnetdiag.nettrace.translation import Tables, Translation


def run_of(*sizes: int, start: int = 100, form: Form = Form.COMPRESSED) -> EventRun:
    """Blocks of these sizes with 5 bytes between them."""
    starts, at = [], start
    for size in sizes:
        starts.append(at)
        at += size + 5
    blocks = [
        Block(kind=BlockKind.EVENT, name="EventBlock", offset=at, start=at, size=size, present=size, end=at + size)
        for at, size in zip(starts, sizes, strict=True)
    ]
    ends = np.array(starts, np.int64) + np.array(sizes, np.int64)
    return EventRun(blocks, form, np.array(starts, np.int64), ends, Translation(), 3, 4)


def test_run_is_cut_where_a_block_does_not_fit_any_more_but_never_before_the_first() -> None:
    run = run_of(10, 20, 30, 40)
    assert (len(run), run.size_bytes) == (4, 115)
    for size, count in ((-5, 1), (0, 1), (10, 1), (34, 1), (35, 2), (69, 2), (70, 3), (114, 3), (115, 4), (1000, 4)):
        part, left = run.cut(size)
        assert len(part) == len(part.blocks) == len(part.starts) == len(part.ends) == count
        assert (part.segment, part.moves, part.form, part.translation) == (3, 4, run.form, run.translation)
        if left is None:
            assert (part, count) == (run, 4)
        else:
            assert [*part.blocks, *left.blocks] == run.blocks
            assert [*part.starts, *left.starts] == run.starts.tolist()
            assert [*part.ends, *left.ends] == run.ends.tolist()


def test_block_of_a_group_is_found_in_its_run() -> None:
    runs = [run_of(1, 2), run_of(3, start=900), run_of(4, 5, 6, start=2000)]
    group = Group(runs)
    assert group.edges == [0, 2, 3, 6]
    assert [group.run_of(block) for block in range(6)] == [
        (runs[0], 0), (runs[0], 1), (runs[1], 0), (runs[2], 0), (runs[2], 1), (runs[2], 2)
    ]  # fmt: skip
    starts, ends = group.bounds(100)
    assert starts.tolist() == [start - 100 for run in runs for start in run.starts.tolist()]
    assert ends.tolist() == [end - 100 for run in runs for end in run.ends.tolist()]
    assert Group([]).edges == [0]
    assert [one.tolist() for one in Group(runs[1:2]).bounds(0)] == [[900], [903]]


def test_groups_are_about_as_large_as_is_wanted_and_hold_every_block_once_in_order() -> None:
    for seed in range(40):
        choose = random.Random(seed)
        runs, at = [], 0
        for _ in range(choose.randrange(1, 12)):
            runs.append(run_of(*(choose.randrange(1, 60) for _ in range(choose.randrange(1, 9))), start=at))
            at = int(runs[-1].ends[-1]) + choose.randrange(50)
        wanted = 200
        gathering, groups = Gathering(lambda: wanted), []  # noqa: B023 - of this turn
        for run in runs:
            for full in gathering.add(run):
                size = sum(part.size_bytes for part in full)
                assert size >= 190
                assert size - full[-1].size_bytes < 190, "it was full before"
                assert size <= 200 or len(full[-1]) == 1, "a block that does not fit comes alone"
                groups.append(full)
            assert sum(part.size_bytes for part in gathering.runs) < 190
        groups.append(gathering.take())
        assert gathering.runs == gathering.take() == []
        assert [block for full in groups for part in full for block in part.blocks] == [
            block for run in runs for block in run.blocks
        ]


def test_group_that_was_taken_leaves_room_for_a_whole_one() -> None:
    gathering = Gathering(lambda: 100)
    assert list(gathering.add(run_of(50))) == []
    assert [len(run) for run in gathering.take()] == [1]
    assert list(gathering.add(run_of(94))) == []
    assert [[len(run) for run in full] for full in gathering.add(run_of(1, start=900))] == [[1, 1]]
    assert [[len(run) for run in full] for full in gathering.add(run_of(95))] == [[1]]


def test_a_group_has_runs_of_one_form_and_not_too_many_of_them() -> None:
    gathering = Gathering(lambda: 1 << 20)
    assert list(gathering.add(run_of(10))) == []
    (full,) = gathering.add(run_of(20, form=Form.UNCOMPRESSED))
    assert [run.form for run in full] == [Form.COMPRESSED]
    assert [run.form for run in gathering.take()] == [Form.UNCOMPRESSED]
    groups = [full for number in range(2 * Gathering.MOST_RUNS + 1) for full in gathering.add(run_of(0, start=number))]
    assert [len(full) for full in groups] == [Gathering.MOST_RUNS] * 2
    assert len(gathering.take()) == 1


def test_size_of_groups_follows_the_size_of_events() -> None:
    for each, size in (
        (0.0, FIRST_GROUP_BYTES),
        (5.0, FIRST_GROUP_BYTES),
        (20.0, 20 * GROUP_EVENTS),
        (1e6, GROUP_BYTES),
    ):
        lender = Lender()
        lender.bytes_per_event = each
        assert lender.group_bytes == size
    assert FIRST_GROUP_BYTES < 20 * GROUP_EVENTS < GROUP_BYTES


def test_form_of_several_runs_is_one_when_all_have_it_and_it_is_compressed() -> None:
    for form in Form:
        is_one = form in (Form.COMPRESSED, Form.COMPRESSED_V6)
        assert one_form([run_of(1, form=form)] * 2) == (form if is_one else None)
    assert one_form([]) is None
    assert one_form([run_of(1), run_of(1, form=Form.COMPRESSED_V6)]) is None


@pytest.mark.parametrize("share", [1, 7, 40, 1000])
def test_shares_of_the_work_are_contiguous_and_about_equal(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole, "SHARE_BYTES", share)
    rng = np.random.default_rng(1)
    assert whole._shares(np.zeros(0, np.int64)) == []
    for count in (1, 2, 30):
        sizes = rng.integers(0, 20, count)
        shares = whole._shares(sizes)
        assert (shares[0][0], shares[-1][1]) == (0, count)
        assert all(one[1] == other[0] for one, other in pairwise(shares))
        weights = [int((sizes[first:last] + 1).sum()) for first, last in shares]
        assert all(first < last for first, last in shares)
        for weight, (first, last) in zip(weights[:-1], shares, strict=False):
            # up to the block in which a mark lies: from one mark to the next, and that block
            assert share - 20 <= weight <= share + 20, (first, last)


# ids ------------------------------------------------------------------------------------------------------------------


def mapped(*numbers: int) -> IdMap:
    made = IdMap()
    for order, number in enumerate(numbers, 1):
        made.define(number, 10 * order)
    return made


def test_ids_of_columns_are_translated_and_those_that_are_not_defined_counted() -> None:
    headers = HeaderColumns.allocate(6)
    headers.metadata_id[:] = [1, 7, 0, 9, 1, 8]
    headers.stack[:] = [0, 3, 4, 4, 5, 3]
    headers.label_list[:] = [2, 0, 0, 2, 6, 0]
    block = np.zeros(1, BLOCK)
    block["unknown_stack"] = 5
    found = Translation(mapped(3, 4).snapshot(), mapped(2).snapshot(), mapped(1, 7).snapshot()).apply(headers, block)
    assert found.metadata_id.tolist() == [10, 20, 0, 0, 10, 0]
    assert found.stack.tolist() == [0, 10, 20, 20, 0, 10]
    assert found.label_list.tolist() == [10, 0, 0, 10, 0, 0]
    assert headers.metadata_id.tolist() == [1, 7, 0, 9, 1, 8]
    names = ["unknown_metadata", "unknown_stack", "unknown_labels", "undefined_id"]
    assert block[names].tolist() == [(3, 6, 1, 9)]
    block = np.zeros(1, BLOCK)
    found = Translation().apply(headers, block)
    assert not any(column.any() for column in (found.metadata_id, found.stack, found.label_list))
    assert block[names].tolist() == [(6, 5, 3, 1)]


def test_tables_of_several_parts_stand_one_after_another_each_once() -> None:
    one, far = mapped(1, 2), mapped(1, 1 << 30)
    first, second = one.snapshot(), far.snapshot()
    one.define(3, 30)
    later = one.snapshot()
    assert later.table is first.table
    parts = [
        (2, Translation(stacks=first)),
        (1, Translation(stacks=second, metadata=first)),
        (3, Translation(stacks=later)),
    ]
    tables = Tables.of(parts)
    assert tables.stacks.tolist() == [*first.table.tolist(), *second.table.tolist()]
    assert (tables.metadata is first.table, len(tables.labels)) == (True, 0)
    size = first.table.size
    rows = [
        (0, first.base, first.near, first.bits, 2),
        (size, second.base, second.near, second.bits, 2),
        (0, later.base, later.near, later.bits, 3),
    ]
    assert tables.meanings["stacks"].tolist() == [rows[0]] * 2 + [rows[1]] + [rows[2]] * 3
    assert tables.meanings["labels"].tolist() == [(0, 0, 0, 0, 0)] * 6
    assert len(Tables.of(parts[2:]).meanings) == 1  # one for all
    assert len(Tables.of([]).meanings) == 0
