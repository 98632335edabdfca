from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from dotnetdiag.server.promptness import SOON_S, prompt, take_back


@pytest.fixture(autouse=True)
def usual_s() -> Iterator[float]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield sys.getswitchinterval()
    sys.setswitchinterval(before)


def test_the_interval_is_short_while_anybody_waits(usual_s: float) -> None:
    with prompt():
        assert sys.getswitchinterval() == pytest.approx(SOON_S)
        with prompt():
            pass
        assert sys.getswitchinterval() == pytest.approx(SOON_S)
    assert sys.getswitchinterval() == usual_s


def test_what_the_program_sets_meanwhile_stays() -> None:
    with prompt():
        sys.setswitchinterval(0.02)
    assert sys.getswitchinterval() == pytest.approx(0.02)


def test_what_the_program_has_read_meanwhile_and_puts_back_is_taken_back(usual_s: float) -> None:
    with prompt():
        read_s = sys.getswitchinterval()
    sys.setswitchinterval(0.02)
    sys.setswitchinterval(read_s)
    with prompt():
        pass
    assert sys.getswitchinterval() == usual_s
    with prompt():
        sys.setswitchinterval(sys.getswitchinterval())
    assert sys.getswitchinterval() == usual_s


def test_what_is_put_back_after_the_last_is_taken_back_when_somebody_looks(usual_s: float) -> None:
    with prompt():
        read_s = sys.getswitchinterval()
    sys.setswitchinterval(read_s)
    take_back()
    assert sys.getswitchinterval() == usual_s
    with prompt():
        take_back()
        assert sys.getswitchinterval() == pytest.approx(SOON_S)
    sys.setswitchinterval(0.02)
    take_back()
    assert sys.getswitchinterval() == pytest.approx(0.02)


def test_a_shorter_one_of_the_program_stays() -> None:
    sys.setswitchinterval(SOON_S / 2)
    with prompt():
        assert sys.getswitchinterval() == pytest.approx(SOON_S / 2)
    assert sys.getswitchinterval() == pytest.approx(SOON_S / 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_has_the_interval_of_the_program(usual_s: float) -> None:
    with prompt():
        pid = os.fork()
        if not pid:
            os._exit(0 if sys.getswitchinterval() == usual_s else 1)
        assert os.waitpid(pid, 0)[1] == 0
        assert sys.getswitchinterval() == pytest.approx(SOON_S)
