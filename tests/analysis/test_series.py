"""What is kept of series, of processes that come and go."""

from __future__ import annotations

from dotnetdiag.analysis.series import (
    INSTRUMENTS_EACH,
    REFUSED,
    TEXTS_LIMIT,
    TEXTS_SHARE,
    CounterKind,
    Instrument,
    InstrumentKey,
    SeriesKey,
    SeriesRegistry,
)


def key(pid: int, tags: str, name: str = "orders") -> SeriesKey:
    return SeriesKey(InstrumentKey(pid, "SHARED", "M", "", name, 0), CounterKind.COUNTER, "", tags)


def test_one_process_takes_no_series_from_another() -> None:
    registry = SeriesRegistry(per_process=10)
    numbers = [registry.number(key(1, f"a={number}")) for number in range(20)]
    assert numbers[:10] == list(range(10))
    assert set(numbers[10:]) == {REFUSED}
    assert registry.number(key(2, "a=1")) == 10
    registry.forget(1)
    assert registry.number(key(1, "a=x")) == 11


def test_tags_of_processes_that_have_ended_are_not_kept() -> None:
    registry = SeriesRegistry()
    stays = registry.number(key(0, "host=here,item=a,b"))
    assert dict(registry.series(stays).tags) == {"host": "here", "item": "a,b"}
    for pid in range(1, 30):
        for number in range(20):
            registry.series(registry.number(key(pid, f"host=h{pid},item={number}")))
            registry.series(registry.number(key(pid, f"x={pid}", name=f"own{pid}")))
        registry.forget(pid)
    assert {text for one in registry._texts.values() for text in one._texts} == {"host=here,item=a,b"}
    assert dict(registry.series(stays).tags) == {"host": "here", "item": "a,b"}


def test_one_process_takes_no_room_for_instruments_and_texts_from_the_others() -> None:
    registry = SeriesRegistry(per_process=10)
    for number in range(INSTRUMENTS_EACH + 1):
        registry.announce(Instrument(key=InstrumentKey(1, "s", "M", "", f"i{number}", number)))
    assert (len(registry.instruments), registry.undescribed) == (INSTRUMENTS_EACH, 1)
    registry.forget(1)
    for number in range(TEXTS_SHARE + 1):
        text = "x" * (TEXTS_LIMIT // TEXTS_SHARE // 4)
        registry.announce(Instrument(key=InstrumentKey(1, "s", "M", "", f"i{number}", number), description=text))
    assert 0 < len(registry.instruments) < 5
    other = Instrument(key=InstrumentKey(2, "s", "M", "", "i", 1), description="mine")
    registry.announce(other)
    assert registry.instruments[other.key] is other
