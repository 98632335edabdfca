from __future__ import annotations

import io
import json
import logging
import logging.config
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.server.recorded import LIMIT_S, recording

import dotnetdiag
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.tracing import CollectTracing
from dotnetdiag.server.activities import activity
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


@contextmanager
def handlers(*wanted: logging.Handler) -> Iterator[None]:
    """Of the root logger; without any, as in a program that has configured nothing. Those of pytest are away meanwhile."""
    root = logging.getLogger()
    before, level, root.handlers = root.handlers, root.level, list(wanted)
    try:
        yield
    finally:
        root.handlers = before
        root.setLevel(level)


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


def test_a_record_carries_the_activity_in_each_form_as_events_that_start_nothing_do(
    registry: Registry, tmp_path: Path
) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        logger.warning("alone")
        with activity(), activity() as inner:
            logger.warning("at work")
    found = [(one.activity, one.related) for one in dotnetdiag.open(path).events() if one.provider == PROVIDER]
    assert found == [(None, None)] * 3 + [(inner, None)] * 3


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


def test_each_form_that_a_record_cannot_be_put_into_is_counted_as_lost(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    raised, logging.raiseExceptions = logging.raiseExceptions, False
    with recording(path, registry, PROVIDER):
        logger.warning("%d", "no number")
        logger.warning("fine")
    logging.raiseExceptions = raised
    assert [one["FormattedMessage"] for one in payloads(path, "FormattedMessage")] == ["fine"]
    assert [one["FormattedMessage"] for one in payloads(path, "MessageJson")] == ["fine"]
    assert len(payloads(path, "Message")) == 2
    assert dotnetdiag.open(path).lost.total == 2


def test_a_form_that_a_session_did_not_ask_for_is_no_loss(registry: Registry, tmp_path: Path) -> None:
    forms = {"formatted": FORMATTED_KEYWORD, "message": MESSAGE_KEYWORD}
    raised, logging.raiseExceptions = logging.raiseExceptions, False
    with ExitStack() as stack:
        for name, keywords in forms.items():
            stack.enter_context(recording(tmp_path / name, registry, Provider(name=PROVIDER, keywords=keywords)))
        logger.warning("%d", "no number")
    logging.raiseExceptions = raised
    assert {name: dotnetdiag.open(tmp_path / name).lost.total for name in forms} == {"formatted": 1, "message": 0}
    assert len(payloads(tmp_path / "message", "Message")) == 1


class _Mute(Exception):
    """It has no text."""

    def __str__(self) -> str:
        raise LookupError("not loaded")

    def __int__(self) -> int:
        return 1


def test_what_has_no_text_is_told_by_its_type(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER):
        try:
            raise _Mute
        except _Mute as mute:
            logger.exception("%d pieces", mute)
    (message,), (as_json,) = payloads(path, "Message"), payloads(path, "MessageJson")
    for error in (message["Exception"], json.loads(as_json["ExceptionJson"])):
        assert error["Message"] == "<unprintable _Mute object>"
        assert "test_logs.py" in error["VerboseMessage"]
    assert json.loads(as_json["ArgumentsJson"])["0"] == "<unprintable _Mute object>"
    assert dotnetdiag.open(path).lost.total == 0


def test_a_record_that_is_none_is_counted_as_lost_and_hurts_nobody(registry: Registry, tmp_path: Path) -> None:
    path = tmp_path / "x.nettrace"
    with recording(path, registry, PROVIDER), handlers(logging.NullHandler()):
        logger.handle(logging.makeLogRecord({"levelno": 30, "name": 7}))
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


def test_a_session_has_no_handler_and_leaves_logging_as_it_was(registry: Registry, tmp_path: Path) -> None:
    before, call = list(logging.getLogger().handlers), logging.Logger.callHandlers
    for _ in range(2):
        with recording(tmp_path / "x.nettrace", registry, PROVIDER):
            assert logging.getLogger().handlers == before
            assert logging.Logger.callHandlers is not call
        assert logging.Logger.callHandlers is call


def test_without_handlers_the_last_resort_has_the_warnings(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = io.StringIO()
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(written))
    with recording(tmp_path / "x.nettrace", registry, PROVIDER), handlers():
        logger.warning("heard")
    assert written.getvalue() == "heard\n"
    assert [one["FormattedMessage"] for one in payloads(tmp_path / "x.nettrace", "FormattedMessage")] == ["heard"]


def test_logging_can_be_configured_while_a_session_listens_and_is_heard_after_it(
    registry: Registry, tmp_path: Path
) -> None:
    written = io.StringIO()
    with recording(tmp_path / "x.nettrace", registry, PROVIDER), handlers():
        logger.warning("before")
        logging.basicConfig(stream=written, format="first %(message)s")
        logger.warning("configured")
        logging.basicConfig(stream=written, format="second %(message)s", force=True)
        logger.warning("forced")
        logging.config.dictConfig(
            {"version": 1, "disable_existing_loggers": False, "root": {"level": "INFO", "handlers": []}}
        )
        logger.warning("as a dictionary says")
    assert written.getvalue() == "first configured\nsecond forced\n"
    texts = [one["FormattedMessage"] for one in payloads(tmp_path / "x.nettrace", "FormattedMessage")]
    assert texts == ["before", "configured", "forced", "as a dictionary says"]


def test_levels_filters_and_what_does_not_propagate_are_the_programs(registry: Registry, tmp_path: Path) -> None:
    private = logging.getLogger("shop.private.books")
    parent = logging.getLogger("shop.private")

    def refuse(record: logging.LogRecord) -> bool:
        return "refused" not in record.msg

    with recording(tmp_path / "x.nettrace", registry, PROVIDER):
        logger.addFilter(refuse)
        logger.warning("refused by a filter")
        logger.removeFilter(refuse)
        logger.setLevel(logging.ERROR)
        logger.warning("below the level")
        logger.setLevel(1)
        parent.propagate = False
        private.warning("not for the root")
        parent.propagate = True
        private.warning("for the root")
        private.disabled = True
        private.warning("disabled")
        private.disabled = False
    texts = [one["FormattedMessage"] for one in payloads(tmp_path / "x.nettrace", "FormattedMessage")]
    assert texts == ["for the root"]


def test_a_record_is_heard_though_a_handler_raises(registry: Registry, tmp_path: Path) -> None:
    class Broken(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise ConnectionError(record.msg)

    handler = Broken()
    logger.addHandler(handler)
    with recording(tmp_path / "x.nettrace", registry, PROVIDER), pytest.raises(ConnectionError):
        logger.warning("heard")
    logger.removeHandler(handler)
    assert len(payloads(tmp_path / "x.nettrace", "Message")) == 1


def test_somebody_else_who_hooks_loggers_is_left_alone(registry: Registry, tmp_path: Path) -> None:
    original = logging.Logger.callHandlers
    seen: list[str] = []
    for name in ("first", "second"):
        path = tmp_path / f"{name}.nettrace"
        with recording(path, registry, PROVIDER):
            ours = logging.Logger.callHandlers

            def theirs(self: logging.Logger, record: logging.LogRecord, ours: Any = ours) -> None:
                seen.append(record.msg)
                ours(self, record)

            logging.Logger.callHandlers = theirs  # type: ignore[method-assign]
            logger.warning(name)
        assert logging.Logger.callHandlers is theirs
        assert len(payloads(path, "FormattedMessage")) == 1
    logging.Logger.callHandlers = original  # type: ignore[method-assign]
    assert seen == ["first", "second", "second"]


def test_values_that_log_themselves_as_they_become_text_are_heard_once(registry: Registry, tmp_path: Path) -> None:
    class Chatty:
        def __str__(self) -> str:
            logger.warning("%s again", self)
            return "chatty"

    with recording(tmp_path / "x.nettrace", registry, PROVIDER), handlers(logging.NullHandler()):
        logger.warning("%s", Chatty())
    assert [one["FormattedMessage"] for one in payloads(tmp_path / "x.nettrace", "FormattedMessage")] == ["chatty"]


def test_threads_that_log_under_a_lock_of_the_program_do_not_wait_for_each_other(
    registry: Registry, tmp_path: Path
) -> None:
    asked, logged = threading.Event(), threading.Event()

    class Waiting:
        def __str__(self) -> str:
            asked.set()
            assert logged.wait(LIMIT_S)
            return "waited"

    def log_meanwhile() -> None:
        assert asked.wait(LIMIT_S)
        logger.info("meanwhile %s", 7)
        logged.set()

    thread = threading.Thread(target=log_meanwhile, daemon=True)
    with recording(tmp_path / "x.nettrace", registry, PROVIDER), handlers(logging.NullHandler()):
        thread.start()
        logger.info("%s", Waiting())
        thread.join(LIMIT_S)
    texts = [one["FormattedMessage"] for one in payloads(tmp_path / "x.nettrace", "FormattedMessage")]
    assert texts == ["meanwhile 7", "waited"]
