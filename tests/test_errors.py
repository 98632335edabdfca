"""Errors cross process pools: type, message, attributes and notes survive pickling and copying."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor

import pytest

from dotnetdiag import errors
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.events import columns

# One of each, with every attribute that it can have.
SAMPLES: tuple[DiagnosticsError, ...] = (
    errors.DiagnosticsError("a problem"),
    errors.UsageError("a problem"),
    errors.GrammarError("providers", "A:1:loud", 4, "no level"),
    errors.UnknownName("event", "GC/Strat", ("GC/Start",), where="in the file"),
    errors.WrongCombination("not both", lacking="ring"),
    errors.InsecureAddress("tcp://192.0.2.1:9000"),
    errors.RequestRefused("ResumeRuntime", "a reason"),
    errors.DangerousRequest("ApplyStartupHook", "a reason"),
    errors.MalformedError("a problem", offset=0x1A40, where="EventBlock"),
    errors.ProtocolError("a problem", offset=14, where="message"),
    errors.FormatError("a problem", offset=14, where="EventBlock"),
    errors.ServerError("ProcessInfo", 0x80004005, name="FAIL", advice="look at it", text="said so"),
    errors.UnsupportedCommand("ProcessInfo3", 0x80131385, name="UNKNOWN_COMMAND"),
    errors.RuntimeTooOld("CollectTracing4", "a rundown keyword", needs=".NET 9", has="8.0.33"),
    errors.BadEncoding("ProcessInfo", 0x80131384),
    errors.NotSupported("AttachProfiler", 0x80131515),
    errors.ProfilerAlreadyActive("AttachProfiler", 0x8013136A),
    errors.TransportError("a problem", address="/port"),
    errors.ConnectFailed("a problem", address="/port", errno=2),
    errors.ConnectionEnded("a problem", address="/port"),
    errors.TimedOut("nothing arrived", address="/port", timeout_s=3.0),
    errors.TargetError("a problem", pid=7, code="unknown"),
    errors.ProcessNotFound("no process 7", pid=7, code="no-such-process"),
    errors.AmbiguousName("two of them", pids=(7, 8)),
    errors.TargetStopped("a signal has stopped process 7", pid=7, code="stopped"),
    errors.NotPossible("CollectTracing5", "this kernel offers no user_events"),
    errors.NoDiagnostics("no socket", pid=7, code="no-socket"),
    errors.Cancelled(),
    errors.InputError("/file", "is gone"),
    errors.OutputError("/file", "is full"),
    errors.OutputExists("/file"),
    errors.NotUnderstood("what", offset=5, where="a block"),
    errors.MissingDependency("pyarrow", extra="arrow", purpose="an Arrow table"),
    columns.NoOperator("a problem"),
)
# What the builtin bases keep in attributes of their own.
BUILTIN_ATTRIBUTES = ("errno", "strerror", "filename", "filename2", "name", "path", "msg", "args", "__notes__")


def through_pickle(protocol: int) -> Callable[[DiagnosticsError], DiagnosticsError]:
    return lambda error: pickle.loads(pickle.dumps(error, protocol))


WAYS: dict[str, Callable[[DiagnosticsError], DiagnosticsError]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": through_pickle(protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)},
}


def subclasses(kind: type[DiagnosticsError]) -> Iterator[type[DiagnosticsError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from subclasses(below)


def facts(error: BaseException) -> dict[str, object]:
    return {**vars(error), **{name: getattr(error, name, None) for name in BUILTIN_ATTRIBUTES}}


def test_every_error_has_a_sample() -> None:
    ours = {kind for kind in subclasses(DiagnosticsError) if kind.__module__.startswith("dotnetdiag.")}
    assert {type(error) for error in SAMPLES} == ours


def test_every_error_is_public_and_in_the_tree_of_the_docstring() -> None:
    names = {kind.__name__ for kind in subclasses(DiagnosticsError) if kind.__module__ == errors.__name__}
    assert set(errors.__all__) == names
    assert errors.__doc__ is not None
    assert all(f" {name} " in f" {errors.__doc__.replace(chr(10), ' ')} " for name in names)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_error_survives(error: DiagnosticsError, way: str) -> None:
    error = WAYS[way](error)  # the samples are shared by all tests
    error.add_note("seen in a test")
    again = WAYS[way](error)
    assert type(again) is type(error)
    assert (str(again), repr(again), facts(again)) == (str(error), repr(error), facts(error))
    again.add_note("and of the copy alone")
    assert error.__notes__[-1] == "seen in a test"


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_message_is_one_plain_line(error: DiagnosticsError) -> None:
    assert str(error)
    assert "\n" not in str(error)
    assert str(error) == error.args[0]  # no quotes of KeyError, no [Errno 2] of OSError


def test_a_class_of_somebody_else_survives_with_its_attributes() -> None:
    error = Special("first", detail="second")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.detail) == (Special, "first", "second")


class Special(errors.UsageError):
    def __init__(self, text: str, *, detail: str) -> None:
        super().__init__(text)
        self.detail = detail


def fail(number: int) -> None:
    raise SAMPLES[number]


def test_error_of_a_pool_arrives_as_itself() -> None:
    number = next(number for number, error in enumerate(SAMPLES) if isinstance(error, errors.ConnectFailed))
    with ProcessPoolExecutor(1) as pool, pytest.raises(errors.ConnectFailed, match="/port: a problem") as caught:
        pool.submit(fail, number).result(timeout=60)
    assert (caught.value.errno, caught.value.address) == (2, "/port")


def test_errors_of_the_system_name_the_file_as_they_do_elsewhere() -> None:
    assert errors.InputError("/file", "is gone").filename == "/file"
    assert errors.OutputError("/file", "is full").filename == "/file"
    assert errors.MissingDependency("pyarrow", extra="arrow", purpose="an Arrow table").name == "pyarrow"
