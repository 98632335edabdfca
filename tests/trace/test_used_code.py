"""Of very many methods those alone are kept that a stack goes through, and stacks have the same names."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from tests.nettrace.recordings import data_of, recordings

from dotnetdiag.nettrace import Field, FieldType, HeaderColumns, Metadata, TypeCode, Writer
from dotnetdiag.trace import source
from dotnetdiag.trace.symbol_events import METHOD_ROLES, RUNTIME, wanted_events
from dotnetdiag.trace.trace import Trace
from dotnetdiag.trace.used_code import UsedCode

MOST_STACKS = 2000


def names(trace: Trace) -> list[tuple[str, ...]]:
    """Of the stacks of a recording, at its end, and at the times of the events that have them."""
    raw = trace.raw
    stacks = [raw.frames(number) for number in range(min(len(raw.stacks), MOST_STACKS))]
    headers = HeaderColumns.concatenate(list(raw.source.windows()))
    rows = headers.stack.nonzero()[0][:MOST_STACKS]
    return stacks + raw.frames_of(headers[rows])


def methods(trace: Trace) -> int:
    """How many events tell of methods, of those that symbols are built from."""
    raw = trace.raw
    headers = raw.symbol_headers().headers
    wanted, _ = wanted_events(raw.metadata, 8)
    numbers = [number for number, (role, _) in wanted.items() if role in METHOD_ROLES]
    return int(sum((headers.metadata_id == number).sum() for number in numbers))


def used_code(trace: Trace) -> UsedCode | None:
    raw = trace.raw
    return UsedCode.of(raw.metadata, raw.meaning.info.pointer_size, raw.stacks, raw.buffer)


@pytest.mark.parametrize("name", recordings())
def test_stacks_have_the_same_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = data_of(name)
    whole, count = names(Trace(data)), methods(Trace(data))
    monkeypatch.setattr(source, "NOTED_ROWS", 5)
    made = Trace(data)
    assert names(made) == whole
    if used_code(made) is not None and count > 100:
        assert methods(Trace(data)) < count
    else:
        assert methods(Trace(data)) == count


@pytest.mark.parametrize(
    ("name", "all_are_kept"),
    [
        ("eventpipe-dotnetcore3.0-win-x64-objver4.nettrace.xz", True),
        ("eventpipe-dotnetcore2.1-linux-x64-objver3.netperf.xz", False),
        ("gcverbose-10.nettrace", False),
    ],
)
def test_methods_that_tell_of_each_other_are_all_kept(name: str, all_are_kept: bool) -> None:
    """Of an entry point's module tells another event of its method, and of one without a name another."""
    assert (used_code(Trace(data_of(name))) is None) == all_are_kept


def methods_of(*steps: tuple[Any, ...]) -> bytes:
    """(1 load or 2 unload, id, start, size, name), or (3, addresses): an event with a stack; each a ms behind the one before."""
    kinds = {name: FieldType(code=code) for name, code in (("Q", TypeCode.UINT64), ("I", TypeCode.UINT32))}
    numbers = {
        "MethodID": "Q", "ModuleID": "Q", "MethodStartAddress": "Q", "MethodSize": "I", "MethodToken": "I", "MethodFlags": "I",
    }  # fmt: skip
    texts = ("MethodNamespace", "MethodName", "MethodSignature")
    fields = (
        *(Field(name=name, type=kinds[kind]) for name, kind in numbers.items()),
        *(Field(name=name, type=FieldType(code=TypeCode.STRING)) for name in texts),
    )
    file = io.BytesIO()
    with Writer(file) as writer:
        for number, event_id in ((1, 143), (2, 144)):
            writer.add_metadata(
                Metadata(metadata_id=number, provider=RUNTIME, event_id=event_id, version=1, fields=fields)
            )
        writer.add_metadata(Metadata(metadata_id=3, provider="Mine", event_id=9, name="Here"))
        for at, (kind, *given) in enumerate(steps, 1):
            if kind == 3:
                stack = writer.add_stack(struct.pack(f"<{len(given)}Q", *given))
                writer.write_event(3, at * 1_000_000, b"", thread=1, stack=stack)
            else:
                method, start, size, name = given
                payload = struct.pack("<QQQIII", method, 1, start, size, 0x6000000 + method, 0)
                payload += "".join(f"{text}\0" for text in ("N", name, "void ()")).encode("utf-16-le")
                writer.write_event(kind, at * 1_000_000, payload + struct.pack("<H", 1), thread=1)
    return file.getvalue()


@pytest.mark.parametrize("size", [0, 0x20, 0x100])
def test_an_unload_that_says_another_size_ends_its_method_all_the_same(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [(1, 100 + at, 0x900000 + at * 0x100, 0x80, f"F{at}") for at in range(10)]
    data = methods_of(
        (1, 1, 0x10000, 0x100, "Old"), *others, (3, 0x10050), (2, 1, 0x10000, size, "Old"), (1, 2, 0x10000, 0x100, "New"), (3, 0x10050)
    )  # fmt: skip
    whole = names(Trace(data))
    monkeypatch.setattr(source, "NOTED_ROWS", 5)
    assert names(Trace(data)) == whole
    assert methods(Trace(data)) == 3
    assert ["Old" in str(one) for one in whole[-2:]] == [True, False]
