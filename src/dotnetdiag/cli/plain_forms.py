"""Commands that scripts call often, in the forms that need no parser: click takes 20 to 40 ms, which is most of what these take."""

from __future__ import annotations

import os

TRACING_ERROR = 2
"""As in ``exits``, which brings click."""


def run_plain(words: list[str]) -> int | None:
    """Run the command if it is one of these in such a form: its exit code, None where it is not. It does what the verb does with those words."""
    if "_DOTNETDIAG_COMPLETE" in os.environ:
        return None
    if words[:2] == ["gcdump", "collect"]:
        return _collect_heap(words[2:])
    return 0 if _reads(words) else None


def _reads(words: list[str]) -> bool:
    if words in (["ps"], ["ps", "--json"]):
        from dotnetdiag.cli.process_list import processes_as_json, show_processes

        processes_as_json() if len(words) > 1 else show_processes()
        return True
    if words[:2] == ["trace", "report"]:
        return _report_trace(words[2:])
    if words[:2] == ["gcdump", "report"] and words[3:] in ([], ["--json"]):
        path = words[2] if len(words) > 2 else ""
        return path.endswith(".gcdump") and _is_plain_file(path) and _report_heap(path, as_json=len(words) > 3)
    return False


def _report_trace(words: list[str]) -> bool:
    """False for more than one kind of report on one file that is there."""
    from dotnetdiag.cli.shown import KINDS, OTHERS, show

    as_json = words[-1:] == ["--json"]
    words = words[: len(words) - as_json]
    if len(words) != 2:
        return False
    kind, path = words if words[0] in KINDS else words[::-1]
    if kind not in KINDS or path in {*KINDS, *OTHERS} or path.startswith("-") or not _is_plain_file(path):
        return False
    from dotnetdiag.cli.lean import be_lean

    be_lean()
    from dotnetdiag.cli.losses import say_losses_of
    from dotnetdiag.cli.render import json_text
    from dotnetdiag.recipes import questions
    from dotnetdiag.recipes.trace_files import open_trace

    trace = open_trace(path)
    made = getattr(questions, kind)(trace)
    if as_json:
        json_text(made.document())
    else:
        show(kind, made)
    say_losses_of(trace)
    return True


def _is_plain_file(path: str) -> bool:
    """Of a file that cannot be read, or is named in a roundabout way, the long way has its own to say."""
    return os.path.isfile(path) and os.access(path, os.R_OK) and os.path.normpath(path) == path


def _report_heap(path: str, *, as_json: bool) -> bool:
    """False for a file that is not read by its records alone."""
    from dotnetdiag.cli.lean import collect_seldom

    collect_seldom()
    from dotnetdiag.recipes.heap_files import read_totals

    totals = read_totals(path)
    if totals is None:
        return False
    from dotnetdiag.cli.heap_types import SHOWN, say_problems, show_types
    from dotnetdiag.cli.render import json_text
    from dotnetdiag.recipes.heap_reports import report

    say_problems(totals)
    if as_json:
        json_text(report(totals))
    else:
        show_types(totals, totals.rows, "type", SHOWN)
    return True


def _collect_heap(words: list[str]) -> int | None:
    """None for anything but the number of a process and the name of a .gcdump."""
    given = dict(zip(words[::2], words[1::2], strict=False))
    pid, path = given.get("-p", ""), given.get("-o")
    if len(words) != 2 * len(given) or not {"-p"} <= given.keys() <= {"-p", "-o"}:
        return None
    if not (pid.isascii() and pid.isdecimal() and 0 < len(pid) < 10 and int(pid)):
        return None
    if path is not None and (not path.endswith(".gcdump") or path.startswith("-") or os.path.isdir(path)):
        return None
    from dotnetdiag.cli.lean import be_lean

    be_lean()
    from pathlib import Path

    from dotnetdiag.cli.heap_walks import collect_into
    from dotnetdiag.recipes.heap_collect import HeapOptions
    from dotnetdiag.recipes.target import Target

    options = HeapOptions(target=Target(pid=int(pid)))
    return 0 if collect_into(options, None if path is None else Path(path)) else TRACING_ERROR
