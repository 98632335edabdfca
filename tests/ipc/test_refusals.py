"""What is not sent: what kills a runtime (DangerousRequest), what a server refuses and what makes no sense (RequestRefused)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from dotnetdiag.errors import DangerousRequest, RequestRefused
from dotnetdiag.ipc import dump, environment, process, process_info, profiler, tracing
from dotnetdiag.ipc.eventpipe import EventFilter, Provider, Tracepoints, TracepointSet
from dotnetdiag.ipc.frames import MAX_MESSAGE_SIZE
from dotnetdiag.ipc.messages import Request

A = Provider(name="A")
GUID = UUID("5f1a6c2e-3b7d-4a8e-9c10-d0e5a1b2c3d4")
MANY = tuple(Provider(name=f"P{number}") for number in range(1001))
STREAMING = [
    tracing.CollectTracing,
    tracing.CollectTracing2,
    tracing.CollectTracing3,
    tracing.CollectTracing4,
    tracing.CollectTracing5,
    tracing.CollectTracing6,
]
USER_EVENTS = [tracing.CollectTracing5UserEvents, tracing.CollectTracing6UserEvents]


def refused(request: Request[Any]) -> RequestRefused:
    with pytest.raises(RequestRefused) as caught:
        request.pack()
    with pytest.raises(RequestRefused) as checked:
        request.check()
    assert (type(checked.value), str(checked.value)) == (type(caught.value), str(caught.value))
    assert str(caught.value) == f"{request.COMMAND.name}: {caught.value.reason}"
    assert caught.value.command == request.COMMAND.name
    return caught.value


# what kills ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind",
    [
        process_info.ProcessInfo,
        process_info.ProcessInfo2,
        process_info.ProcessInfo3,
        process.ResumeRuntime,
        process.DisablePerfMap,
        environment.ProcessEnvironment,
    ],
)
def test_a_command_that_takes_no_payload_gets_none(kind: Any) -> None:
    error = refused(kind(trailing=b"x"))
    assert type(error) is DangerousRequest
    assert error.reason == "the command takes no payload; one corrupts the answer"
    assert len(kind().pack()) == 20


@pytest.mark.parametrize("kind", STREAMING)
def test_a_session_that_kills_is_never_bytes(kind: Any) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"buffer_mb": 0}, "a buffer of 0 MB kills .NET 8 and 9; give at least 1"),
        ({"format": 2}, "format 2 kills .NET 8 and 9; 0 is NetPerf, 1 is nettrace"),
        ({"format": -1}, "format -1 kills .NET 8 and 9; 0 is NetPerf, 1 is nettrace"),
        ({"providers": MANY}, "1001 providers kill .NET 8 and 9; give at most 1000"),
    ]
    for wrong, reason in cases:
        error = refused(kind(**{"providers": (A,), **wrong}))
        assert type(error) is DangerousRequest
        assert error.reason == reason
    kind(providers=MANY[:1000]).pack()
    for size in (1, 100_000, 0xFFFFFFFF):
        kind(providers=(A,), buffer_mb=size).pack()
    kind(providers=(A,), format=0).pack()


@pytest.mark.parametrize("kind", USER_EVENTS)
@pytest.mark.parametrize("places", [((1, 1),), ((1, 2), (3, 1)), ((1,), (2,), (2,))])
def test_an_event_id_in_two_places_is_never_bytes(kind: Any, places: tuple[tuple[int, ...], ...]) -> None:
    sets = tuple(TracepointSet(name=f"t{number}", ids=ids) for number, ids in enumerate(places))
    error = refused(kind(providers=(Provider(name="A", tracepoints=Tracepoints(default="d", sets=sets)),)))
    assert type(error) is DangerousRequest
    assert error.reason.endswith("twice kills .NET 10; list it once")
    assert error.reason.startswith("A: event id ")


def test_an_event_id_may_stand_in_the_sets_of_two_providers() -> None:
    places = Tracepoints(sets=(TracepointSet(name="t", ids=(1,)),))
    providers = (Provider(name="A", tracepoints=places), Provider(name="B", tracepoints=places))
    tracing.CollectTracing5UserEvents(providers=providers).pack()


def test_event_id_0_goes_to_no_tracepoint() -> None:
    places = Tracepoints(sets=(TracepointSet(name="t", ids=(1, 0)),))
    error = refused(tracing.CollectTracing5UserEvents(providers=(Provider(name="A", tracepoints=places),)))
    assert error.reason == "A: event id 0 cannot go to a tracepoint set"
    assert type(error) is RequestRefused


@pytest.mark.parametrize("kind", [dump.GenerateCoreDump, dump.GenerateCoreDump2, dump.GenerateCoreDump3])
def test_a_dump_without_a_name_is_never_bytes(kind: Any) -> None:
    error = refused(kind(path=None))
    assert type(error) is DangerousRequest
    assert error.reason == "a dump without a name kills the target (.NET 3.1 to 10); give a path"
    kind(path="").pack()  # createdump's own name


@pytest.mark.parametrize(
    "path", ["hook.dll", "./hook.dll", "C:hook.dll", "C:", "1", "a/b", "\\hook.dll", "c|\\x", " /h", "a//b", "1/\\b"]
)
def test_a_hook_with_a_relative_path_is_never_bytes(path: str) -> None:
    error = refused(process.ApplyStartupHook(path=path))
    assert type(error) is DangerousRequest
    assert error.reason == f"a relative path kills .NET 9 and 10; give an absolute one, not {path!r}"


@pytest.mark.parametrize(
    ("path", "separator"),
    [
        ("/a.dll:/b.dll", ":"),
        ("/a.dll:", ":"),
        ("C:\\a.dll;C:\\b.dll", ";"),
        ("c:/a.dll;", ";"),
        ("\\\\server\\a.dll;x", ";"),
        ("\\\\server\\a.dll:x", ";"),
    ],
)
def test_a_list_of_hooks_is_never_bytes(path: str, separator: str) -> None:
    error = refused(process.ApplyStartupHook(path=path))
    assert type(error) is DangerousRequest
    assert error.reason == (
        f"{separator!r} separates startup hooks, and a list kills .NET 9 and 10; give one path: {path!r}"
    )


@pytest.mark.parametrize(
    "path", ["/", "/a.dll", "/a;b.dll", "C:\\a.dll", "c:/a.dll", "C:\\", "\\\\server\\share\\a.dll"]
)
def test_a_hook_with_an_absolute_path_is_sent(path: str) -> None:
    process.ApplyStartupHook(path=path).pack()


# what makes no sense --------------------------------------------------------------------------------------------------------

NUL = "must not contain a NUL character"


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (process.ApplyStartupHook(path=None), "the startup hook's path must not be missing"),
        (process.ApplyStartupHook(path=""), "the startup hook's path must not be empty"),
        (process.ApplyStartupHook(path="/a\0"), f"the startup hook's path {NUL}"),
        (process.EnablePerfMap(perf_map_type=0), "perf map type 0 is none of 1 All, 2 JitDump, 3 PerfMap"),
        (process.EnablePerfMap(perf_map_type=4), "perf map type 4 is none of 1 All, 2 JitDump, 3 PerfMap"),
        (process.EnablePerfMap(perf_map_type=1.0), "perf_map_type 1.0 does not fit 32 unsigned bits"),  # type: ignore[arg-type]
        (environment.SetEnvironmentVariable(name="", value="x"), "the variable's name must not be empty"),
        (environment.SetEnvironmentVariable(name=None, value="x"), "the variable's name must not be missing"),
        (environment.SetEnvironmentVariable(name="A\0", value="x"), f"the variable's name {NUL}"),
        (environment.SetEnvironmentVariable(name="A=B", value="x"), "a variable's name has no '=': 'A=B'"),
        (environment.SetEnvironmentVariable(name="=A", value="x"), "a variable's name has no '=': '=A'"),
        (environment.SetEnvironmentVariable(name="A", value="\0"), f"the variable's value {NUL}"),
        (environment.SetEnvironmentVariable(name="A", value=1), "the variable's value is a int, not a text"),  # type: ignore[arg-type]
        (dump.GenerateCoreDump(path="a\0b"), f"the dump's path {NUL}"),
        (dump.GenerateCoreDump3(path=b"a"), "the dump's path is a bytes, not a text"),  # type: ignore[arg-type]
        (dump.GenerateCoreDump3(path="x", dump_type=0), "dump type 0 is none of 1 Mini, 2 Heap, 3 Triage, 4 Full"),
        (dump.GenerateCoreDump3(path="x", dump_type=5), "dump type 5 is none of 1 Mini, 2 Heap, 3 Triage, 4 Full"),
        (dump.GenerateCoreDump(path="x", flags=2), "flags 2 are not all known to this command"),
        (dump.GenerateCoreDump(path="x", flags=3), "flags 3 are not all known to this command"),
        (dump.GenerateCoreDump(path="x", flags=-1), "flags -1 are not all known to this command"),
        (dump.GenerateCoreDump2(path="x", flags=16), "flags 16 are not all known to this command"),
        (dump.GenerateCoreDump3(path="x", flags=-16), "flags -16 are not all known to this command"),
        (dump.GenerateCoreDump3(path="x", flags="1"), "flags '1' are not all known to this command"),  # type: ignore[arg-type]
        (profiler.StartupProfiler(clsid=GUID, path=""), "the profiler's path must not be empty"),
        (profiler.StartupProfiler(clsid=GUID, path=None), "the profiler's path must not be missing"),
        (profiler.StartupProfiler(clsid="no", path="/p"), "clsid 'no' is no UUID"),  # type: ignore[arg-type]
        (profiler.AttachProfiler(timeout_ms=1, clsid=GUID, path="/p\0"), f"the profiler's path {NUL}"),
        (profiler.AttachProfiler(timeout_ms=-1, clsid=GUID, path="/p"), "timeout_ms -1 does not fit 32 unsigned bits"),
        (
            profiler.AttachProfiler(timeout_ms=1, clsid=GUID, path="/p", client_data="x"),  # type: ignore[arg-type]
            "client_data is a str, not bytes",
        ),
        (
            profiler.AttachProfiler(timeout_ms=1, clsid=GUID, path="/p", trailing=b"x"),
            "bytes behind the client data are refused by runtimes",
        ),
        (
            profiler.AttachProfiler(timeout_ms=1 << 40, clsid=GUID, path="/p"),
            f"timeout_ms {1 << 40} does not fit 32 unsigned bits",
        ),
        (tracing.CollectTracing2(providers=(A,), buffer_mb=-1), "buffer_mb -1 does not fit 32 unsigned bits"),
        (tracing.StopTracing(session_id=-1), "session_id -1 does not fit 64 unsigned bits"),
        (tracing.StopTracing(session_id=1 << 64), f"session_id {1 << 64} does not fit 64 unsigned bits"),
        (
            tracing.CollectTracing6(providers=(A,), buffering_mode=2),
            "buffering mode 2 is neither 0 Drop nor 1 Block",
        ),
        (
            tracing.CollectTracing6(providers=(A,), buffering_mode=-1),
            "buffering mode -1 is neither 0 Drop nor 1 Block",
        ),
        (tracing.CollectTracing6(providers=(), buffering_mode=1), "providers must be at least one"),
        (
            tracing.CollectTracing5UserEvents(providers=(A,)),
            "providers of A: tracepoints are for user_events sessions, and each provider of those needs them",
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else "",
)
def test_a_request_that_makes_no_sense_is_refused(request_: Request[Any], reason: str) -> None:
    error = refused(request_)
    assert type(error) is RequestRefused
    assert error.reason == reason


def test_all_the_flags_and_types_that_a_command_knows_are_sent() -> None:
    for dump_type in (1, 2, 3, 4):
        dump.GenerateCoreDump(path="x", dump_type=dump_type).pack()
    for flags in (0, 1):
        dump.GenerateCoreDump(path="x", flags=flags).pack()
    for flags in range(16):
        dump.GenerateCoreDump2(path="x", flags=flags).pack()
        dump.GenerateCoreDump3(path="x", flags=flags).pack()
    for perf_map_type in (1, 2, 3):
        process.EnablePerfMap(perf_map_type=perf_map_type).pack()


BAD_PROVIDERS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "the name of provider  must not be empty"),
    ({"name": None}, "the name of provider None must not be missing"),
    ({"name": "A\0"}, f"the name of provider A\0 {NUL}"),
    ({"arguments": "\0"}, f"the arguments of provider A {NUL}"),
    ({"arguments": b"x"}, "the arguments of provider A is a bytes, not a text"),
    ({"keywords": -1}, "providers of A: keywords -1 does not fit 64 unsigned bits"),
    ({"keywords": 1 << 64}, f"providers of A: keywords {1 << 64} does not fit 64 unsigned bits"),
    ({"level": 6}, "providers of A: level 6 is not in 0 to 5"),
    ({"level": -1}, "providers of A: level -1 is not in 0 to 5"),
    ({"level": 1.5}, "providers of A: level 1.5 is not in 0 to 5"),
]
FILTER = EventFilter(enable=True, ids=(1,))


@pytest.mark.parametrize("kind", [*STREAMING, *USER_EVENTS])
def test_a_provider_that_makes_no_sense_is_refused(kind: Any) -> None:
    good: dict[str, Any] = {"name": "A", "tracepoints": Tracepoints(default="d") if kind in USER_EVENTS else None}
    for wrong, reason in BAD_PROVIDERS:
        first, last = Provider(**good), Provider(**{**good, **wrong})
        error = refused(kind(providers=(first, last)))
        assert (type(error), error.reason) == (RequestRefused, reason)
    assert refused(kind(providers=())).reason == "providers must be at least one"
    for level in range(6):
        kind(providers=(Provider(**{**good, "level": level, "arguments": ""}),)).pack()


@pytest.mark.parametrize("kind", STREAMING)
def test_what_a_form_cannot_say_is_refused(kind: Any) -> None:
    filtered = kind(providers=(Provider(name="A", event_filter=FILTER),))
    if issubclass(kind, tracing.CollectTracing5):
        filtered.pack()
        wrong = EventFilter(enable=True, ids=(1, 1 << 32))
        reason = f"providers of A: event id {1 << 32} does not fit 32 unsigned bits"
        assert refused(kind(providers=(Provider(name="A", event_filter=wrong),))).reason == reason
    else:
        assert refused(filtered).reason == "providers of A: an event filter needs CollectTracing5 (.NET 10)"
    with_tracepoint = kind(providers=(Provider(name="A", tracepoints=Tracepoints(default="d")),))
    assert refused(with_tracepoint).reason == (
        "providers of A: tracepoints are for user_events sessions, and each provider of those needs them"
    )


@pytest.mark.parametrize("kind", USER_EVENTS)
@pytest.mark.parametrize(
    ("places", "reason"),
    [
        (Tracepoints(), "providers of A: a default tracepoint or at least one set is needed"),
        (Tracepoints(default=""), "the default tracepoint of provider A must not be missing"),
        (Tracepoints(default="\0"), f"the default tracepoint of provider A {NUL}"),
        (Tracepoints(sets=(TracepointSet(name="", ids=(1,)),)), "a tracepoint of provider A must not be empty"),
        (Tracepoints(sets=(TracepointSet(name=None, ids=(1,)),)), "a tracepoint of provider A must not be missing"),
        (Tracepoints(sets=(TracepointSet(name="s\0", ids=(1,)),)), f"a tracepoint of provider A {NUL}"),
        (
            Tracepoints(default="d", sets=(TracepointSet(name="s", ids=()),)),
            "providers of A: a tracepoint set needs a name and event ids",
        ),
        (
            Tracepoints(sets=(TracepointSet(name="s", ids=(1,)), TracepointSet(name="t", ids=(-1,)))),
            "providers of A: event id -1 does not fit 32 unsigned bits",
        ),
    ],
)
def test_a_tracepoint_that_makes_no_sense_is_refused(kind: Any, places: Tracepoints, reason: str) -> None:
    good = Provider(name="B", tracepoints=Tracepoints(default="d"))
    error = refused(kind(providers=(good, Provider(name="A", tracepoints=places))))
    assert (type(error), error.reason) == (RequestRefused, reason)


def test_what_was_parsed_and_is_invalid_says_why() -> None:
    """For a server: no field is missing, and the runtime would answer BAD_ENCODING."""
    nameless = Provider(name=None)
    assert tracing.CollectTracing2(providers=(nameless,)).invalid() == "providers of None: the name must not be empty"
    unnamed = Provider(name="A", tracepoints=Tracepoints(sets=(TracepointSet(name=None, ids=(1,)),)))
    assert tracing.CollectTracing5UserEvents(providers=(unnamed,)).invalid() == (
        "providers of A: a tracepoint set needs a name and event ids"
    )
    assert tracing.CollectTracing2(providers=(A,), buffer_mb=0).invalid() == ""
    assert dump.GenerateCoreDump3(path=None).invalid() == ""
    # a check of its own, on top of the fields'
    bad = tracing.CollectTracing6(providers=(A,), buffering_mode=7)
    assert bad.invalid() == "buffering mode 7 is neither 0 Drop nor 1 Block"


def test_a_flag_that_is_no_bool_is_sent_as_1() -> None:
    odd = tracing.CollectTracing2(providers=(A,), rundown=7)  # type: ignore[arg-type]
    assert odd.pack() == tracing.CollectTracing2(providers=(A,), rundown=True).pack()


# size -----------------------------------------------------------------------------------------------------------------------


def test_a_request_of_65535_bytes_is_sent_and_one_byte_more_is_refused() -> None:
    spare = MAX_MESSAGE_SIZE - len(profiler.AttachProfiler(timeout_ms=1, clsid=GUID, path="/p").pack())
    whole = profiler.AttachProfiler(timeout_ms=1, clsid=GUID, path="/p", client_data=b"x" * spare)
    assert len(whole.pack()) == 65535
    assert profiler.AttachProfiler.parse(whole.pack()) == whole
    larger = profiler.AttachProfiler(timeout_ms=1, clsid=GUID, path="/p", client_data=b"x" * (spare + 1))
    error = refused_when_packed(larger)
    assert error.reason == "65536 bytes are more than the 65535 of a message"


def test_bytes_behind_a_request_count_too() -> None:
    request = tracing.StopTracing(session_id=1, trailing=bytes(65535 - 28))
    assert len(request.pack()) == 65535
    refused_when_packed(tracing.StopTracing(session_id=1, trailing=bytes(65535 - 27)))


def refused_when_packed(request: Request[Any]) -> RequestRefused:
    request.check()
    with pytest.raises(RequestRefused) as caught:
        request.pack()
    return caught.value
