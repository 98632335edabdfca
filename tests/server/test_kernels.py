from __future__ import annotations

import gc
import itertools
import struct
import sys
import threading
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest
from tests.server.recorded import LIMIT_S

from dotnetdiag.server import code_addresses, kernels
from dotnetdiag.server.code_addresses import CodeAddresses, pack_addresses

pytestmark = pytest.mark.skipif(not kernels.COMPILED, reason="nothing is compiled here")


@pytest.fixture
def addresses() -> CodeAddresses:
    return CodeAddresses()


def walked(addresses: CodeAddresses, frame: object, mark: object = None, limit: int = 10_000) -> Any:
    assert kernels.KERNELS is not None
    return kernels.KERNELS.Walker(addresses._bases).walk(frame, mark, limit)


def dive(depth: int, act: Callable[[], Any]) -> Any:
    return dive(depth - 1, act) if depth else act()


@pytest.mark.parametrize("depth", [0, 1, 30, 949, 1100])
def test_a_walk_gives_what_python_gives(addresses: CodeAddresses, depth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def compare() -> None:
        frame = sys._getframe().f_back
        assert frame is not None
        monkeypatch.setattr(code_addresses, "FRAMES_LIMIT", 1000)
        found = pack_addresses(addresses.addresses(frame))
        assert walked(addresses, frame) == (found, -1)
        for limit in (0, 1, 7, 1000):
            assert walked(addresses, frame, limit=limit) == (found[: 8 * limit], -1)
        assert addresses.walk(frame) == (found, -1)

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(2000)
    try:
        dive(depth, compare)
    finally:
        sys.setrecursionlimit(before)


def test_code_without_addresses_is_left_to_python(addresses: CodeAddresses) -> None:
    frame = sys._getframe()
    assert walked(addresses, frame) is None
    assert walked(addresses, frame, limit=0) == (b"", -1)
    addresses.addresses(frame)
    assert dive(1, lambda: walked(addresses, sys._getframe())) is None


def test_the_innermost_frame_of_a_code_is_found(addresses: CodeAddresses) -> None:
    def outer() -> Any:
        return dive(3, inner)

    def inner() -> Any:
        frame = sys._getframe()
        addresses.addresses(frame)
        one = addresses.walk(frame, dive.__code__)
        assert addresses._position(dive.__code__, list(struct.unpack(f"<{len(one[0]) // 8}Q", one[0]))) == one[1]
        return one[1], addresses.walk(frame, outer.__code__)[1], addresses.walk(frame, walked.__code__)[1]

    assert outer() == (1, 5, -1)


def test_many_functions_have_each_its_own_addresses(addresses: CodeAddresses) -> None:
    def step() -> FrameType:
        return sys._getframe()

    frames = []
    for number in range(5000):
        code: CodeType = step.__code__.replace(co_name=f"step_{number}")
        frames.append(FunctionType(code, globals())())
    assert kernels.KERNELS is not None
    walk = kernels.KERNELS.Walker(addresses._bases).walk
    wanted = [pack_addresses(addresses.addresses(frame)[:1]) for frame in frames]
    assert len(set(wanted)) == len(frames)
    for _ in range(2):
        assert [walk(frame, None, 1)[0] for frame in frames] == wanted


def test_a_generator_that_has_not_begun_is_walked(addresses: CodeAddresses) -> None:
    def generate() -> Iterator[int]:
        yield 1

    frame = generate().gi_frame  # type: ignore[attr-defined]
    assert walked(addresses, frame) is None
    found = addresses.addresses(frame)
    assert walked(addresses, frame) == (pack_addresses(found), -1)


def test_the_frames_of_another_thread_are_walked(addresses: CodeAddresses) -> None:
    ready, until = threading.Event(), threading.Event()

    def wait() -> None:
        ready.set()
        until.wait(LIMIT_S)

    thread = threading.Thread(target=dive, args=(20, wait))
    thread.start()
    try:
        assert ready.wait(LIMIT_S)
        while True:
            frame = sys._current_frames()[thread.ident or 0]
            found = pack_addresses(addresses.addresses(frame))
            if frame.f_code is threading.Condition.wait.__code__ and walked(addresses, frame)[0] == found:
                break
        assert len(found) // 8 > 20
    finally:
        until.set()
        thread.join(LIMIT_S)


def test_no_reference_is_kept(addresses: CodeAddresses) -> None:
    def counts(frame: FrameType) -> tuple[int, ...]:
        return sys.getrefcount(frame), sys.getrefcount(frame.f_code), sys.getrefcount(frame.f_back)

    def look() -> None:
        frame = sys._getframe()
        unknown = sys._getframe(1)
        for _ in range(2):
            before = counts(frame), counts(unknown)
            for _, limit in itertools.product(range(500), (0, 1, 5, 1000)):
                walked(addresses, frame, dive.__code__, limit)
                walked(addresses, unknown, limit=limit)
            assert (counts(frame), counts(unknown)) == before
            addresses.addresses(frame)

    dive(20, look)


@pytest.mark.parametrize("enabled", [True, False])
def test_nothing_is_collected_during_a_walk(addresses: CodeAddresses, enabled: bool) -> None:
    """What it makes may begin one collection behind it."""
    collections: list[str] = []

    def count(phase: str, _info: object) -> None:
        collections.append(phase)

    def look() -> tuple[int, bool, bool]:
        begun = len(collections)
        is_whole = walk(sys._getframe(), None, 1000) is not None  # makes hundreds of frame objects
        return len(collections) - begun, gc.isenabled(), is_whole

    assert kernels.KERNELS is not None
    walk = kernels.KERNELS.Walker(addresses._bases).walk
    dive(1, lambda: addresses.addresses(sys._getframe()))
    walk_of_python, walk = walk, lambda frame, *_: addresses.addresses(frame)
    look()  # its code too has addresses now
    walk = walk_of_python
    threshold, before = gc.get_threshold(), gc.isenabled()
    gc.callbacks.append(count)
    try:
        gc.set_threshold(10)
        if not enabled:
            gc.disable()
        begun, was_enabled, is_whole = dive(600, look)
    finally:
        gc.set_threshold(*threshold)
        if before:
            gc.enable()
        gc.callbacks.remove(count)
    assert is_whole
    assert begun <= 2 * enabled  # its start and its stop
    assert was_enabled == enabled


def test_what_is_no_frame_is_refused(addresses: CodeAddresses) -> None:
    for thing in (None, 1, dive, dive.__code__):
        with pytest.raises(TypeError):
            walked(addresses, thing)


def test_an_address_that_is_none_is_an_error(addresses: CodeAddresses) -> None:
    frame = sys._getframe()
    addresses.addresses(frame)
    assert kernels.KERNELS is not None
    walk = kernels.KERNELS.Walker(addresses._bases).walk
    wrong: Any
    for wrong in ("x", -1, 1 << 64):
        addresses._bases[id(frame.f_code)] = wrong
        for _ in range(2):
            with pytest.raises((TypeError, OverflowError)):
                walk(frame, None, 1000)
        assert gc.isenabled()
