from __future__ import annotations

import asyncio
from array import array
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import numpy as np
import pytest
from tests.server.recorded import recording

import dotnetdiag
from dotnetdiag.errors import UsageError
from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.nettrace import TypeCode
from dotnetdiag.server.activities import activity, current_activity
from dotnetdiag.server.event_source import OPCODE_START, EventSource
from dotnetdiag.server.method_rundown import MethodRundown
from dotnetdiag.server.registry import Registry


@dataclass
class Point:
    x: Annotated[int, TypeCode.INT16]
    y: float


@dataclass
class Shape:
    name: str
    points: list[Point]
    at: Point


VALUES: dict[str, tuple[object, Any, Any]] = {
    "flag": (bool, True, True),
    "number": (int, -(1 << 63), -(1 << 63)),
    "small": (TypeCode.SBYTE, -5, -5),
    "word": (TypeCode.UINT16, 65_535, 65_535),
    "large": (TypeCode.UINT64, (1 << 64) - 1, (1 << 64) - 1),
    "ratio": (float, 0.1, 0.1),
    "single": (TypeCode.SINGLE, 0.5, 0.5),
    "text": (str, "naïve \U0001f600", "naïve \U0001f600"),
    "cut": (str, "a\0b", "a\ufffdb"),
    "empty": (str, "", ""),
    "raw": (bytes, b"\0\xff", b"\0\xff"),
    "key": (UUID, UUID(int=7), UUID(int=7)),
    "when": (datetime, datetime(2024, 2, 29, 12, tzinfo=UTC), "2024-02-29T12:00:00.0000000Z"),
    "naive": (datetime, datetime(2024, 2, 29, 12, 0, 0, 5), "2024-02-29T12:00:00.0000050Z"),
    "elsewhere": (
        datetime,
        datetime(2024, 2, 29, 12, tzinfo=timezone(timedelta(hours=2))),
        "2024-02-29T10:00:00.0000000Z",
    ),
    "numbers": (list[int], [1, -2], [1, -2]),
    "texts": (list[str], ["a", "b"], ["a", "b"]),
    "pairs": (tuple[float, ...], (0.5, 1.5), [0.5, 1.5]),
    "point": (Point, Point(1, 2.0), {"x": 1, "y": 2.0}),
    "shape": (
        Shape,
        Shape("s", [Point(1, 0.5), Point(2, 1.5)], Point(3, 2.5)),
        {"name": "s", "points": [{"x": 1, "y": 0.5}, {"x": 2, "y": 1.5}], "at": {"x": 3, "y": 2.5}},
    ),
}


@pytest.fixture
def registry() -> Registry:
    return Registry()


def payload(path: Path, name: str) -> dict[str, Any]:
    (found,) = [one for one in dotnetdiag.open(path).events() if one.name == name]
    return found.payload


