"""What is said on a connection, explained: known bytes, every cut, and bytes that are nothing."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ipc.golden import COOKIE, COOKIE_BYTES, P_BYTES, REQUESTS, SETS

from dotnetdiag.ipc.conversation import MOST_HELD, Conversation
from dotnetdiag.ipc.explanation import ExplainedMessage, Sender
from dotnetdiag.ipc.frames import HEADER_SIZE, MAGIC
from dotnetdiag.ipc.messages import Request

TOOL, RUNTIME = 0, 1
SENDERS = (Sender.TOOL, Sender.RUNTIME)
STREAM = b"Nettrace\x14\0\0\0!FastSerialization.1" + bytes(1000)


def message(text: str) -> bytes:
    return MAGIC + bytes.fromhex(text)


COLLECT = message("5100 02 03 0000 00010000 01000000 01 01000000" + P_BYTES)
SESSION = message("1c00 ff 00 0000 8877665544332211")
STOP = message("1c00 02 01 0000 8877665544332211")
BAD_ENCODING = message("1800 ff ff 0000 84131380")
INFO3 = message("1400 04 08 0000")
ENVIRONMENT = message("1400 04 02 0000")
VARIABLES = bytes.fromhex("02000000 04000000 41003d0031000000 0a000000 50004100540048003d002f00620069006e000000")
ADVERTISE = bytes.fromhex("414456525f563100" + COOKIE_BYTES + "3930000000000000 0000")


def heard(*said: tuple[int, bytes], cut: int = 1 << 20, known: bool = True) -> list[ExplainedMessage]:
    """The messages of a connection whose bytes come in pieces of ``cut``."""
    conversation = Conversation(senders=SENDERS if known else None)
    found = []
    for way, data in said:
        for at in range(0, len(data), cut):
            found += conversation.feed(way, data[at : at + cut])
    return found + conversation.end()


def values(one: ExplainedMessage) -> dict[str, Any]:
    return {field.name: field.value for field in one.fields}


# known bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_", "text"), REQUESTS, ids=lambda one: type(one).__name__)
def test_each_request_of_the_document_is_explained_by_its_fields(request_: Request[Any], text: str) -> None:
    data = message(text)
    (said,) = heard((TOOL, data))
    assert (said.kind, said.name, said.sender) == ("request", request_.COMMAND.name, Sender.TOOL)
    assert (said.offset, said.size, said.problems) == (0, len(data), ())
    # every byte behind the magic belongs to one field, in order
    place = len(MAGIC)
    for field in said.fields:
        assert field.offset == place, field
        place += field.size
    assert place == len(data)
    found = values(said)
    for spec in request_.FIELDS:
        if isinstance(getattr(request_, getattr(spec, "name", ""), None), str):
            assert found[spec.spec] == getattr(request_, spec.name)  # type: ignore[union-attr]


def test_fields_say_where_they_stand_and_what_their_numbers_mean() -> None:
    (said,) = heard((TOOL, COLLECT))
    shown = [(one.name, one.offset, one.size, one.type, one.value, one.meaning) for one in said.fields[1:]]
    assert shown == [
        ("command set", 16, 1, "u8", 2, "EventPipe"),
        ("command id", 17, 1, "u8", 3, "CollectTracing2"),
        ("reserved", 18, 2, "u16", 0, ""),
        ("circularBufferMB", 20, 4, "u32", 256, ""),
        ("format", 24, 4, "u32", 1, "NETTRACE"),
        ("requestRundown", 28, 1, "bool", True, ""),
        ("provider count", 29, 4, "u32", 1, ""),
        ("provider[0].keywords", 33, 8, "u64", 100, "0x64"),
        ("provider[0].level", 41, 4, "u32", 2, "ERROR"),
        ("provider[0].name", 45, 32, "string", "MyEventSource", ""),
        ("provider[0].arguments", 77, 4, "string", None, ""),
    ]


def test_event_ids_and_tracepoints_are_told_by_provider_and_set() -> None:
    text = next(text for request, text in REQUESTS if getattr(request, "providers", ()) == (SETS,))
    (said,) = heard((TOOL, message(text)))
    found = values(said)
    assert found["session type"] == 1
    assert found["provider[0].tracepoint[0].name"] == "s"
    assert found["provider[0].tracepoint[0].event ids"] == (5, 6)
    assert found["provider[0].tracepoint[1].event ids"] == (7,)


def test_an_error_has_the_name_of_its_code() -> None:
    (_, said) = heard((TOOL, STOP), (RUNTIME, BAD_ENCODING))
    assert (said.kind, said.name, said.sender) == ("error", "StopTracing", Sender.RUNTIME)
    (code,) = said.fields[4:]
    assert (code.name, code.value, code.meaning) == ("hr", 0x80131384, "BAD_ENCODING")


def test_an_error_of_a_dump_has_its_text() -> None:
    dump = message("2e00 01 03 0000 07000000 2f0074006d0070002f0064000000 04000000 00000000")
    (_, said) = heard((TOOL, dump), (RUNTIME, message("2000 ff ff 0000 05400080 02000000 41000000")))
    assert values(said)["message"] == "A"


def test_an_advertise_comes_before_what_is_asked() -> None:
    first, second, third = heard((RUNTIME, ADVERTISE), (TOOL, INFO3), (RUNTIME, BAD_ENCODING), known=False)
    assert (first.kind, first.sender, values(first)) == (
        "advertise",
        Sender.RUNTIME,
        {"runtimeCookie": str(COOKIE), "processId": 12345, "future": 0},
    )
    assert second.sender is Sender.TOOL
    assert third.offset == 34


def test_a_session_is_counted_from_where_its_stream_begins() -> None:
    asked, session, begins, ends = heard((TOOL, COLLECT), (RUNTIME, SESSION + STREAM))
    assert [one.kind for one in (asked, session, begins, ends)] == ["request", "ok", "stream", "stream end"]
    assert values(session)["sessionId"] == 0x1122334455667788
    assert (begins.name, begins.offset, begins.size) == ("nettrace", 28, 0)
    assert (ends.offset, ends.size, ends.problems) == (28, len(STREAM), ())


def test_a_session_without_events_has_a_stream_of_no_bytes() -> None:
    (*_, ends) = heard((TOOL, COLLECT), (RUNTIME, SESSION))
    assert (ends.kind, ends.size) == ("stream end", 0)


def test_nothing_follows_the_answer_to_a_stop() -> None:
    assert [one.kind for one in heard((TOOL, STOP), (RUNTIME, SESSION))] == ["request", "ok"]


def test_a_block_of_variables_follows_the_answer_that_announces_it() -> None:
    reply = message("1a00 ff 00 0000 28000000 0000")
    _, ok, block = heard((TOOL, ENVIRONMENT), (RUNTIME, reply + VARIABLES))
    assert values(ok)["nIncomingBytes"] == 40
    assert (block.kind, block.offset, block.problems) == ("environment", 26, ())
    assert values(block) == {"entry count": 2, "entry[0]": "A=1", "entry[1]": "PATH=/bin"}


def test_the_byte_that_carries_a_descriptor_is_told() -> None:
    text = next(text for _, text in REQUESTS if text.replace(" ", "").startswith("690002060000"))
    _, byte, ok = heard((TOOL, message(text)), (TOOL, b"\0"), (RUNTIME, SESSION))
    assert byte.kind == "byte"
    assert "descriptor" in byte.problems[0]
    assert ok.kind == "ok"


def test_the_protocol_before_v1_is_explained() -> None:
    asked = bytes.fromhex("02040000 39300000 01000000 00000000 01000000" + P_BYTES)
    request, reply, begins, ends = heard((TOOL, asked), (RUNTIME, (7).to_bytes(8, "little") + b"\x14\0\0\0!FastSer"))
    assert (request.kind, request.name, request.problems) == ("legacy request", "CollectEventPipeTracing", ())
    assert values(request)["provider[0].name"] == "MyEventSource"
    assert (reply.kind, values(reply)) == ("legacy reply", {"sessionId": 7})
    assert (begins.name, ends.size) == ("NetPerf", 12)


def test_an_answer_without_its_request_is_guessed_and_says_so() -> None:
    (said,) = heard((RUNTIME, message("1800 ff 00 0000 00000000")))
    assert said.problems == ("the request was not seen; taken for a ResultReply",)
    assert said.fields[-1].meaning == "S_OK"


def test_one_file_of_both_ways_is_read_in_its_order() -> None:
    conversation = Conversation(mixed=True)
    said = conversation.feed(0, STOP + SESSION + INFO3 + BAD_ENCODING + ADVERTISE + COLLECT + SESSION + STREAM)
    said += conversation.end()
    kinds = ["request", "ok", "request", "error", "advertise", "request", "ok", "stream", "stream end"]
    assert [one.kind for one in said] == kinds
    assert not any(one.problems for one in said)


def test_in_one_file_a_session_may_have_no_stream() -> None:
    conversation = Conversation(mixed=True)
    assert [one.kind for one in conversation.feed(0, COLLECT + SESSION + STOP)] == ["request", "ok", "request"]


def test_pieces_of_a_file_begin_anew_and_may_answer() -> None:
    conversation = Conversation(mixed=True)
    said = conversation.feed(0, STOP[:-3]) + conversation.cut() + conversation.feed(0, SESSION)
    assert [(one.kind, one.name, one.offset) for one in said] == [
        ("request", "StopTracing", 0),
        ("ok", "StopTracing", 0),
    ]
    assert said[0].problems[0] == "size says 28 bytes, and 25 came"


# what is wrong --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1400 02 99 0000", "no such command is known: a runtime answers UNKNOWN_COMMAND"),
        ("1300 04 00 0000", "size 19 is less than the header's 20: a runtime answers BAD_ENCODING"),
        ("1400 04 00 0100", "reserved is not 0; runtimes do not look at it"),
        ("1500 04 00 0000 00", "the command takes no payload; one corrupts the answer"),
        ("1d00 02 01 0000 8877665544332211 00", "1 bytes behind the last field; runtimes do not look at them"),
        ("1400 ff 07 0000", "neither OK nor Error"),
        ("1800 04 05 0000 09000000", "perf map type 9 is none of 1 All, 2 JitDump, 3 PerfMap"),
        ("1800 02 03 0000 00010000", "CollectTracing2 at 0x18: format needs 4 bytes, 0 left"),
        ("1900 04 07 0000 ffffffff 00", "needs 8589934590 bytes, 1 left"),
        ("2800 02 02 0000 00010000 01000000 ffffffff 0000000000000000", "provider count 4294967295 needs at least"),
    ],
)
def test_what_is_wrong_with_a_message_is_said(text: str, problem: str) -> None:
    said = heard((TOOL, message(text)))[0]
    assert any(problem in one for one in said.problems), said.problems


def test_a_field_that_is_cut_off_stands_behind_those_that_are_not() -> None:
    (said,) = heard((TOOL, COLLECT[:60]))
    assert said.problems[0] == "size says 81 bytes, and 60 came"
    assert [one.name for one in said.fields[-3:]] == ["requestRundown", "provider count", "provider[0].keywords"] or (
        said.fields[-1].name.startswith("provider")
    )


def test_another_magic_is_told_and_what_follows_is_counted() -> None:
    first, rest = heard((TOOL, b"DOTNET_IPC_V2\0" + bytes(1000)))
    assert first.problems == ("the magic is not DOTNET_IPC_V1; a runtime answers UNKNOWN_MAGIC",)
    assert (rest.offset, rest.size) == (20, 994)


def test_a_second_request_is_never_read() -> None:
    _, second = heard((TOOL, INFO3 + INFO3))
    assert second.problems == ("behind the request: a runtime never reads it, one connection carries one command",)


def test_an_environment_beyond_the_limit_is_counted() -> None:
    size = MOST_HELD + 1
    reply = message("1a00 ff 00 0000" + size.to_bytes(4, "little").hex() + "0000")
    (*_, block) = heard((TOOL, ENVIRONMENT), (RUNTIME, reply + bytes(size)))
    assert (block.kind, block.size) == ("bytes", size)
    assert "not taken apart" in block.problems[0]


def test_what_a_capture_has_lost_is_told() -> None:
    conversation = Conversation(senders=SENDERS)
    conversation.feed(TOOL, COLLECT)
    conversation.feed(RUNTIME, SESSION + STREAM)
    conversation.gap(RUNTIME, 500)
    conversation.feed(RUNTIME, bytes(7))
    (ends,) = conversation.end()
    assert ends.size == len(STREAM) + 507
    assert ends.problems == ("500 bytes of it are missing in the capture",)


def test_a_gap_in_a_message_is_no_fault_of_its_sender_and_what_follows_is_read() -> None:
    conversation = Conversation(senders=SENDERS)
    said = conversation.feed(TOOL, COLLECT[:40])
    said += conversation.gap(TOOL, 10)
    assert said == []
    request, second = conversation.feed(TOOL, COLLECT[50:] + INFO3)
    assert (request.size, request.problems) == (len(COLLECT), ("10 of its 81 bytes are not in the capture",))
    assert [one.name for one in request.fields[-2:]] == ["requestRundown", "provider count"]
    assert (second.name, second.offset) == ("ProcessInfo3", len(COLLECT))
    (ok,) = conversation.feed(RUNTIME, SESSION)
    assert (ok.name, ok.problems) == ("CollectTracing2", ())


def test_behind_a_gap_over_the_end_of_a_message_bytes_are_counted() -> None:
    conversation = Conversation(senders=SENDERS)
    conversation.feed(TOOL, COLLECT[:40])
    (cut_off,) = conversation.gap(TOOL, 51)
    assert (cut_off.size, cut_off.problems) == (81, ("41 of its 81 bytes are not in the capture",))
    said = conversation.feed(TOOL, bytes(31)) + conversation.end()
    assert said[0].problems == ("10 bytes are missing before these: where a message begins is not known",)
    assert said[0].offset == 91
    assert sum(one.size for one in said) == 31


def test_bytes_that_are_missing_behind_the_last_message_are_told() -> None:
    conversation = Conversation(senders=SENDERS)
    conversation.feed(TOOL, INFO3)
    assert conversation.gap(TOOL, 7) == []
    (lost,) = conversation.end()
    assert (lost.offset, lost.size, lost.problems) == (27, 0, ("7 bytes are missing at the end",))


@pytest.mark.parametrize("known", [True, False])
def test_an_answer_that_comes_before_the_rest_of_its_request_is_told_by_name(known: bool) -> None:
    conversation = Conversation(senders=SENDERS if known else None)
    said = conversation.feed(TOOL, COLLECT[:25])
    said += conversation.feed(RUNTIME, SESSION + STREAM)
    said += conversation.feed(TOOL, COLLECT[25:])
    assert [(one.kind, one.name) for one in said] == [
        ("ok", "CollectTracing2"),
        ("stream", "nettrace"),
        ("request", "CollectTracing2"),
    ]
    assert not any(one.problems for one in said)


def test_what_a_capture_ends_before_is_no_fault_of_its_sender() -> None:
    for size in range(HEADER_SIZE, len(COLLECT)):
        conversation = Conversation(senders=SENDERS)
        conversation.feed(TOOL, COLLECT[:size])
        assert conversation.gap(TOOL, None) == []
        (said,) = conversation.end()
        assert said.problems == (f"{len(COLLECT) - size} of its 81 bytes are not in the capture",)
        assert said.size == len(COLLECT)
    conversation = Conversation(senders=SENDERS)
    conversation.feed(TOOL, COLLECT[:19])
    conversation.gap(TOOL, None)
    assert conversation.end()[0].problems == ("19 bytes of a header of 20, and the rest is not in the capture",)


def test_what_a_sender_breaks_off_is_its_fault_and_nothing_that_runtimes_die_of() -> None:
    (said,) = heard((TOOL, COLLECT[:60]))
    assert said.problems == (
        "size says 81 bytes, and 60 came",
        "CollectTracing2 at 0x31: provider name needs 28 bytes, 11 left",
    )


def test_an_answer_of_which_the_capture_has_the_header_is_followed_by_what_was_asked_for() -> None:
    conversation = Conversation(senders=SENDERS)
    conversation.feed(TOOL, COLLECT)
    conversation.feed(RUNTIME, SESSION[:20])
    ok, begins = conversation.gap(RUNTIME, 8 + 500)
    assert (ok.problems, begins.kind) == (("8 of its 28 bytes are not in the capture",), "stream")
    conversation.feed(RUNTIME, STREAM[500:])
    (ends,) = conversation.end()
    assert (ends.offset, ends.size) == (28, len(STREAM))

    variables = Conversation(senders=SENDERS)
    variables.feed(TOOL, ENVIRONMENT)
    variables.feed(RUNTIME, message("1a00 ff 00 0000"))
    variables.gap(RUNTIME, 6)
    (first, rest) = variables.feed(RUNTIME, VARIABLES) + variables.end()
    assert first.problems == ("of the environment, whose size is not in the capture",)
    assert first.size + rest.size == len(VARIABLES)


def test_advertises_and_environments_may_lack_a_part_too() -> None:
    conversation = Conversation(senders=SENDERS)
    conversation.feed(RUNTIME, ADVERTISE[:20])
    (advertise,) = conversation.gap(RUNTIME, 14)
    assert advertise.problems == ("14 of its 34 bytes are not in the capture",)
    conversation.feed(TOOL, ENVIRONMENT)
    conversation.feed(RUNTIME, message("1a00 ff 00 0000 28000000 0000") + VARIABLES[:16])
    conversation.gap(RUNTIME, 4)
    (block,) = conversation.feed(RUNTIME, VARIABLES[20:])
    assert (block.size, block.problems) == (40, ("4 of its 40 bytes are not in the capture",))
    assert values(block)["entry[0]"] == "A=1"


# any bytes, in any cut ------------------------------------------------------------------------------------------------

WHOLE = [
    [(TOOL, COLLECT), (RUNTIME, SESSION + STREAM)],
    [(RUNTIME, ADVERTISE), (TOOL, ENVIRONMENT), (RUNTIME, message("1a00 ff 00 0000 28000000 0000") + VARIABLES)],
    [(TOOL, b"DOTNET_IPC_V2\0" + bytes(100))],
    [(TOOL, INFO3 + INFO3), (RUNTIME, b"garbage")],
]


@pytest.mark.parametrize("said", WHOLE)
@pytest.mark.parametrize("known", [True, False])
def test_bytes_in_any_cut_say_the_same(said: list[tuple[int, bytes]], known: bool) -> None:
    whole = heard(*said, known=known)
    for cut in (1, 2, 3, 7, 13, 19, 20, 21, 33, 34):
        assert heard(*said, cut=cut, known=known) == whole


@pytest.mark.parametrize("data", [COLLECT, SESSION, BAD_ENCODING, ADVERTISE, INFO3])
def test_a_message_that_is_cut_anywhere_is_told_as_such(data: bytes) -> None:
    for size in range(1, len(data)):
        (*_, said) = heard((TOOL, data[:size]))
        assert said.problems, size


@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.binary(max_size=60)
            | st.builds(
                lambda code, rest: message((20 + len(rest)).to_bytes(2, "little").hex()) + code + b"\0\0" + rest,
                st.sampled_from(
                    [bytes((int(r.COMMAND) >> 8, int(r.COMMAND) & 255)) for r, _ in REQUESTS] + [b"\xff\0", b"\xff\xff"]
                ),
                st.binary(max_size=80),
            )
            | st.sampled_from([COLLECT, SESSION, STOP, ADVERTISE, VARIABLES, STREAM, ENVIRONMENT, BAD_ENCODING])
            | st.integers(1, 60),
        ),
        max_size=8,
    ),
    st.booleans(),
    st.booleans(),
)
def test_no_bytes_raise_and_every_byte_is_accounted_for(
    said: list[tuple[int, bytes | int]], known: bool, mixed: bool
) -> None:
    conversation = Conversation(senders=SENDERS if known and not mixed else None, mixed=mixed)
    found: list[tuple[int, ExplainedMessage]] = []
    has_gap = False
    total = 0
    for way, data in said:
        number = 0 if mixed else way
        is_gap = isinstance(data, int)
        for one in conversation.gap(number, data) if isinstance(data, int) else conversation.feed(number, data):
            found.append((number, one))
        total += data if isinstance(data, int) else len(data)
        has_gap |= is_gap
    ends = conversation.end()
    assert conversation.end() == []
    counted = sum(one.size for _, one in found) + sum(one.size for one in ends)
    assert counted <= total if has_gap else counted == total


def test_a_stream_of_any_length_is_not_held() -> None:
    conversation = Conversation(senders=SENDERS)
    conversation.feed(TOOL, COLLECT)
    conversation.feed(RUNTIME, SESSION + STREAM)
    piece = bytes(1 << 20)
    tracemalloc.start()
    try:
        for _ in range(300):
            conversation.feed(RUNTIME, piece)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    (ends,) = conversation.end()
    assert ends.size == len(STREAM) + (300 << 20)
