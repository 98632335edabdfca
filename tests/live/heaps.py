"""The ``heap`` workload, which makes its objects before it is ready, and says how many."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from tests.live.runtimes import command


@dataclass(frozen=True, slots=True)
class HeapTarget:
    """A process, and the counts that it says of its heap."""

    process: subprocess.Popen[str]
    counts: Mapping[str, int]

    @property
    def pid(self) -> int:
        return self.process.pid


@contextmanager
def heap_workload(runtime: str, nodes: int = 1000, leaves: int = 500, **settings: str) -> Iterator[HeapTarget]:
    """A process with such a heap, which is killed in the end. ``settings`` are variables of its environment."""
    words, own = command(runtime, "heap", f"nodes={nodes}", f"leaves={leaves}")
    process = subprocess.Popen(words, stdout=subprocess.PIPE, env={**os.environ, **own, **settings}, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said.startswith("done heap"), said
        assert process.stdout.readline().startswith("ready")
        yield HeapTarget(process, {name: int(value) for name, value in (word.split("=") for word in said.split()[2:])})
    finally:
        process.kill()
        process.communicate()