def same(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


@pytest.mark.parametrize("version", [4, 6])
def test_every_type_comes_out_as_it_went_in(version: int, registry: Registry, tmp_path: Path) -> None:
    source = EventSource("My-Source", registry=registry, strict=True)
    path = tmp_path / "x.nettrace"
    together = source.event("Together", fields={name: kind for name, (kind, _, _) in VALUES.items()})
    alone = {name: source.event(f"Only{name}", fields={name: kind}) for name, (kind, _, _) in VALUES.items()}
    with recording(path, registry, "My-Source", nettrace_version=version):
        together(*(value for _, value, _ in VALUES.values()))
        for name, event in alone.items():
            event(VALUES[name][1])
    found = payload(path, "Together")
    assert {name: same(value) for name, value in found.items()} == {name: said for name, (_, _, said) in VALUES.items()}
    for name, (_, _, said) in VALUES.items():
        assert same(payload(path, f"Only{name}")[name]) == said


@pytest.mark.parametrize("count", range(6))
@pytest.mark.parametrize("kinds", [(int,), (str,), (int, str), (str, int, int)])
def test_any_number_of_fields(count: int, kinds: tuple[type, ...], registry: Registry, tmp_path: Path) -> None:
    chosen = [kinds[at % len(kinds)] for at in range(count)]
    values = [at if kind is int else f"text {at}" for at, kind in enumerate(chosen)]
    event = EventSource("My-Source", registry=registry, strict=True).event(
        "Some", fields={f"f{at}": kind for at, kind in enumerate(chosen)}
    )
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        event(*values)
    assert payload(path, "Some") == {f"f{at}": value for at, value in enumerate(values)}


def test_fields_of_a_dataclass_and_values_by_name(registry: Registry, tmp_path: Path) -> None:
    event = EventSource("My-Source", registry=registry, strict=True).event("Point", fields=Point)
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        event(1, y=2.5)
    assert payload(path, "Point") == {"x": 1, "y": 2.5}


def test_what_is_declared_is_in_the_stream(registry: Registry, tmp_path: Path) -> None:
    source = EventSource("My-Source", registry=registry)
    event = source.event("Begin", id=70, level=2, keywords=0x1_0000_0001, opcode=5, version=3)
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        event()
    (found,) = [one for one in dotnetdiag.open(path).events() if one.provider == "My-Source"]
    schema = found.schema
    assert (schema.event_id, schema.level, schema.keywords, schema.opcode, schema.version) == (
        70,
        2,
        0x1_0000_0001,
        5,
        3,
    )


def test_values_that_do_not_fit_are_counted_as_lost_and_never_raise(registry: Registry, tmp_path: Path) -> None:
    event = EventSource("My-Source", registry=registry).event("Two", fields={"n": int, "text": str})
    path = tmp_path / "x.nettrace"
    event("wrong", but="nobody listens")
    with recording(path, registry, "My-Source"):
        event(1, "fits")
        event("no number", "text")
        event(1 << 64, "text")
        event(1, None)
        event(1)
        event(1, "text", "more")
        event(1, other="text")
        event(2, "fits")
    trace = dotnetdiag.open(path)
    assert trace.lost.total == 6
    assert [one.n for one in trace.events() if one.name == "Two"] == [1, 2]


def test_values_that_do_not_fit_are_lost_to_the_sessions_that_wanted_the_event_alone(
    registry: Registry, tmp_path: Path
) -> None:
    source = EventSource("My-Source", registry=registry)
    wanted, other = source.event("Wanted", fields={"n": int}), source.event("Other", fields={"n": int}, keywords=2)
    asked = {
        "all": Provider(name="My-Source"),
        "one": Provider(name="My-Source", event_filter=EventFilter(enable=True, ids=(wanted.id,))),
        "less": Provider(name="My-Source", level=2),
        "elsewhere": Provider(name="My-Source", keywords=4),
    }
    with ExitStack() as stack:
        for name, provider in asked.items():
            stack.enter_context(recording(tmp_path / name, registry, provider))
        wanted("no number")
        other("no number")
    lost = {name: dotnetdiag.open(tmp_path / name).lost.total for name in asked}
    assert lost == {"all": 2, "one": 1, "less": 0, "elsewhere": 1}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (bytearray(b"abc"), b"abc"),
        (memoryview(b"abcdef")[::2], b"ace"),
        (array("i", [1, -1]), array("i", [1, -1]).tobytes()),
        (memoryview(array("i", [1, -1])), array("i", [1, -1]).tobytes()),
        (np.array([[1, 2], [3, 4]]), np.array([1, 2, 3, 4]).tobytes()),
        ([1, 2, 255], b"\1\2\xff"),
    ],
)
def test_bytes_of_any_array_are_those_in_memory(
    value: object, expected: bytes, registry: Registry, tmp_path: Path
) -> None:
    event = EventSource("X", strict=True, registry=registry).event("E", fields={"raw": bytes, "text": str})
    with recording(tmp_path / "x.nettrace", registry, "X"):
        event(value, "behind")
    found = payload(tmp_path / "x.nettrace", "E")
    assert (bytes(found["raw"]), found["text"]) == (expected, "behind")


@pytest.mark.parametrize(
    ("values", "named", "problem"),
    [
        ((), {}, "0 of 3 values are given"),
        ((1, "Ada", [], 4), {}, "4 of 3 values are given"),
        (("one", "Ada", []), {}, "id is of type str (required argument is not an integer)"),
        ((1, 7, []), {}, "customer is of type int (descriptor '__str__' requires a 'str' object but received a 'int')"),
        ((1, "Ada"), {"sizes": ["x"]}, "sizes is of type list (required argument is not a float)"),
        ((1,), {"sizes": []}, "values are lacking or too many: customer"),
    ],
)
def test_what_does_not_fit_is_named_with_what_the_event_takes(
    values: tuple[Any, ...], named: dict[str, Any], problem: str, registry: Registry
) -> None:
    fields: dict[str, object] = {"id": int, "customer": str, "sizes": list[float]}
    event = EventSource("S", registry=registry, strict=True).event("OrderPlaced", fields=fields)
    with pytest.raises(UsageError) as caught:
        event(*values, **named)
    assert str(caught.value) == f"OrderPlaced takes id (INT64), customer (STRING), sizes (ARRAY of DOUBLE): {problem}"


