"""Files of captured bytes: hex, the bytes themselves, captures; and what is none of these."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path

import dpkt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ipc.test_conversation import (
    ADVERTISE,
    BAD_ENCODING,
    COLLECT,
    INFO3,
    SESSION,
    STOP,
    STREAM,
)
from tests.recipes.captures import Said, in_parts, ip6_packets, ip_packets, pcap, pcapng

from dotnetdiag.errors import FormatError, InputError, MissingDependency, UsageError
from dotnetdiag.recipes.decoding import Heard, decode
from dotnetdiag.recipes.pcap_file import SEGMENT_BYTES, PcapFile
from dotnetdiag.router.conversations import utc_text

SAID: list[Said] = [
    (True, COLLECT[:30]),
    (True, COLLECT[30:]),
    (False, SESSION),
    (False, STREAM[:500]),
    (False, STREAM[500:]),
]
KINDS = ["request", "ok", "stream", "stream end"]


def decoded(tmp_path: Path, data: bytes, port: int | None = None) -> list[Heard]:
    path = tmp_path / "file"
    path.write_bytes(data)
    return list(decode(path, port=port))


def kinds(heard: list[Heard]) -> list[str]:
    return [one.message.kind for one in heard]


def test_hex_and_bytes_say_the_same(tmp_path: Path) -> None:
    raw = decoded(tmp_path, STOP + SESSION)
    assert kinds(raw) == ["request", "ok"]
    assert decoded(tmp_path, (STOP + SESSION).hex().encode()) == raw
    assert raw[1].to_dict() == {
        "connection": 1,
        "time": None,
        "sender": "runtime",
        "kind": "ok",
        "name": "StopTracing",
        "offset": 28,
        "size": 28,
        "fields": raw[1].to_dict()["fields"],
        "problems": [],
    }


def test_pieces_of_a_document_answer_each_other(tmp_path: Path) -> None:
    text = f"The request\n\n{STOP.hex()}\n\nand the reply\n\n{SESSION.hex()}\n"
    assert [(one.message.kind, one.message.name) for one in decoded(tmp_path, text.encode())] == [
        ("request", "StopTracing"),
        ("ok", "StopTracing"),
    ]


@pytest.mark.parametrize("link_type", [0, 1, 101, 113, 228, 276])
def test_a_capture_of_any_link_is_read(link_type: int, tmp_path: Path) -> None:
    heard = decoded(tmp_path, pcap(ip_packets(SAID), link_type=link_type))
    assert kinds(heard) == KINDS
    assert [one.time_s for one in heard] == [1_700_000_003, 1_700_000_004, 1_700_000_005, 1_700_000_007]
    assert heard[-1].message.size == len(STREAM)
    assert not any(one.message.problems for one in heard)


def test_a_capture_in_the_newer_format_is_read(tmp_path: Path) -> None:
    assert kinds(decoded(tmp_path, pcapng(ip_packets(SAID)))) == KINDS


def test_packets_in_another_order_and_repeated_ones_change_nothing(tmp_path: Path) -> None:
    packets = ip_packets(SAID)
    packets[2], packets[3] = packets[3], packets[2]
    packets[6:6] = [packets[5], packets[4]]
    assert kinds(decoded(tmp_path, pcap(packets))) == KINDS


def test_a_segment_that_was_sent_in_parts_is_put_together(tmp_path: Path) -> None:
    packets = ip_packets(SAID)
    whole = decoded(tmp_path, pcap(packets))
    assert len(in_parts(packets[2])) > 2
    for parts in (in_parts(packets[2]), in_parts(packets[2])[::-1]):
        heard = decoded(tmp_path, pcap([*packets[:2], *parts, *packets[3:]]))
        assert [one.message for one in heard] == [one.message for one in whole]


def test_a_packet_that_the_capture_has_lost_is_told(tmp_path: Path) -> None:
    packets = ip_packets(SAID)
    del packets[5]
    heard = decoded(tmp_path, pcap(packets))
    assert kinds(heard) == KINDS
    assert heard[2].message.problems == ("neither nettrace nor NetPerf: its beginning is missing",)
    assert heard[3].message.problems == ("500 bytes of it are missing in the capture",)
    assert heard[3].message.size == len(STREAM)


def test_a_part_of_a_request_that_the_capture_has_lost_is_no_fault_and_the_answer_has_its_name(tmp_path: Path) -> None:
    packets = ip_packets(SAID)
    del packets[3]  # 51 bytes of the request
    heard = decoded(tmp_path, pcap(packets))
    assert [(one.message.kind, one.message.name) for one in heard] == [
        ("ok", "CollectTracing2"),
        ("stream", "nettrace"),
        ("stream end", "nettrace"),
        ("request", "CollectTracing2"),
    ]
    assert heard[-1].message.problems == ("51 of its 81 bytes are not in the capture",)
    assert not any(one.message.problems for one in heard[:-1])
    assert all(one.time_s for one in heard)


def test_an_answer_that_was_captured_before_the_end_of_its_request_has_its_name(tmp_path: Path) -> None:
    packets = ip_packets(SAID)
    packets[3], packets[4] = packets[4], packets[3]
    heard = decoded(tmp_path, pcap(packets))
    assert kinds(heard) == ["ok", "request", "stream", "stream end"]
    assert {one.message.name for one in heard[:2]} == {"CollectTracing2"}
    assert not any(one.message.problems for one in heard)


@pytest.mark.parametrize("make", [ip_packets, ip6_packets])
def test_packets_of_which_only_the_beginning_was_captured(
    make: Callable[[list[Said]], list[bytes]], tmp_path: Path
) -> None:
    whole = make([(True, COLLECT), (False, SESSION + STREAM)])
    header = len(whole[0])
    heard = decoded(tmp_path, pcap([packet[: header + 29] for packet in whole], link_type=101))
    assert kinds(heard) == KINDS
    assert [one.message.problems for one in heard] == [
        ("52 of its 81 bytes are not in the capture",),
        (),
        ("neither nettrace nor NetPerf: its beginning is missing",),
        (f"{len(STREAM) - 1} bytes of it are missing in the capture",),
    ]
    assert heard[-1].message.size == len(STREAM)


def test_a_message_that_the_capture_ends_in_is_no_fault_and_one_that_its_sender_ends_in_is(tmp_path: Path) -> None:
    (said,) = decoded(tmp_path, pcap(ip_packets([(True, COLLECT[:40])], ends=False)))
    assert said.message.problems == ("41 of its 81 bytes are not in the capture",)
    (said,) = decoded(tmp_path, pcap(ip_packets([(True, COLLECT[:40])])))
    assert said.message.problems[0] == "size says 81 bytes, and 40 came"


def test_a_port_is_used_again_though_ends_of_both_sides_are_missing(tmp_path: Path) -> None:
    once = ip_packets([(True, INFO3), (False, BAD_ENCODING[:22]), (True, b"x"), (False, BAD_ENCODING[22:])])
    del once[4:6]
    heard = decoded(tmp_path, pcap(once + ip_packets([(True, STOP), (False, BAD_ENCODING)])))
    assert [(one.connection, one.message.kind, one.message.name) for one in heard] == [
        (1, "request", "ProcessInfo3"),
        (1, "error", "ProcessInfo3"),
        (1, "bytes", ""),
        (2, "request", "StopTracing"),
        (2, "error", "StopTracing"),
    ]


def test_connections_of_other_protocols_are_left_out_unless_their_port_is_named(tmp_path: Path) -> None:
    other = ip_packets([(True, b"GET / HTTP/1.1\r\n\r\n"), (False, b"HTTP/1.1 200 OK\r\n\r\n")], port=80, tool_port=1)
    data = pcap(other + ip_packets([(False, ADVERTISE), (True, INFO3), (False, BAD_ENCODING)]))
    heard = decoded(tmp_path, data)
    assert [(one.connection, one.message.kind) for one in heard] == [(1, "advertise"), (1, "request"), (1, "error")]
    assert {one.message.kind for one in decoded(tmp_path, data, port=80)} == {"bytes"}
    with pytest.raises(FormatError, match="nothing here is of the diagnostic protocol"):
        decoded(tmp_path, pcap(other))


def test_a_port_that_is_used_again_is_another_connection(tmp_path: Path) -> None:
    twice = ip_packets([(True, INFO3), (False, BAD_ENCODING)])
    heard = decoded(tmp_path, pcap(twice + twice))
    assert [one.connection for one in heard] == [1, 1, 2, 2]


def test_a_capture_that_breaks_off_gives_what_comes_before(tmp_path: Path) -> None:
    whole = pcap(ip_packets(SAID, ends=False))
    found = []
    (tmp_path / "file").write_bytes(whole[:-100])

    def read() -> None:
        for heard in decode(tmp_path / "file"):
            found.append(heard.message.kind)

    with pytest.raises(FormatError, match="the capture breaks off: 586 bytes are wanted, 486 are left"):
        read()
    assert found == KINDS


def test_what_a_tap_writes_is_what_is_read_back(tmp_path: Path) -> None:
    file = io.BytesIO()
    writer = PcapFile(file)
    stream = STREAM + bytes(3 * SEGMENT_BYTES + 7)
    for number in (1, 2):
        writer.write(number, False, ADVERTISE, 1_700_000_000.5)
        writer.write(number, True, COLLECT, 1_700_000_001.25)
        writer.write(number, False, SESSION + stream, 1_700_000_002.0)
        writer.write(number, False, b"", 1_700_000_003.0)
        writer.close(number, 1_700_000_004.0)
    heard = decoded(tmp_path, file.getvalue())
    assert [(one.connection, one.message.kind) for one in heard] == [
        (number, kind) for number in (1, 2) for kind in ("advertise", *KINDS)
    ]
    assert heard[0].time_s == 1_700_000_000.5
    assert heard[4].time_s == 1_700_000_003.0
    assert heard[4].message.size == len(stream)


@given(time_s=st.floats(0, 2**32 - 1) | st.floats(1.7e9, 1.8e9))
def test_the_times_of_a_tap_are_those_that_are_read_back(time_s: float) -> None:
    file = io.BytesIO()
    PcapFile(file).write(1, True, COLLECT, time_s)
    file.seek(0)
    assert {utc_text(float(one)) for one, _ in dpkt.pcap.Reader(file)} == {utc_text(time_s)}


def test_the_packets_of_a_tap_have_the_right_checksums() -> None:
    file = io.BytesIO()
    writer = PcapFile(file)
    writer.write(1, True, COLLECT, 1.0)
    writer.write(1, False, b"\xff" * 33, 1.0)
    writer.close(1, 1.0)
    file.seek(0)
    for _, data in dpkt.pcap.Reader(file):
        packet = dpkt.ip.IP(data)
        shown = packet.sum, packet.data.sum
        packet.sum = packet.data.sum = 0
        again = dpkt.ip.IP(bytes(packet))
        assert (again.sum, again.data.sum) == shown


# what is wrong --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"no hex here\n", b"\n\n"])
def test_where_there_is_nothing_that_is_said(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="nothing here is of the diagnostic protocol"):
        decoded(tmp_path, data)


def test_a_text_without_hex_is_told_which_hex_is_read(tmp_path: Path) -> None:
    with pytest.raises(
        FormatError, match=r"; a text may have hex as 444f54, .* xxd, hexdump -C, od -t x1 and Wireshark"
    ):
        decoded(tmp_path, b"0000000 4f44 4e54 5445 495f\n")
    with pytest.raises(FormatError, match=r"of the diagnostic protocol$"):
        decoded(tmp_path, b"")


def test_other_bytes_are_told_as_such(tmp_path: Path) -> None:
    assert kinds(decoded(tmp_path, bytes(1000))) == ["bytes", "bytes"]


def test_a_file_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        list(decode(tmp_path / "none"))
    with pytest.raises(InputError):
        list(decode(tmp_path))


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_port_is_a_number_of_16_bits(port: int, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        decoded(tmp_path, STOP, port=port)


def test_a_port_is_for_captures(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="this file is none"):
        decoded(tmp_path, STOP, port=9000)


@pytest.mark.parametrize(
    "data",
    [
        b"\xd4\xc3\xb2\xa1",
        b"\xd4\xc3\xb2\xa1" + bytes(20),
        pcap([])[:20] + b"\x93\0\0\0",
        b"\n\r\r\n" + b"\xff" * 40,
        b"\n\r\r\n\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0" + b"\xff" * 8 + b"\x1c\0\0\0",
    ],
)
def test_a_capture_that_is_broken_is_a_format_error(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(FormatError):
        decoded(tmp_path, data)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(whole=st.sampled_from([pcap(ip_packets(SAID)), pcapng(ip_packets(SAID))]), data=st.data())
def test_a_capture_with_a_lie_in_it_is_read_or_refused(whole: bytes, data: st.DataObject, tmp_path: Path) -> None:
    lie = bytearray(whole)
    for at in data.draw(st.lists(st.integers(0, len(whole) - 1), min_size=1, max_size=4)):
        lie[at] = data.draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
    try:
        decoded(tmp_path, bytes(lie))
    except FormatError:
        pass


def test_without_the_library_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [one for one in sys.modules if one == "dpkt" or one.startswith("dpkt.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "dpkt", None)
    with pytest.raises(MissingDependency) as caught:
        decoded(tmp_path, pcap(ip_packets(SAID)))
    assert str(caught.value) == "reading a capture needs dpkt: pip install 'dotnetdiag[pcap]'"
