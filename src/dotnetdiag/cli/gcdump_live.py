"""What a heap is taken from, a file or a process: for all verbs of ``gcdump`` that look into one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.cli.heap_types import say_problems
from dotnetdiag.cli.heap_walks import collect, say_pause
from dotnetdiag.cli.options import target_of, target_parameters
from dotnetdiag.cli.render import echo
from dotnetdiag.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

    from dotnetdiag.heap import Heap
    from dotnetdiag.heap.type_totals import TypeTotals
    from dotnetdiag.recipes.target import Target

_SECONDS = re.compile(r"[0-9]{1,9}(?:\.[0-9]+)?")
NO_SOURCE = "Give a FILE, or a process: --process-id, --name, --wait-for, --diagnostic-port, --dsrouter."


def seconds_or_duration(_: click.Context, __: click.Parameter, text: str | None) -> float | str | None:
    """Of an option: a number is one of seconds, as dotnet-gcdump has it; anything else is for ``seconds_of``."""
    return float(text) if text is not None and _SECONDS.fullmatch(text) else text


def timeout_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """``-t``, as the keyword ``timeout``: for ``seconds_of``."""
    return click.option(
        "-t",
        "--timeout",
        callback=seconds_or_duration,
        help="Give up when nothing has come of the heap, or no runtime, for so long: seconds, or 2m.  [default: 30, and a runtime "
        "that is not there yet is waited for however long]",
    )(function)


def source_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """A heap of a FILE or of a process; the command gets ``find``, which gives it."""
    import functools

    @functools.wraps(function)
    def with_source(
        *args: Any,
        pid: int | None,
        name: str | None,
        wait_for: str | None,
        port: str | None,
        router: str | None,
        timeout: float | str | None,
        dump: int | None,
        file: Path | None = None,
        **others: Any,
    ) -> Any:
        target = target_of(pid, name, wait_for, port, router)
        if (file is None) == (target is None):
            raise UsageError(NO_SOURCE if file is None else "a FILE is looked into, or a process: one of them")
        if target is not None and dump is not None:
            raise UsageError("--dump is for a FILE that has several")
        return function(*args, find=Find(file, target, timeout, dump), **others)

    dumps = click.option(
        "--dump", type=click.IntRange(min=1), help="Which of the dumps of a recording, from 1.  [default: 1]"
    )
    return target_parameters(timeout_option(dumps(with_source)))


@dataclass(frozen=True, slots=True)
class Find:
    """Gives the heap that is asked for, or what the report of its types needs of it. What is missing of it is said on stderr."""

    file: Path | None
    target: Target | None
    timeout: float | str | None
    dump: int | None

    def __call__(self) -> Heap:
        heap = _find(self.file, self.target, self.timeout, self.dump)
        say_problems(heap)
        return heap

    def totals(self) -> Heap | TypeTotals:
        """The totals by type alone, where a file gives them in less time than its heap."""
        totals = None
        if self.file is not None and self.dump is None:
            from dotnetdiag.recipes.heap_files import read_totals

            totals = read_totals(self.file)
        if totals is None:
            return self()
        say_problems(totals)
        return totals


def _find(file: Path | None, target: Target | None, timeout: float | str | None, dump: int | None) -> Heap:
    if target is not None:
        from dotnetdiag.recipes.heap_collect import HeapOptions

        done = collect(HeapOptions(target=target, timeout=timeout))
        say_pause(done)
        heap = done.heap
    else:
        from dotnetdiag.recipes.heap_files import open_heap

        assert file is not None
        heap = open_heap(file, dump)
        if heap.facts.dumps > 1 and dump is None:
            echo(f"The recording has {heap.facts.dumps} dumps; this is the first, --dump tells which.", err=True)
    return heap
