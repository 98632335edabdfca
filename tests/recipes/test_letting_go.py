"""Pages of a mapped recording are taken out of the process, by whichever way there is, and are there when they are looked at again."""

from __future__ import annotations

import mmap
import os
import sys
import time
from pathlib import Path

import pytest

from dotnetdiag.nettrace import kernels
from dotnetdiag.nettrace.buffers import MappedFile
from dotnetdiag.recipes.trace_files import _Pool, _releaser

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells of mappings")

SIZE = 1 << 20
WAIT_S = 10.0


def mapped_kb(path: Path) -> int:
    """How much of a file this process has in memory."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8", errors="surrogateescape").splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            inside = words[-1] == str(path)
        elif inside and words[0] == "Rss:":
            found += int(words[1])
    return found


@pytest.mark.parametrize("threads", [0, 1])
@pytest.mark.parametrize("form", ["compiled", "plain"])
def test_pages_are_given_back(threads: int, form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if form == "plain":
        monkeypatch.setattr(kernels, "KERNELS", None)
    elif not kernels.COMPILED:
        pytest.skip("the kernels are not compiled")
    data = os.urandom(SIZE)
    path = tmp_path / "recording"
    path.write_bytes(data)
    with path.open("rb") as file:
        view = memoryview(MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ))
    release = _releaser(view, _Pool(threads) if threads else None)
    assert release is not None
    assert bytes(view) == data
    assert mapped_kb(path) == SIZE >> 10
    release(1, 1)
    release(SIZE - 1, SIZE)  # no whole page
    release(1, SIZE)
    until = time.monotonic() + WAIT_S
    while mapped_kb(path) > mmap.PAGESIZE >> 10 and time.monotonic() < until:
        time.sleep(0.01)
    assert mapped_kb(path) == mmap.PAGESIZE >> 10
    assert bytes(view) == data


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_gives_pages_back_too(tmp_path: Path) -> None:
    """The threads of the pool are its parent's."""
    path = tmp_path / "recording"
    path.write_bytes(os.urandom(SIZE))
    with path.open("rb") as file:
        view = memoryview(MappedFile(file.fileno(), 0, access=mmap.ACCESS_READ))
    pool = _Pool(1)
    release = _releaser(view, pool)
    assert release is not None
    pool.submit(int, 0).result()
    child = os.fork()
    if not child:
        bytes(view)
        release(0, SIZE)
        os._exit(min(mapped_kb(path), 255))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
