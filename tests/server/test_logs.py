from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from tests.server.recorded import recording

import dotnetdiag
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.tracing import CollectTracing
from dotnetdiag.server.event_session import EventSession
from dotnetdiag.server.logs import (
    FORMATTED_KEYWORD,
    JSON_KEYWORD,
    MESSAGE_KEYWORD,
    PROVIDER,
    LoggingEvents,
    parse_filters,
)
from dotnetdiag.server.registry import Registry

logger = logging.getLogger("shop.orders")


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    made.add(LoggingEvents())
    logger.setLevel(1)
    return made


def payloads(path: Path, name: str) -> list[dict[str, Any]]:
    return [one.payload for one in dotnetdiag.open(path).events() if one.name == name]


def test_a_record_comes_in_all_forms(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        logger.warning("order %d of %s", 7, "Ada")
    trace_ids = {"ActivityTraceId": "", "ActivitySpanId": "", "ActivityTraceFlags": ""}
    head = {"Level": 3, "FactoryID": 1, "LoggerName": "shop.orders", "EventId": 0, "EventName": ""}
    (formatted,), (message,), (as_json,) = (
        payloads(path, name) for name in ("FormattedMessage", "Message", "MessageJson")
    )
    assert formatted == {**head, "FormattedMessage": "order 7 of Ada", **trace_ids}
    arguments = {"0": "7", "1": "Ada", "{OriginalFormat}": "order %d of %s"}
    assert {one["Key"]: one["Value"] for one in message["Arguments"]} == arguments
    assert not any(message["Exception"].values())
    assert json.loads(as_json["ArgumentsJson"]) == arguments
    assert as_json["ExceptionJson"] == "{}"
    assert as_json["FormattedMessage"] == "order 7 of Ada"


@pytest.mark.parametrize(
    ("keywords", "name"),
    [(MESSAGE_KEYWORD, "Message"), (FORMATTED_KEYWORD, "FormattedMessage"), (JSON_KEYWORD, "MessageJson")],
)
def test_keywords_choose_the_form(keywords: int, name: str, registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    assert set(recorded(registry, path, Provider(name=PROVIDER, keywords=keywords))) == {name}


def recorded(registry: Registry, path: Path, provider: Provider) -> dict[str, int]:
    """What there is of a record of each level, at Trace first."""
    session = EventSession(CollectTracing(buffer_mb=1, providers=(provider,)), registry=registry).start()
    for level in (5, 10, 20, 30, 40, 50):
        logger.log(level, "of level %s", level)
        logging.getLogger("shop").log(level, "of level %s", level)
    session.stop()
    assert session.join(60)
    parts = []
    while data := session.take(1 << 20):
        parts.append(data)
    path.write_bytes(b"".join(parts))
    return dotnetdiag.open(path).counts().get(PROVIDER, {})


def test_the_level_of_the_session_holds_without_filters(registry: Registry, tmp_path: Path) -> None:
    logging.getLogger("shop").setLevel(logging.CRITICAL + 10)
    for level, count in ((0, 6), (5, 6), (4, 4), (3, 3), (2, 2), (1, 1)):
        provider = Provider(name=PROVIDER, keywords=FORMATTED_KEYWORD, level=level)
        assert recorded(registry, tmp_path / "x.nettrace", provider) == {"FormattedMessage": count}
    logging.getLogger("shop").setLevel(logging.NOTSET)


def test_filters_choose_by_the_longest_name_that_fits(registry: Registry, tmp_path: Path) -> None:
    logging.getLogger("shop").setLevel(1)
    path = tmp_path / "x.nettrace"
    arguments = 'FilterSpecs="UseAppFilters;shop.orders:Error;shop*:Information;*:None"'
    recorded(registry, path, Provider(name=PROVIDER, keywords=FORMATTED_KEYWORD, arguments=arguments))
    found = [(one["LoggerName"], one["Level"]) for one in payloads(path, "FormattedMessage")]
    assert sorted(found) == [("shop", 2), ("shop", 3), ("shop", 4), ("shop", 5), ("shop.orders", 4), ("shop.orders", 5)]
    logging.getLogger("shop").setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("", (("", 2),)),
        ("UseAppFilters", (("", 2),)),
        ("*:Error", (("", 4),)),
        ("a.b:Debug;a:trace", (("a.b", 1), ("a", 0))),
        ("a;b:nonsense", (("a", 2),)),
        (" a.* : WARNING ;;", (("a", 3),)),
    ],
)
def test_filters(text: str, rules: tuple[tuple[str, int], ...]) -> None:
    assert parse_filters(text, 2) == rules


def test_an_exception_comes_with_its_traceback(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        try:
            raise LookupError("no such order")
        except LookupError:
            logger.exception("failed for %(name)s", {"name": "Ada"})
    (message,), (as_json,) = payloads(path, "Message"), payloads(path, "MessageJson")
    for error in (message["Exception"], json.loads(as_json["ExceptionJson"])):
        assert error["TypeName"] == "builtins.LookupError"
        assert error["Message"] == "no such order"
        assert "test_logs.py" in error["VerboseMessage"]
    assert json.loads(as_json["ArgumentsJson"])["name"] == "Ada"


def test_a_record_that_cannot_be_put_into_words_is_counted_as_lost(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    raised, logging.raiseExceptions = logging.raiseExceptions, False
    with recording(path, registry, PROVIDER):
        logger.warning("%d", "no number")
        logger.warning("fine")
    logging.raiseExceptions = raised
    assert [one["FormattedMessage"] for one in payloads(path, "FormattedMessage")] == ["fine"]
    assert dotnetdiag.open(path).lost.total == 1


def test_long_texts_are_cut_and_json_stays_json(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        try:
            raise ValueError("\U0001f600" * 50_000)
        except ValueError:
            logger.exception("\U0001f600%s" * 70, *["\U0001f600" * 5000] * 70)
    assert not dotnetdiag.open(path).lost.total
    (as_json,) = payloads(path, "MessageJson")
    json.loads(as_json["ArgumentsJson"])
    assert json.loads(as_json["ExceptionJson"])["TypeName"] == "builtins.ValueError"
    assert payloads(path, "Message")


def test_without_a_session_there_is_no_handler(registry: Registry, tmp_path: Path) -> None:
    handlers = list(logging.getLogger().handlers)
    with recording(tmp_path / "x.nettrace", registry, PROVIDER):
        assert len(logging.getLogger().handlers) == len(handlers) + 1
    assert logging.getLogger().handlers == handlers