class _Raising:
    """Whatever is done with it raises."""

    def __init__(self, error: type[BaseException] = LookupError) -> None:
        self._error = error

    def __index__(self) -> int:
        raise self._error("no connection")

    def __float__(self) -> float:
        raise self._error("no connection")

    def __len__(self) -> int:
        raise self._error("no connection")

    @property
    def x(self) -> int:
        raise self._error("no connection")

    bytes_le = tzinfo = x


class _Unfinished(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta | None:
        raise NotImplementedError

    dst = utcoffset

    def tzname(self, _: datetime | None) -> str | None:
        raise NotImplementedError


class _Mute(Exception):
    def __str__(self) -> str:
        raise LookupError


class _Longer(list[str]):
    """It has more than it says."""

    def __len__(self) -> int:
        return 1


class _Text(str):
    def __contains__(self, part: object) -> bool:
        return False

    def encode(self, *_: object) -> Any:
        return [1, 2, 3]


class _Key:
    def __init__(self, raw: object) -> None:
        self.bytes_le = raw


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *((kind, _Raising()) for kind in (int, float, bool, str, bytes, UUID, datetime, list[int], list[str], Point)),
        (datetime, datetime(2024, 1, 1, tzinfo=_Unfinished())),
        (int, _Raising(_Mute)),
        (bytes, 5),
        (bytes, np.int64(5)),
        (UUID, _Key("sixteen letters.")),
        (UUID, _Key(b"short")),
    ],
)
def test_what_the_code_of_values_raises_is_counted_as_lost(
    kind: Any, value: object, registry: Registry, tmp_path: Path
) -> None:
    path = tmp_path / "x.nettrace"
    event = EventSource("X", registry=registry).event("E", fields={"field": kind})
    strict = EventSource("S", registry=registry, strict=True).event("E", fields={"field": kind})
    with recording(path, registry, "X"):
        event(value)
        with pytest.raises(UsageError, match="E takes field"):
            strict(value)
    assert dotnetdiag.open(path).lost.total == 1
    assert "X" not in dotnetdiag.open(path).counts()


def test_what_ends_the_program_goes_through_an_event(registry: Registry, tmp_path: Path) -> None:
    event = EventSource("X", registry=registry).event("E", fields={"field": int})
    with recording(tmp_path / "x.nettrace", registry, "X"), pytest.raises(KeyboardInterrupt):
        event(_Raising(KeyboardInterrupt))


def test_values_that_are_not_what_they_say_leave_the_fields_behind_them_alone(
    registry: Registry, tmp_path: Path
) -> None:
    event = EventSource("X", strict=True, registry=registry).event("E", fields={"a": list[str], "b": str, "c": int})
    with recording(tmp_path / "x.nettrace", registry, "X"):
        event(_Longer(["x", "y"]), _Text("cut\0off"), 7)
    assert payload(tmp_path / "x.nettrace", "E") == {"a": ["x", "y"], "b": "cut\ufffdoff", "c": 7}


def test_a_strict_source_says_what_does_not_fit_though_nobody_listens(registry: Registry) -> None:
    event = EventSource("My-Source", registry=registry, strict=True).event("Two", fields={"n": int, "text": str})
    for values in (("no number", "text"), (1,), (1, "a", "b")):
        with pytest.raises(UsageError, match=r"Two takes n \(INT64\), text \(STRING\): "):
            event(*values)
    event(1, "fits")


def test_it_is_enabled_while_a_session_wants_it(registry: Registry, tmp_path: Path) -> None:
    source = EventSource("My-Source", registry=registry)
    event = source.event("One", level=5, keywords=2)
    assert not event.is_enabled
    assert not source.is_enabled()
    with recording(tmp_path / "x.nettrace", registry, "My-Source"):
        assert event.is_enabled
        assert source.is_enabled(5, 2)
    assert not event.is_enabled
    assert not source.is_enabled()


