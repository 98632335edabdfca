from __future__ import annotations

import itertools
import os
import signal
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest
from tests.server.recorded import recording

import dotnetdiag
from dotnetdiag.nettrace import read
from dotnetdiag.server import code_addresses, kernels
from dotnetdiag.server.code_addresses import CodeAddresses, CodeRange
from dotnetdiag.server.method_rundown import MethodRundown
from dotnetdiag.server.registry import RUNDOWN, Registry

FORM_IDS = ["python", *(["compiled"] if kernels.COMPILED else [])]


@pytest.fixture(params=FORM_IDS)
def addresses(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CodeAddresses:
    if request.param == "python":
        monkeypatch.setattr(kernels, "KERNELS", None)
    return CodeAddresses()


def frame() -> FrameType:
    return sys._getframe(1)


def range_of(addresses: CodeAddresses, address: int) -> CodeRange:
    (found,) = [one for one in addresses.ranges() if one.start <= address < one.start + one.size]
    return found


def line_of(found: CodeRange, address: int) -> int:
    return [line for offset, line in found.lines if found.start + offset <= address][-1]


def test_an_address_and_the_one_before_it_are_the_function_and_the_line(addresses: CodeAddresses) -> None:
    line = sys._getframe().f_lineno
    for address in (addresses.addresses(frame())[0], addresses.addresses(frame())[0] - 1):
        found = range_of(addresses, address)
        assert found.code is sys._getframe().f_code
        assert found.file == __file__
        assert line_of(found, address) == line + 1


def test_every_instruction_has_an_address_of_its_own_line(addresses: CodeAddresses) -> None:
    def steps() -> Iterator[tuple[int, int]]:
        yield addresses.addresses(frame())[0], sys._getframe().f_lineno
        yield (
            addresses.addresses(frame())[0],
            sys._getframe().f_lineno,
        )
        for _ in range(2):
            yield addresses.addresses(frame())[0], sys._getframe().f_lineno

    for address, line in steps():
        assert abs(line_of(range_of(addresses, address), address - 1) - line) <= 1


def test_a_generator_that_has_not_begun_has_an_address_too(addresses: CodeAddresses) -> None:
    def generate() -> Iterator[int]:
        yield 1

    generator = generate()
    (address, *_) = addresses.addresses(generator.gi_frame)  # type: ignore[attr-defined]
    assert range_of(addresses, address).qualified_name.endswith("generate")
    assert range_of(addresses, address - 1).qualified_name.endswith("generate")


def test_ranges_do_not_meet(addresses: CodeAddresses) -> None:
    addresses.addresses(sys._getframe())
    addresses.named("a", "b")
    ranges = sorted((one.start, one.start + one.size) for one in addresses.ranges())
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(ranges))


def test_a_stack_is_as_deep_as_it_is_and_no_deeper_than_the_limit(
    addresses: CodeAddresses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dive(depth: int) -> bytes:
        return dive(depth - 1) if depth else addresses.stack()

    shallow = len(addresses.stack()) // 8
    assert len(dive(100)) // 8 == shallow + 101
    monkeypatch.setattr(code_addresses, "FRAMES_LIMIT", 50)
    deep = struct.unpack("<50Q", dive(100))
    assert len(set(deep[1:])) == 1  # the outermost are left out


def test_beyond_the_limits_code_and_names_are_one(addresses: CodeAddresses, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_addresses, "CODE_LIMIT", 1)
    monkeypatch.setattr(code_addresses, "NAME_LIMIT", 2)
    stack = addresses.addresses(sys._getframe())
    assert len(stack) > 2
    ranges = {range_of(addresses, address).qualified_name for address in stack}
    assert ranges == {"test_beyond_the_limits_code_and_names_are_one", "code beyond the limit"}
    assert addresses.named("m", "a") == addresses.named("m", "a") != addresses.named("m", "b")
    assert addresses.named("m", "c") == addresses.named("m", "d") != addresses.named("m", "b")


def test_rundown_names_functions_files_and_lines(addresses: CodeAddresses, tmp_path: Path) -> None:
    registry = Registry()
    registry.add(MethodRundown(addresses))
    path = tmp_path / "x.nettrace"
    with recording(path, registry, "None", rundown_keyword=0x80020139):
        address = addresses.addresses(sys._getframe())[0]
        addresses.named("asyncio", "orders")
        line = sys._getframe().f_lineno - 2
    events = [one for one in dotnetdiag.open(path).events() if one.provider == RUNDOWN]
    methods = {one.MethodName: one for one in events if one.name == "Method/DCStopVerbose"}
    this = methods[test_rundown_names_functions_files_and_lines.__name__]
    assert this.MethodStartAddress < address < this.MethodStartAddress + this.MethodSize
    assert this.MethodNamespace == __name__
    assert this.MethodSignature.startswith("(test_code_addresses.py:")
    assert methods["orders"].MethodNamespace == "task"
    (module,) = [one for one in events if one.name == "Loader/ModuleDCStop" and one.ModuleID == this.ModuleID]
    assert module.ModuleILPath == __file__
    (lines,) = [one for one in events if one.name == "Method/ILToNativeMapDCStop" and one.MethodID == this.MethodID]
    offset = address - 1 - this.MethodStartAddress
    assert [il for il, native in zip(lines.ILOffsets, lines.NativeOffsets, strict=True) if native <= offset][-1] == line
    assert read(path.read_bytes()).complete


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_another_thread_adds_leaves_the_child_a_free_lock() -> None:
    addresses = CodeAddresses()
    held, over = threading.Event(), threading.Event()

    def hold() -> None:
        with addresses._lock:
            held.set()
            over.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert held.wait(60)
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        os._exit(0 if addresses.addresses(sys._getframe()) else 1)
    over.set()
    holder.join()
    assert os.waitpid(pid, 0)[1] == 0
