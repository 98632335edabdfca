"""Signals that end what a verb does: taken in the main thread, given back, and left alone where they were ignored. What the verb has
begun is cleaned up, and a second signal of the same press leaves that in peace.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.nettrace.traces import SMALL

from dotnetdiag.cli import signals
from dotnetdiag.cli.signals import ALL, ONE_PRESS_S, Terminated, handled, interrupted

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")


NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
CODES = {signal.SIGINT: 2, signal.SIGTERM: 143, signal.SIGHUP: 129}


class Clock:
    now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    """Time stands still. The signals are as they were afterwards."""
    made = Clock()
    monkeypatch.setattr(signals, "time", made)
    monkeypatch.setattr(signals, "_pressed_at", float("-inf"))
    monkeypatch.setattr(signals, "_end_wanted", None)
    before = {number: signal.getsignal(number) for number in NUMBERS}
    yield made
    for number, handling in before.items():
        signal.signal(number, handling)


def test_a_signal_comes_to_the_handler_and_later_to_whom_it_came_before() -> None:
    came: list[int] = []
    before: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: before.append(number))
    with handled(ALL, lambda number, _: came.append(number)):
        os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGTERM)
    assert (came, before) == ([signal.SIGTERM], [signal.SIGTERM])


def test_what_is_ignored_stays_ignored() -> None:
    """Under nohup SIGHUP is, in a script's ``command &`` SIGINT and SIGQUIT are."""
    came: list[int] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with handled(ALL, lambda number, _: came.append(number)):
        os.kill(os.getpid(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGTERM)
    assert came == [signal.SIGTERM]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_another_thread_changes_nothing() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[object] = []

    def work() -> None:
        with handled(ALL, lambda *_: None):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_names_that_a_system_has_not_are_passed_over() -> None:
    with handled(("SIGNOSUCH",), lambda *_: None):
        pass


def test_what_something_else_handles_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``getsignal`` says None of a handler that is not Python's, and could not give it back."""
    monkeypatch.setattr(signal, "getsignal", lambda _: None)
    with handled(ALL, lambda *_: pytest.fail("taken")), interrupted():
        pass


# interrupted --------------------------------------------------------------------------------------------------------


@contextmanager
def called_at_the_end(clean_up: Callable[[], None]) -> Iterator[None]:
    try:
        yield
    finally:
        clean_up()


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_a_signal_interrupts_and_its_second_does_not_interrupt_the_cleanup(
    number: signal.Signals, clock: Clock
) -> None:
    cleaned = []

    def clean_up() -> None:
        clock.now_s += ONE_PRESS_S
        for second in NUMBERS:
            signal.raise_signal(second)
        cleaned.append(number)

    with pytest.raises(KeyboardInterrupt) as caught, interrupted(), called_at_the_end(clean_up):
        signal.raise_signal(number)
    assert cleaned == [number]
    if number == signal.SIGINT:
        assert not isinstance(caught.value, Terminated)
    else:
        assert isinstance(caught.value, Terminated)
        assert caught.value.exit_code == CODES[number]


def test_somebody_who_insists_interrupts_the_cleanup(clock: Clock) -> None:
    def clean_up() -> None:
        clock.now_s += ONE_PRESS_S * 1.01
        signal.raise_signal(signal.SIGHUP)

    with pytest.raises(Terminated) as caught, interrupted(), called_at_the_end(clean_up):
        signal.raise_signal(signal.SIGTERM)
    assert caught.value.exit_code == CODES[signal.SIGHUP]


def test_a_second_signal_that_comes_when_the_handler_of_the_first_is_gone_interrupts_nothing(clock: Clock) -> None:
    """As in ``watch``: the session has ended, and the port is still to be removed."""
    came: list[int] = []
    with interrupted():
        with handled(ALL, lambda number, _: came.append(number)):
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGHUP)
        clock.now_s += ONE_PRESS_S * 1.01
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGHUP)
    assert came == [signal.SIGTERM, signal.SIGHUP]