def test_sources_and_events_made_later_join_sessions_that_run(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        source = EventSource("My-Source", registry=registry)
        source.event("Late")()
        source.close()
        source.event("After")()
    assert dotnetdiag.open(path).counts()["My-Source"] == {"Late": 1}


def test_a_source_that_is_closed_writes_nothing_more(registry: Registry, tmp_path: Path) -> None:
    source = EventSource("My-Source", registry=registry)
    event = source.event("One")
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        event()
        source.close()
        source.close()
        event()
    assert dotnetdiag.open(path).counts()["My-Source"] == {"One": 1}


@pytest.mark.parametrize("version", [4, 6])
def test_events_carry_the_activity_and_a_start_the_one_around_it(
    version: int, registry: Registry, tmp_path: Path
) -> None:
    source = EventSource("My-Source", registry=registry)
    start, plain = source.event("WorkStart", opcode=OPCODE_START), source.event("Plain")
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source", nettrace_version=version):
        plain()
        with activity(UUID(int=1)) as outer:
            plain()
            with activity() as inner:
                assert current_activity() == inner
                start()
                plain()
        assert current_activity() is None
    found = [(one.activity, one.related) for one in dotnetdiag.open(path).events() if one.provider == "My-Source"]
    assert found == [(None, None), (outer, None), (inner, outer), (inner, None)]


def test_activities_of_tasks_do_not_mix(registry: Registry, tmp_path: Path) -> None:
    event = EventSource("My-Source", registry=registry).event("Step", fields={"n": int})

    async def work(n: int) -> None:
        with activity(UUID(int=n)):
            for _ in range(3):
                event(n)
                await asyncio.sleep(0)

    async def main() -> None:
        await asyncio.gather(work(1), work(2))

    path = tmp_path / "x.nettrace"
    with recording(path, registry, "My-Source"):
        asyncio.run(main())
    found = [(one.n, one.activity) for one in dotnetdiag.open(path).events() if one.name == "Step"]
    assert len(found) == 6
    assert all(one == UUID(int=n) for n, one in found)


def test_a_source_with_stacks_gives_each_event_that_of_its_caller(registry: Registry, tmp_path: Path) -> None:
    registry.add(MethodRundown())
    event = EventSource("My-Source", registry=registry, stacks=True).event("One")
    with_them, without = tmp_path / "with.nettrace", tmp_path / "without.nettrace"
    for path, stackwalk in ((with_them, True), (without, False)):
        with recording(path, registry, "My-Source", rundown_keyword=0x80020139, stackwalk=stackwalk):
            event()
    trace = dotnetdiag.open(with_them)
    (found,) = [one for one in trace.events() if one.name == "One"]
    leaf = trace.frames(found.stack)[0]
    assert leaf.startswith("test_event_source.py!")
    assert f".{test_a_source_with_stacks_gives_each_event_that_of_its_caller.__name__}(test_event_source.py:" in leaf
    (found,) = [one for one in dotnetdiag.open(without).events() if one.name == "One"]
    assert not found.stack


@pytest.mark.parametrize("name", ["", "*", "a\0b", 5, "Microsoft-Windows-DotNETRuntimeRundown"])
def test_a_name_that_no_session_can_ask_for_is_refused(name: Any, registry: Registry) -> None:
    with pytest.raises(UsageError):
        EventSource(name, registry=registry)


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "Taken"},
        {"name": ""},
        {"name": "X", "id": 1},
        {"name": "X", "id": 0},
        {"name": "X", "id": 1 << 16},
        {"name": "X", "level": 6},
        {"name": "X", "opcode": 256},
        {"name": "X", "keywords": 1 << 64},
        {"name": "X", "fields": {"a": complex}},
        {"name": "X", "fields": {"a": TypeCode.DECIMAL}},
        {"name": "X", "fields": {"": int}},
        {"name": "X", "fields": {"a": dict[str, int]}},
        {"name": "X", "fields": {"a": tuple[int, str]}},
        {"name": "X", "fields": {"a": list[list[int]]}},
        {"name": "X", "fields": {"a": list[bytes]}},
        {"name": "X", "fields": 5},
    ],
)
def test_what_readers_would_not_take_is_refused(wrong: dict[str, Any], registry: Registry) -> None:
    source = EventSource("My-Source", registry=registry)
    source.event("Taken", id=1)
    with pytest.raises(UsageError):
        source.event(**wrong)
    assert [event.name for event in source.events] == ["Taken"]


def test_sources_of_one_name_give_an_id_to_one_type_alone(registry: Registry) -> None:
    one, other = (EventSource("My-Source", registry=registry) for _ in range(2))
    first = one.event("Order", fields={"id": int})
    second = other.event("Customer", fields={"name": str})
    assert (first.id, second.id) == (1, 2)
    with pytest.raises(UsageError, match="stands for Order"):
        other.event("Third", id=1)
    one.close()
    again = EventSource("My-Source", registry=registry)
    assert again.event("Order", fields={"id": int}).id == 1
    assert again.event("Order2", fields={"id": int}).id == 3
    assert EventSource("Another", registry=registry).event("Order").id == 1
