"""Messages and their bytes, computed by hand from ipc-protocol.md (those of its §19 verbatim)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from dotnetdiag.ipc import dump, environment, process, process_info, profiler, tracing
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints, TracepointSet
from dotnetdiag.ipc.frames import MAGIC
from dotnetdiag.ipc.messages import ErrorReply, OkReply, Request
from dotnetdiag.ipc.replies import ResultReply, SessionReply

P = Provider(name="MyEventSource", keywords=100, level=2)
P_BYTES = "6400000000000000 02000000 0e000000 4d0079004500760065006e00740053006f0075007200630065000000 00000000"
FILTERED = Provider(name="MyEventSource", keywords=100, level=2, event_filter=EventFilter(enable=True, ids=(1, 2)))
ALL_BUT_7 = Provider(name="MyEventSource", keywords=100, level=2, event_filter=EventFilter(enable=False, ids=(7,)))
NOTHING = Provider(name="MyEventSource", keywords=100, level=2, event_filter=EventFilter(enable=True, ids=()))
TRACEPOINT = Provider(name="MyEventSource", keywords=100, level=2, tracepoints=Tracepoints(default="tp0"))
SETS = Provider(
    name="MyEventSource",
    keywords=100,
    level=2,
    tracepoints=Tracepoints(sets=(TracepointSet(name="s", ids=(5, 6)), TracepointSet(name="t", ids=(7,)))),
)
CLSID = UUID("5f1a6c2e-3b7d-4a8e-9c10-d0e5a1b2c3d4")
CLSID_BYTES = "2e6c1a5f 7d3b 8e4a 9c10 d0e5a1b2c3d4"
COOKIE = UUID("123e4567-e89b-12d3-a456-426614174000")
COOKIE_BYTES = "67453e129be8d312a456426614174000"

# behind the magic: size, command set, command id, reserved, payload
REQUESTS: list[tuple[Request[Any], str]] = [
    (
        dump.GenerateCoreDump(path="/tmp/d", dump_type=4, flags=0),
        "2e00 01 01 0000 07000000 2f0074006d0070002f0064000000 04000000 00000000",
    ),
    (dump.GenerateCoreDump(path=""), "2200 01 01 0000 01000000 0000 04000000 00000000"),
    (
        dump.GenerateCoreDump2(path="/tmp/d", dump_type=2, flags=6),
        "2e00 01 02 0000 07000000 2f0074006d0070002f0064000000 02000000 06000000",
    ),
    (
        dump.GenerateCoreDump3(path="/tmp/d", dump_type=1, flags=15),
        "2e00 01 03 0000 07000000 2f0074006d0070002f0064000000 01000000 0f000000",
    ),
    (tracing.StopTracing(session_id=0x1122334455667788), "1c00 02 01 0000 8877665544332211"),
    (tracing.CollectTracing(providers=(P,), buffer_mb=250), "5000 02 02 0000 fa000000 01000000 01000000" + P_BYTES),
    (tracing.CollectTracing2(providers=(P,)), "5100 02 03 0000 00010000 01000000 01 01000000" + P_BYTES),
    (
        tracing.CollectTracing2(providers=(P,), rundown=False, format=0),
        "5100 02 03 0000 00010000 00000000 00 01000000" + P_BYTES,
    ),
    (
        tracing.CollectTracing2(providers=(Provider(name="A", arguments="a=1"), Provider(name="😀", level=0))),
        "5b00 02 03 0000 00010000 01000000 01 02000000"
        "ffffffffffffffff 05000000 02000000 41000000 04000000 61003d0031000000"
        "ffffffffffffffff 00000000 03000000 3dd800de0000 00000000",
    ),
    (
        tracing.CollectTracing2(providers=(Provider(name="A", arguments=""),)),
        "3b00 02 03 0000 00010000 01000000 01 01000000ffffffffffffffff 05000000 02000000 41000000 01000000 0000",
    ),
    (tracing.CollectTracing3(providers=(P,)), "5200 02 04 0000 00010000 01000000 01 01 01000000" + P_BYTES),
    (
        tracing.CollectTracing3(providers=(P,), rundown=False, stackwalk=True),
        "5200 02 04 0000 00010000 01000000 00 01 01000000" + P_BYTES,
    ),
    (
        tracing.CollectTracing3(providers=(P,), rundown=True, stackwalk=False),
        "5200 02 04 0000 00010000 01000000 01 00 01000000" + P_BYTES,
    ),
    (
        tracing.CollectTracing4(providers=(P,)),
        "5900 02 05 0000 00010000 01000000 3901028000000000 01 01000000" + P_BYTES,
    ),
    (
        tracing.CollectTracing4(providers=(P,), rundown_keyword=0x1122334455667788, stackwalk=False),
        "5900 02 05 0000 00010000 01000000 8877665544332211 00 01000000" + P_BYTES,
    ),
    (
        tracing.CollectTracing5(providers=(FILTERED,)),
        "6a00 02 06 0000 00000000 00010000 01000000 3901028000000000 01 01000000"
        + P_BYTES
        + "01 02000000 01000000 02000000",
    ),
    (
        tracing.CollectTracing5(providers=(P, ALL_BUT_7, NOTHING)),
        "d000 02 06 0000 00000000 00010000 01000000 3901028000000000 01 03000000"
        + (P_BYTES + "00 00000000" + P_BYTES + "00 01000000 07000000" + P_BYTES + "01 00000000"),
    ),
    (
        tracing.CollectTracing5UserEvents(providers=(TRACEPOINT,)),
        "6900 02 06 0000 01000000 0000000000000000 01000000"
        + P_BYTES
        + "00 00000000 04000000 7400700030000000 00000000",
    ),
    (
        tracing.CollectTracing5UserEvents(providers=(SETS,), rundown_keyword=2),
        "8500 02 06 0000 01000000 0200000000000000 01000000"
        + P_BYTES
        + "00 00000000 00000000 02000000"
        + "02000000 73000000 02000000 05000000 06000000"
        + "02000000 74000000 01000000 07000000",
    ),
    (
        tracing.CollectTracing6(providers=(P,), buffering_mode=1),
        "6600 02 07 0000 00000000 00010000 01000000 3901028000000000 01 01000000" + P_BYTES + "00 00000000 01000000",
    ),
    (
        tracing.CollectTracing6(providers=(P,)),
        "6600 02 07 0000 00000000 00010000 01000000 3901028000000000 01 01000000" + P_BYTES + "00 00000000 00000000",
    ),
    (
        tracing.CollectTracing6UserEvents(providers=(TRACEPOINT,)),
        "6900 02 07 0000 01000000 0000000000000000 01000000"
        + P_BYTES
        + "00 00000000 04000000 7400700030000000 00000000",
    ),
    (
        profiler.AttachProfiler(timeout_ms=10_000, clsid=CLSID, path="/p", client_data=b"\1\2\xff"),
        f"3900 03 01 0000 10270000 {CLSID_BYTES} 03000000 2f0070000000 03000000 0102ff",
    ),
    (
        profiler.AttachProfiler(timeout_ms=1, clsid=CLSID, path="/p"),
        f"3600 03 01 0000 01000000 {CLSID_BYTES} 03000000 2f0070000000 00000000",
    ),
    (profiler.StartupProfiler(clsid=CLSID, path="/p"), f"2e00 03 02 0000 {CLSID_BYTES} 03000000 2f0070000000"),
    (process_info.ProcessInfo(), "1400 04 00 0000"),
    (process.ResumeRuntime(), "1400 04 01 0000"),
    (environment.ProcessEnvironment(), "1400 04 02 0000"),
    (environment.SetEnvironmentVariable(name="A", value="b"), "2400 04 03 0000 02000000 41000000 02000000 62000000"),
    (environment.SetEnvironmentVariable(name="A", value=None), "2000 04 03 0000 02000000 41000000 00000000"),
    (environment.SetEnvironmentVariable(name="A", value=""), "2200 04 03 0000 02000000 41000000 01000000 0000"),
    (process_info.ProcessInfo2(), "1400 04 04 0000"),
    (process.EnablePerfMap(), "1800 04 05 0000 01000000"),
    (process.EnablePerfMap(perf_map_type=3), "1800 04 05 0000 03000000"),
    (process.DisablePerfMap(), "1400 04 06 0000"),
    (process.ApplyStartupHook(path="/h.dll"), "2600 04 07 0000 07000000 2f0068002e0064006c006c000000"),
    (process_info.ProcessInfo3(), "1400 04 08 0000"),
]
PROBE = MAGIC + bytes.fromhex("1800 04 07 0000 00000000")
"""A startup hook without a path."""

_WHO = f"3930000000000000 {COOKIE_BYTES} 04000000 6100200062000000 06000000 4c0069006e00750078000000"
_WHAT = "04000000 7800360034000000"
_RUNS = "04000000 6100700070000000 06000000 38002e0030002e0031000000"
INFO: dict[str, Any] = {"pid": 12345, "cookie": COOKIE, "command_line": "a b", "os": "Linux", "arch": "x64"}
INFO2: dict[str, Any] = {**INFO, "entry_assembly": "app", "runtime_version": "8.0.1"}
NOBODY: dict[str, Any] = dict.fromkeys(("command_line", "os", "arch"))

REPLIES: list[tuple[OkReply | ErrorReply, str]] = [
    (OkReply(), "1400 ff 00 0000"),
    (ResultReply(), "1800 ff 00 0000 00000000"),
    (ResultReply(hresult=0x80131515), "1800 ff 00 0000 15151380"),
    (SessionReply(session_id=0x1122334455667788), "1c00 ff 00 0000 8877665544332211"),
    (process_info.ProcessInfoReply(**INFO), f"5400 ff 00 0000 {_WHO} {_WHAT}"),
    (
        process_info.ProcessInfoReply(pid=1, cookie=COOKIE, **NOBODY),
        f"3800 ff 00 0000 0100000000000000 {COOKIE_BYTES} 00000000 00000000 00000000",
    ),
    (
        process_info.ProcessInfoReply(pid=1, cookie=COOKIE, command_line="", os="", arch=""),
        f"3e00 ff 00 0000 0100000000000000 {COOKIE_BYTES} 01000000 0000 01000000 0000 01000000 0000",
    ),
    (process_info.ProcessInfo2Reply(**INFO2), f"7000 ff 00 0000 {_WHO} {_WHAT} {_RUNS}"),
    (
        process_info.ProcessInfo3Reply(**INFO2, runtime_identifier="linux-x64"),
        f"8c00 ff 00 0000 01000000 {_WHO} {_WHAT} {_RUNS} 0a000000 6c0069006e00750078002d007800360034000000",
    ),
    (
        process_info.ProcessInfo3Reply(version=0, **INFO2),
        f"7400 ff 00 0000 00000000 {_WHO} {_WHAT} {_RUNS}",
    ),
    (
        process_info.ProcessInfo3Reply(version=2, **INFO2, trailing=b"\1\2"),
        f"7a00 ff 00 0000 02000000 {_WHO} {_WHAT} {_RUNS} 00000000 0102",
    ),
    (environment.EnvironmentReply(size_bytes=40), "1a00 ff 00 0000 28000000 0000"),
    (environment.EnvironmentReply(size_bytes=0x123456, future=7), "1a00 ff 00 0000 56341200 0700"),
    (ErrorReply(hresult=0x80131384), "1800 ff ff 0000 84131380"),
    (ErrorReply(hresult=0x80004005, text="no"), "2200 ff ff 0000 05400080 03000000 6e006f000000"),
    (ErrorReply(hresult=0x80004005, text=""), "1e00 ff ff 0000 05400080 01000000 0000"),
    (ErrorReply(hresult=0x80004005, trailing=b"\0\0\0\0"), "1c00 ff ff 0000 05400080 00000000"),
]


def bytes_of(tail: str) -> bytes:
    """The whole message."""
    return MAGIC + bytes.fromhex(tail)
