"""Label lists of version 6: found in their bytes, read one by one when somebody asks, written as they are."""

from __future__ import annotations

import io
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotnetdiag.errors import FormatError, UsageError
from dotnetdiag.nettrace import LabelList, Metadata, Reader, Scan, ThreadInfo, Writer, kernels, read
from dotnetdiag.nettrace.budget import COST, Budget
from dotnetdiag.nettrace.guids import GuidTable
from dotnetdiag.nettrace.label_table import ID_COST, LIST_COST, LabelTable, activity_lists, are_lists
from dotnetdiag.nettrace.labels import pack_label_list, parse_label_list
from dotnetdiag.nettrace.remarks import Remarks
from dotnetdiag.trace.header import overrides
from dotnetdiag.wire import Cursor


@pytest.fixture(
    params=[True, False] if kernels.COMPILED else [False], ids=lambda one: "compiled" if one else "fallback"
)
def either(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(kernels, "KERNELS", None)


def optional(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    return st.none() | values


TEXT = st.text(max_size=5)
U8, U64 = st.integers(0, 255), st.integers(0, (1 << 64) - 1)
LISTS = st.builds(
    LabelList,
    activity=optional(st.uuids()),
    related=optional(st.uuids()),
    trace_id=optional(st.binary(min_size=16, max_size=16)),
    span_id=optional(U64),
    values=st.lists(st.tuples(TEXT, TEXT | st.integers(-(1 << 63), (1 << 63) - 1)), max_size=3).map(tuple),
    opcode=optional(U8),
    keywords=optional(U64),
    level=optional(U8),
    version=optional(U8),
).filter(lambda one: one != LabelList())


def block(first: int, data: bytes, count: int) -> Cursor:
    return Cursor(first.to_bytes(4, "little") + count.to_bytes(4, "little") + data)


def table(room: int = 1 << 30) -> tuple[LabelTable, Remarks]:
    remarks = Remarks()
    return LabelTable(Budget(room, remarks), remarks), remarks


@pytest.mark.usefixtures("either")
class TestEitherForm:
    @given(st.lists(LISTS, min_size=1, max_size=8), st.data())
    def test_a_block_is_read_as_one_list_after_the_other(self, lists: list[LabelList], data: st.DataObject) -> None:
        raw = b"".join(map(pack_label_list, lists))
        made, _ = table()
        made.take(block(7, raw, len(lists)))
        numbers = made.ids.snapshot().look_up(np.arange(7, 7 + len(lists), dtype=np.uint32))
        assert [made.lists[number] for number in numbers.tolist()] == lists
        assert next(iter(made.lists)) == LabelList()
        assert len(made.lists) == 1 + len(set(map(pack_label_list, lists)))
        expected = dict(enumerate(made.lists))
        changing = ("opcode", "keywords", "level", "version")
        assert overrides(made.lists) == {
            number: one for number, one in expected.items() if any(getattr(one, name) is not None for name in changing)
        }
        guids = GuidTable()
        pairs = made.guids(guids)
        for number, one in expected.items():
            own = (0, 0) if pairs is None else pairs[number].tolist()
            assert [guids[at] for at in own] == [one.activity or UUID(int=0), one.related or UUID(int=0)]

        at = data.draw(st.integers(0, len(raw) - 1))
        damaged = data.draw(st.sampled_from([raw[:at], raw[:at] + bytes([raw[at] ^ 0xFF]) + raw[at + 1 :]]))
        assert _taken(damaged, len(lists)) == _one_by_one(damaged, len(lists))

    def test_lists_beyond_what_a_reader_keeps_are_told(self) -> None:
        lists = [pack_label_list(LabelList(span_id=number)) for number in range(10)]
        made, remarks = table(3 * (LIST_COST + ID_COST + len(lists[0])) + 5)
        made.take(block(1, b"".join(lists), 10))
        assert (len(made.lists), len(made.ids)) == (4, 3)
        assert [line.split(",")[0] for line in remarks.warnings] == ["definitions beyond what a reader keeps: 7"]

    def test_lists_stay_counted_when_their_ids_begin_anew(self) -> None:
        lists = [pack_label_list(LabelList(span_id=number)) for number in range(20)]
        made, remarks = table(15 * (LIST_COST + ID_COST + len(lists[0])))
        for first in range(0, 20, 5):
            made.take(block(1, b"".join(lists[first : first + 5]), 5))
            made.forget()
            made._budget.set("ids")
        assert len(made.lists) == 20
        assert remarks.warnings
        changing = [pack_label_list(LabelList(level=2, span_id=number)) for number in range(5)]
        other, remarks = table(5 * (LIST_COST + ID_COST + len(changing[0])) + COST)
        other.take(block(1, b"".join(changing), 5))
        assert len(other.lists) == 2  # each may become an object

    def test_lists_are_equal_as_others_are(self) -> None:
        one, two = (table()[0] for _ in range(2))
        raw = pack_label_list(LabelList(level=1))
        one.take(block(1, raw, 1))
        assert one.lists != two.lists
        two.take(block(9, raw, 1))
        assert one.lists == two.lists == [LabelList(), LabelList(level=1)]
        assert one.lists != "no list"

    def test_what_is_no_list_is_not_written(self) -> None:
        with Writer(io.BytesIO(), version=6) as writer:
            good = pack_label_list(LabelList(span_id=5))
            for bad in (good[:-1], good + good, b"\x0b", good + b"\0"):
                assert not are_lists([good, bad])
                with pytest.raises(UsageError, match="no label lists"):
                    writer.add_label_lists([good, bad])
            assert writer.add_label_lists([good, b"", good]) == [1, 0, 1]
            assert writer.add_labels(LabelList(span_id=5)) == 1

    def test_activities_as_lists(self) -> None:
        guids = GuidTable()
        one, two = (guids.intern(UUID(int=number).bytes_le) for number in (5, 6))
        found = activity_lists(guids, np.array([[0, 0], [one, 0], [0, two], [one, two]], np.uint32))
        assert found[0] == b""
        assert [parse_label_list(Cursor(raw)) for raw in found[1:]] == [
            LabelList(activity=UUID(int=5)),
            LabelList(related=UUID(int=6)),
            LabelList(activity=UUID(int=5), related=UUID(int=6)),
        ]
        assert activity_lists(guids, np.zeros((0, 2), np.uint32)) == []


def _taken(raw: bytes, count: int) -> tuple[list[LabelList], str]:
    made, _ = table()
    try:
        made.take(block(1, raw, count))
    except FormatError as error:
        return list(made.lists)[1:], str(error)
    return list(made.lists)[1:], ""


def _one_by_one(raw: bytes, count: int) -> tuple[list[LabelList], str]:
    """As the format says it."""
    if count > len(raw):
        return [], str(block(1, raw, count).fail("")) and _taken(raw, count)[1]
    cursor, found = Cursor(b"\0" * 8 + raw, position=8), dict[bytes, LabelList]()
    try:
        for _ in range(count):
            begin = cursor.position
            one = parse_label_list(cursor)
            found.setdefault(raw[begin - 8 : cursor.position - 8], one)
    except FormatError as error:
        return [*found.values()], str(error)
    return [*found.values()], ""


def test_a_pass_without_activities_has_the_same_events() -> None:
    file = io.BytesIO()
    with Writer(file, version=6) as writer:
        writer.add_metadata(Metadata(metadata_id=1, provider="P", event_id=1, name="E"))
        writer.add_thread(ThreadInfo(index=1))
        for at in range(100):
            labels = writer.add_labels(LabelList(level=2, span_id=at)) if at % 10 == 0 else 0
            writer.write_event(1, at, b"", thread=1, activity=UUID(int=1 + at % 30), labels=labels)
    scan = Scan(file.getvalue())
    with_, without = ([*scan.iter_batches(activities=activities)] for activities in (True, False))
    assert [guid.int for batch in with_ for guid in (batch.guids[row] for row in batch.headers.activity.tolist())] == [
        1 + at % 30 for at in range(100)
    ]
    assert not any(batch.headers.activity.any() for batch in without)
    levels = [
        [batch.labels[row].level for batch in batches for row in batch.headers.label_list.tolist()]
        for batches in (with_, without)
    ]
    assert levels[0] == levels[1] == [2 if at % 10 == 0 else None for at in range(100)]
    for activities in (True, False):  # numbers of lists are the same in each pass
        *_, last = scan.iter_batches(activities=activities)
        assert last.labels == with_[-1].labels
    whole, reader = read(file.getvalue()), Reader()
    streamed = [*reader.feed(file.getvalue()), *reader.close()]
    assert [batch.guids[row] for batch in streamed for row in batch.headers.activity.tolist()] == [
        whole.guids[row] for row in whole.headers.activity.tolist()
    ]