def test_an_ignored_signal_does_not_interrupt() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with interrupted():
        signal.raise_signal(signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def python(code: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A program that has SIGINT as a terminal's has it: a background job would ignore it."""
    program = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{code}"
    return subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
def test_when_the_verb_is_over_a_signal_ends_the_process(number: signal.Signals) -> None:
    done = python(
        "from dotnetdiag.cli.signals import interrupted\n"
        "with interrupted(): pass\n"
        f"signal.raise_signal({number:d})\n"
        "print('still here')"
    )
    assert (done.returncode, done.stdout, done.stderr) == (-number, "", "")


# verbs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
@pytest.mark.parametrize("words", ["events --format jsonl", "convert --format nettrace", "trim --from 0s", "redact"])
def test_a_signal_leaves_no_half_of_an_output_and_has_its_exit_code(
    words: str, number: signal.Signals, tmp_path: Path
) -> None:
    """It comes when the file is written, and another one of the same press when that is removed."""
    (tmp_path / "x.nettrace").write_bytes(SMALL["nettrace 5"])
    verb, *options = words.split()
    done = python(
        "import os\n"
        "from dotnetdiag.cli.main import main\n"
        "from dotnetdiag.recipes import outputs\n"
        "close, unlink = outputs._Output.close, os.unlink\n"
        f"outputs._Output.close = lambda output: (close(output), signal.raise_signal({number:d}))\n"
        "os.unlink = lambda path: (print(path), signal.raise_signal(signal.SIGHUP), unlink(path))\n"
        "main()",
        *("trace", verb, str(tmp_path / "x.nettrace"), *options, "-o", str(tmp_path / "y")),
    )
    assert (done.returncode, done.stderr.split()) == (CODES[number], ["error:", "cancelled"])
    assert done.stdout.endswith(".part\n")
    assert [one.name for one in tmp_path.iterdir()] == ["x.nettrace"]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.name)
@pytest.mark.parametrize(
    "words", ["info", "env", "resume", "trace watch", "trace collect", "dump collect", "stack report"]
)
def test_a_verb_that_waits_at_a_port_removes_it_and_has_the_exit_code_of_the_signal(
    words: str, number: signal.Signals
) -> None:
    with TemporaryDirectory() as folder:  # shorter than tmp_path: it is for a socket
        done = python(
            "import os\n"
            "from dotnetdiag.cli import options, trace_collect\n"
            "from dotnetdiag.cli.main import main\n"
            f"tell = lambda address: (print(os.listdir({folder!r})), signal.raise_signal({number:d}))\n"
            "options.say_waiting = trace_collect.say_waiting = lambda _: tell\n"
            "unlink = os.unlink\n"
            "os.unlink = lambda *given, **more: (signal.raise_signal(signal.SIGHUP), unlink(*given, **more))\n"
            "main()",
            *(*words.split(), "--diagnostic-port", f"{folder}/port"),
        )
        assert (done.returncode, done.stderr.split()) == (CODES[number], ["error:", "cancelled"])
        assert "'port'" in done.stdout
        assert os.listdir(folder) == []


def test_ps_is_interrupted_as_other_verbs_are() -> None:
    done = python(
        "import sys; from dotnetdiag.recipes import processes\n"
        "processes.list_processes = lambda **_: signal.raise_signal(signal.SIGTERM)\n"
        "sys.argv = ['dotnetdiag', 'ps']\n"
        "from dotnetdiag.cli.main import main; main()"
    )
    assert (done.returncode, done.stderr) == (143, "error: cancelled\n")


class LetGo:
    def __del__(self) -> None:
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_whose_error_was_swallowed_raises_when_the_block_has_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    hook = sys.unraisablehook
    went_on: list[bool] = []

    def verb() -> None:
        with interrupted():
            LetGo()
            went_on.append(True)

    with pytest.raises(Terminated):
        verb()
    assert went_on == [True]
    assert sys.unraisablehook is hook
    assert capsys.readouterr().err == ""


def test_other_errors_that_nothing_takes_are_told_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fails:
        def __del__(self) -> None:
            raise ValueError

    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with interrupted():
        made: Fails | None = Fails()
        made = None
        assert made is None
    assert len(told) == 1


def test_a_signal_whose_error_was_swallowed_is_the_first_press_of_what_begins_then() -> None:
    """Python goes on after what ``__del__`` raises."""
    came: list[tuple[int, bool]] = []
    with interrupted():
        made: LetGo | None = LetGo()
        made = None
        assert made is None
        with signals.pressed(lambda number, *, again: came.append((number, again))):
            pass
    assert came == [(signal.SIGTERM, False)]


def raised_in_a_library(number: int) -> None:
    """As DuckDB does of any signal that raises in it."""
    try:
        signal.raise_signal(number)
    except KeyboardInterrupt:
        raise KeyboardInterrupt from None


@pytest.mark.parametrize("number", NUMBERS)
def test_what_a_library_takes_for_ctrl_c_keeps_its_code(number: signal.Signals) -> None:
    with pytest.raises(KeyboardInterrupt) as found, interrupted():
        raised_in_a_library(number)
    assert getattr(found.value, "exit_code", 2) == CODES[number]
