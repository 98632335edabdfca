"""Mutation tests: change a room's code in one place, run the room's tests, see whether one fails. ``make mutants ROOM=ipc``.

The mutants are those of cosmic-ray (operators on numbers, comparisons, arithmetic, conditions, loops, exceptions, decorators), and
dropped statements. Wording is not mutated. Its own runner starts a process, and so pytest, for each mutant; this one forks a process
that has imported all libraries but none of our modules, so that a mutant costs the tests that reach it and little more. Nothing is
written into the tree: where only the body of a function differs, its code is exchanged in a process that has collected all tests already;
otherwise the changed module is given by an import hook.

What is found goes into tests/MUTANTS.md; why a survivor is kept stands in tests/mutants_kept.toml.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import importlib
import importlib.machinery
import importlib.util
import inspect
import itertools
import json
import math
import os
import random
import re
import resource
import signal
import sys
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType, FunctionType
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[1]
SOURCE = CHECKOUT / "src" / "dotnetdiag"
REPORT, KEPT = CHECKOUT / "tests" / "MUTANTS.md", CHECKOUT / "tests" / "mutants_kept.toml"
TESTS = {
    "wire": ["tests/wire", "tests/test_wire.py"],
    "ipc": ["tests/ipc"],
    "providers": ["tests/providers"],
    "client": ["tests/client"],
    "transport": ["tests/transport"],
    "nettrace": ["tests/nettrace"],
    "events": ["tests/events"],
    "trace": ["tests/trace"],
    "analysis": ["tests/analysis"],
    "export": ["tests/export"],
    "recipes": ["tests/recipes"],
}
LEFT_OUT = re.compile(
    "NoOp|Variable(Inserter|Replacer)"  # these need names to work with
    "|ReplaceComparisonOperator_(?!Is).*_Is(Not)?"  # is it equal, or the same? Of small values that is up to the interpreter
)
EXAMPLES = 30
"""Of a property. The full number finds little more, and takes most of the time."""
SLOWEST_S = {"nettrace": 2.0, "events": 2.0, "trace": 2.0, "export": 2.0, "recipes": 5.0}
"""Tests of these rooms that take longer are left out: all bytes of a trace flipped, processes with a limit of their memory. What only
they would see counts as a survivor.
"""
MEMORY_BYTES = 3 << 30
SMALLEST_LIMIT_S = 5.0
FIRST_FILE = 100
"""A process that ends with 100 and more says which file of tests has seen the mutant."""


# mutants --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """One change of one file. ``function`` is the first line of the function that it stands in, 0 for none."""

    path: Path
    line: int
    function: int
    before: str
    after: str
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        """What it is known by when lines have moved."""
        return str(self.path.relative_to(SOURCE)), self.before, self.after


def mutants_of(path: Path) -> list[Mutant]:
    """All that differ from the original, and from each other, in what is executed."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator, operator_names

    source = path.read_text(encoding="utf-8")
    kinds = [get_operator(name) for name in operator_names() if not LEFT_OUT.fullmatch(name.rpartition("/")[2])]
    operators = [*(kind() for kind in kinds), drop_statement()]
    functions, found = _functions(source), []
    for lines_before, statement in _statements(source):
        seen, nodes = {_executed(statement)}, list(ast_nodes(get_ast(statement)))
        after_it = source.splitlines(keepends=True)[lines_before + statement.count("\n") :]
        for operator in operators:
            places = [place for node in nodes for place in operator.mutation_positions(node)]
            for occurrence, ((line, _), _) in enumerate(places):
                try:
                    changed = mutate_code(statement, operator, occurrence)
                except AttributeError:  # the operator for exceptions knows no dotted names
                    continue
                executed = None if changed is None else _executed(changed)
                if changed is None or executed is None or executed in seen:
                    continue
                seen.add(executed)
                whole = "".join([*source.splitlines(keepends=True)[:lines_before], changed, *after_it])
                line += lines_before
                function = max((first for first, last in functions if first <= line <= last), default=0)
                before, after = _difference(source, whole)
                found.append(Mutant(path=path, line=line, function=function, before=before, after=after, source=whole))
    return sorted(found, key=lambda one: one.line)


def _statements(source: str) -> Iterator[tuple[int, str]]:
    """The statements of a module, each with the number of lines before it: to change one takes no time for the others."""
    lines = source.splitlines(keepends=True)
    nodes = ast.parse(source).body
    starts = [min([one.lineno, *(other.lineno for other in getattr(one, "decorator_list", []))]) - 1 for one in nodes]
    for start, end in itertools.pairwise([*starts, len(lines)]):
        yield start, "".join(lines[start:end])


def drop_statement() -> Any:
    """An operator of ours: calls, assignments and raises that are not made. Fields of classes stay: without them nothing works."""
    from cosmic_ray.operators.operator import Operator
    from parso.python.tree import Keyword

    class DropStatement(Operator):  # type: ignore[misc]
        def mutation_positions(self, node: Any) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
            dropped = node.type in ("expr_stmt", "atom_expr", "raise_stmt", "yield_expr", "del_stmt")
            in_function = dropped and node.parent.type == "simple_stmt" and node.search_ancestor("funcdef") is not None
            if in_function and not (node.type == "expr_stmt" and any(one.type == "annassign" for one in node.children)):
                yield node.start_pos, node.end_pos

        def mutate(self, node: Any, index: int) -> Any:  # noqa: ARG002 - of the base class
            return Keyword("pass", node.start_pos, node.get_first_leaf().prefix)

        @classmethod
        def examples(cls) -> tuple[()]:
            return ()

    return DropStatement()


def _executed(source: str) -> str | None:
    """What is left of a text without annotations, comments and what only type checkers read; None when it is no Python.

    Nor is it looked at whether pairs are told to be of equal length.
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            node.annotation = ast.Constant(None)
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.arguments):  # the `*` between parameters is taken for a product
            node.args, node.posonlyargs, node.kwonlyargs = [*node.posonlyargs, *node.args, *node.kwonlyargs], [], []
            node.defaults, node.kw_defaults = [*node.defaults, *(one for one in node.kw_defaults if one)], []
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):  # never taken
            node.test, node.body = ast.Constant(None), []
        elif isinstance(node, ast.ClassDef) and any(ast.unparse(base).startswith("Protocol") for base in node.bases):
            node.body = []
        elif isinstance(node, ast.keyword) and node.arg == "strict":  # of zip: an assertion
            node.value = ast.Constant(None)
    return ast.dump(tree)


def _functions(source: str) -> list[tuple[int, int]]:
    """First line (of a decorator, where there is one, as in code objects) and last line of each."""
    return [
        (min([node.lineno, *(one.lineno for one in node.decorator_list)]), node.end_lineno or node.lineno)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def _difference(source: str, changed: str) -> tuple[str, str]:
    """The lines that differ, in one line each."""
    old, new = source.splitlines(), changed.splitlines()
    head = next(index for index in range(len(old)) if index >= len(new) or old[index] != new[index])
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    return tuple(  # type: ignore[return-value] # there are two
        re.sub(r"\s+", " ", " ".join(lines[head : len(lines) - tail])).strip() for lines in (old, new)
    )


# one run of the tests ---------------------------------------------------------------------------------------------------


class Changed(importlib.machinery.SourceFileLoader):
    """Finds one module of ours, with another source."""

    def __init__(self, mutant: Mutant) -> None:
        parts = mutant.path.relative_to(SOURCE.parent).with_suffix("").parts
        self.is_root = parts[-1] == "__init__"
        super().__init__(".".join(parts[:-1] if self.is_root else parts), str(mutant.path))
        self.source = mutant.source

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:  # noqa: ARG002 - a protocol
        if fullname != self.name:
            return None
        folders = [str(Path(self.path).parent)] if self.is_root else None
        return importlib.util.spec_from_file_location(
            fullname, self.path, loader=self, submodule_search_locations=folders
        )

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - of the base class
        return compile(self.source, self.path, "exec", dont_inherit=True)


class Watch:
    """How long each test takes and, where ``folder`` is given, which functions in it each test reaches ("": what imports reach)."""

    def __init__(self, folder: Path | None) -> None:
        self.prefix = None if folder is None else f"{folder}{os.sep}"
        self.durations: dict[str, float] = {}
        self.failed: set[str] = set()
        self.reached: dict[str, list[tuple[str, int]]] = {}
        self._now: set[tuple[str, int]] = set()

    def trace(self, frame: FrameType, event: str, _: object) -> None:  # noqa: ARG002 - sys.settrace
        code = frame.f_code
        if self.prefix and code.co_filename.startswith(self.prefix):
            self._now.add((code.co_filename, code.co_firstlineno))

    def take(self, name: str) -> None:
        self.reached[name] = sorted({*self._now, *self.reached.get(name, ())})
        self._now.clear()

    def pytest_runtestloop(self) -> None:
        self.take("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.add(report.nodeid)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        if self.prefix:  # a test may have traced something itself
            sys.settrace(self.trace)
        start = time.perf_counter()
        result = yield
        self.durations[item.nodeid] = time.perf_counter() - start
        self.take(item.nodeid)
        return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """What the tests do without a mutant. ``failed`` are left out: they say nothing; so are those that take longer than
    ``slowest_s``.
    """

    durations: dict[str, float]
    slowest_s: float
    failed: set[str]
    reached: dict[str, set[tuple[str, int]]]
    modules: list[str]

    def chosen(self, names: list[str], mutant: Mutant) -> list[str]:
        """The tests that can see a mutant, the fast ones first."""
        place = (str(mutant.path), mutant.function)
        everywhere = not mutant.function or place in self.reached[""]
        sound = [name for name in names if name not in self.failed and self.durations.get(name, 0.0) <= self.slowest_s]
        able = [name for name in sound if everywhere or place in self.reached.get(name, {place})]
        able = (
            able or sound
        )  # threads without a threading.Thread are not traced: nobody is seen to reach what they call
        return sorted(able, key=lambda name: self.durations.get(name, 0.0))


class Choice:
    """Runs what can see the mutant."""

    def __init__(self, baseline: Baseline, mutant: Mutant) -> None:
        self.baseline, self.mutant = baseline, mutant

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        by_name = {item.nodeid: item for item in items}
        items[:] = [by_name[name] for name in self.baseline.chosen(list(by_name), self.mutant)]


class Collected:
    """In place of running the tests that were collected: runs them, or some of them, for each mutant, in a process forked here."""

    def __init__(self, baseline: Baseline, codes: dict[Mutant, CodeType], jobs: int, limit_s: float) -> None:
        self.baseline, self.codes, self.jobs, self.limit_s = baseline, codes, jobs, limit_s
        self.outcomes: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        by_name = {item.nodeid: item for item in session.items}
        functions = functions_by_place()

        def run_chosen(mutant: Mutant) -> int:
            code, changed = self.codes[mutant], Changed(mutant)
            there = functions.get(place_of(code), [])
            for function in there:
                function.__code__ = code
            if not there:  # a module that is imported when it is first needed
                assert changed.name not in sys.modules
                sys.meta_path.insert(0, changed)
            chosen = [by_name[name] for name in self.baseline.chosen(list(by_name), mutant)]
            for item, following in zip(chosen, [*chosen[1:], None], strict=False):
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.testsfailed or session.shouldstop:
                    return 1
            return 0

        gc.freeze()  # what is not touched is not copied
        self.outcomes = run_all(list(self.codes), run_chosen, self.jobs, self.limit_s)
        return True


def code_of_functions(code: CodeType) -> tuple[list[object], dict[tuple[str, int], CodeType]]:
    """What a module or class does but for its functions' bodies; the functions, methods included, by name and line."""
    rest: list[object] = [code.co_code, code.co_names, code.co_qualname]
    functions: dict[tuple[str, int], CodeType] = {}
    for constant in code.co_consts:
        if not isinstance(constant, CodeType):
            rest.append((type(constant), constant))
        elif constant.co_name.startswith("<"):  # a comprehension or lambda
            rest.append(constant)
        elif constant.co_flags & inspect.CO_OPTIMIZED:
            rest.append(constant.co_qualname)
            functions[constant.co_qualname, constant.co_firstlineno] = constant
        else:
            inner, methods = code_of_functions(constant)
            rest.append(inner)
            functions |= methods
    return rest, functions


def changed_function(mutant: Mutant) -> CodeType | None:
    """The new code of the one function whose body differs; None when there is more to a mutant than that."""
    original = compile(mutant.path.read_text(encoding="utf-8"), str(mutant.path), "exec", dont_inherit=True)
    changed = compile(mutant.source, str(mutant.path), "exec", dont_inherit=True)
    (rest, old), (new_rest, new) = code_of_functions(original), code_of_functions(changed)
    differing = [key for key in old if old[key] != new.get(key)]
    if rest != new_rest or len(differing) != 1 or old.keys() != new.keys():
        return None
    code = new[differing[0]]
    return code if code.co_freevars == old[differing[0]].co_freevars and not _has_inner_functions(code) else None


def _has_inner_functions(code: CodeType) -> bool:
    """``def`` and lambda, which may have been made at import; a comprehension is no such thing."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return any(
        not one.co_name.startswith("<") or one.co_name == "<lambda>" or _has_inner_functions(one) for one in inner
    )


def functions_by_place() -> dict[tuple[str, str, int], list[FunctionType]]:
    """All functions of ours that there are now, by file, name and line."""
    found: dict[tuple[str, str, int], list[FunctionType]] = {}
    for one in gc.get_objects():
        if type(one) is FunctionType and one.__code__.co_filename.startswith(str(SOURCE)):
            found.setdefault(place_of(one.__code__), []).append(one)
    return found


def place_of(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def run_pytest(room: str, *plugins: object, tests: Sequence[str] = (), to_the_end: bool = False) -> int:
    from hypothesis import HealthCheck, Phase, settings

    settings.register_profile(
        "mutants",
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("mutants")
    tests = tests or [name for name in TESTS[room] if (CHECKOUT / name).exists()]
    options = [
        *([] if to_the_end else ["-x"]),
        "-q",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-m",
        "not live",
    ]
    if not (CHECKOUT / "tests" / room / "conftest.py").exists():
        options.append("--noconftest")  # that of all tests is about live runtimes and the last lines, and imports much
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # of what this process has imported before
    return int(pytest.main([*options, *tests], plugins=list(plugins)))


# processes --------------------------------------------------------------------------------------------------------------


def fork(log: Path | None) -> int:
    """As ``os.fork``; the child says nothing, or says it into a file, and takes no more memory than it may."""
    sys.stdout.flush()
    if pid := os.fork():
        return pid
    os.setsid()
    out = os.open(log or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    return 0


def measure(room: str, *, trace: bool, folder: Path) -> dict[str, Any]:
    """Run the room's tests in a process of their own; raises SystemExit when they cannot be run."""
    answer, log = folder / "baseline.json", folder / "baseline.txt"
    pid = fork(log)
    if not pid:
        status = 70
        try:
            watch = Watch(SOURCE / room if trace else None)
            if trace:
                import threading

                threading.settrace(watch.trace)
                sys.settrace(watch.trace)
            status = run_pytest(room, watch, to_the_end=True)
            sys.settrace(None)
            answer.write_text(json.dumps([watch.durations, watch.reached, sorted(watch.failed), sorted(sys.modules)]))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code not in (0, 1):
        raise SystemExit(f"{log.read_text()}\nthe tests of {room} cannot be run ({code})")
    return dict(zip(("durations", "reached", "failed", "modules"), json.loads(answer.read_text()), strict=True))


def baseline_of(room: str, folder: Path) -> Baseline:
    timed, traced = measure(room, trace=False, folder=folder), measure(room, trace=True, folder=folder)
    reached = {name: {(path, line) for path, line in places} for name, places in traced["reached"].items()}
    failed = {*timed["failed"], *traced["failed"]}
    for name in sorted(failed):
        print(f"left out, it fails without a mutant: {name}")
    slowest_s = SLOWEST_S.get(room, math.inf)
    for name, seconds in timed["durations"].items():
        if seconds > slowest_s:
            print(f"left out, it takes {seconds:.0f} s: {name}")
    return Baseline(
        durations=timed["durations"], slowest_s=slowest_s, failed=failed, reached=reached, modules=timed["modules"]
    )


def import_libraries(modules: list[str]) -> None:
    """Once, for all the processes that are forked from this one."""
    for name in modules:
        if name.partition(".")[0] not in ("dotnetdiag", "tests", "conftest", "__main__", "sitecustomize"):
            with contextlib.suppress(Exception):
                importlib.import_module(name)


def run_all(
    mutants: list[Mutant],
    child: Callable[[Mutant], int],
    jobs: int,
    limit_s: float,
    learn: Callable[[Mutant, int], None] = lambda _, __: None,
) -> list[str]:
    """``killed``, ``timeout`` or ``survived`` for each. ``child`` runs tests in a process of its own; 0: none failed.

    ``learn`` is told what the child said.
    """
    outcomes = [""] * len(mutants)
    waiting = list(reversed(range(len(mutants))))
    running: dict[int, tuple[int, float]] = {}
    told = time.monotonic()
    while waiting or running:
        while waiting and len(running) < jobs:
            index = waiting.pop()
            pid = fork(None)
            if not pid:
                status = 70
                try:
                    status = child(mutants[index])
                finally:
                    os._exit(status)
            running[pid] = (index, time.monotonic() + limit_s)
        for pid, (index, end) in list(running.items()):
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                outcomes[index] = "killed" if status else "survived"
                learn(mutants[index], os.waitstatus_to_exitcode(status))
            elif time.monotonic() > end:
                outcomes[index] = "timeout"
                os.waitpid(_kill(pid), 0)
            else:
                continue
            _kill(pid)  # what it started
            del running[pid]
        time.sleep(0.002)
        if time.monotonic() - told > 15:
            told = time.monotonic()
            count = len(mutants) - len(waiting)
            print(f"{count} of {len(mutants)}, {outcomes.count('survived')} survived", file=sys.stderr, flush=True)
    return outcomes


def _kill(pid: int) -> int:
    """All of a process group that is ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    return pid


def outcomes_of(room: str, mutants: list[Mutant], baseline: Baseline, jobs: int, limit_s: float) -> list[str]:
    """First those whose code can be exchanged, which is fast, then the others; in the order of ``mutants``."""
    # what imports have called has had its effect already
    at_import = baseline.reached[""]
    later = [mutant for mutant in mutants if (str(mutant.path), mutant.function) not in at_import]
    codes = {mutant: code for mutant in later if (code := changed_function(mutant)) is not None}
    slow = [mutant for mutant in mutants if mutant not in codes]

    files = sorted({name.partition("::")[0] for name in baseline.durations})
    kills: Counter[tuple[Path | None, str]] = Counter()

    def import_changed(mutant: Mutant) -> int:
        sys.meta_path.insert(0, Changed(mutant))
        able = {name.partition("::")[0] for name in baseline.chosen(list(baseline.durations), mutant)}
        # what has killed others of this file first, one file of tests after the other: most of the time goes into collecting
        for file in sorted(able, key=lambda file: (-kills[mutant.path, file], -kills[None, file])):
            if run_pytest(room, Choice(baseline, mutant), tests=[file]) not in (0, 5):  # 5: none was left to run
                return FIRST_FILE + files.index(file)
        return 0

    def learn(mutant: Mutant, status: int) -> None:
        if FIRST_FILE <= status < FIRST_FILE + len(files):
            kills.update([(mutant.path, files[status - FIRST_FILE]), (None, files[status - FIRST_FILE])])

    outcomes = dict(zip(slow, run_all(slow, import_changed, jobs, limit_s, learn), strict=True))
    collected = Collected(baseline, codes, jobs, limit_s)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        run_pytest(room, collected)
    outcomes |= dict(zip(codes, collected.outcomes, strict=True))
    return [outcomes[mutant] for mutant in mutants]


# the report -------------------------------------------------------------------------------------------------------------

HEAD = """# Mutants

Written by `make mutants ROOM=…` (tools/mutants.py): the room's code is changed in one place, and its tests are to fail. A mutant that
runs into the time limit counts as killed. Why a survivor is kept stands in mutants_kept.toml.

| room | mutants | killed | by the time limit | survived, kept with a reason | survived, not looked at | score |
|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a run has found. ``total`` is the number of mutants of which ``count`` were tried."""

    total: int
    count: int
    timeouts: int
    survived: Sequence[Mutant]

    def with_another(self, again: Result) -> Result:
        """The same when those that survived have been tried again."""
        return Result(
            total=self.total, count=self.count, timeouts=self.timeouts + again.timeouts, survived=again.survived
        )


def result_of(mutants: Sequence[Mutant], outcomes: Sequence[str], total: int) -> Result:
    return Result(
        total=total,
        count=len(mutants),
        timeouts=outcomes.count("timeout"),
        survived=[one for one, outcome in zip(mutants, outcomes, strict=True) if outcome == "survived"],
    )


def result_in(room: str, text: str, mutants: Sequence[Mutant]) -> Result:
    """What the report says of a room. Raises SystemExit when that is nothing."""
    row = re.search(rf"^\| {room} \| (\d+)(?: \(a sample of (\d+)\))? \| \d+ \| (\d+) \|", text, re.MULTILINE)
    if row is None:
        raise SystemExit(f"the report says nothing of {room}")
    places = {line.rpartition(" | ")[0] for line in text.splitlines()}
    return Result(
        total=int(row[2] or row[1]),
        count=int(row[1]),
        timeouts=int(row[3]),
        survived=[one for one in mutants if _place(one) in places],
    )


def _place(one: Mutant) -> str:
    file, before, after = (part.replace("|", "\\|") for part in one.key)
    return f"| {file}:{one.line} | `{before}` | `{after}`"


def report(room: str, result: Result, text: str) -> str:
    """The new text of the report; other rooms stay as they are."""
    kept = {(one["file"], one["before"], one["after"]): one["why"] for one in tomllib.loads(KEPT.read_text())["kept"]}
    known = sum(one.key in kept for one in result.survived)
    count = f"{result.count}" + (f" (a sample of {result.total})" if result.count < result.total else "")
    killed = result.count - len(result.survived)
    row = (
        f"| {room} | {count} | {killed} | {result.timeouts} | {known} | {len(result.survived) - known} "
        f"| {killed / result.count:.1%} |"
    )
    rows = {match[1]: match[0] for match in re.finditer(r"^\| (\w+) \| \d.*$", text, re.MULTILINE)} | {room: row}
    sections = {match[1]: match[0] for match in re.finditer(r"^## (\w+)\n.*?(?=^## |\Z)", text, re.M | re.S)}
    lines = [f"## {room}", "", "| file | line | instead | why it changes nothing |", "|---|---|---|---|"]
    lines += [f"{_place(one)} | {kept.get(one.key, 'not looked at')} |" for one in result.survived]
    sections[room] = "\n".join(lines) + "\n\n"
    order = [name for name in TESTS if name in rows]
    body = "".join(sections[name].rstrip("\n") + "\n\n" for name in order)
    return HEAD + "\n".join(rows[name] for name in order) + "\n\n" + body.rstrip("\n") + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="mutate a room, run its tests")
    parser.add_argument("room", choices=TESTS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sample", type=int, help="so many mutants, the same ones for one seed")
    parser.add_argument("--seed", type=int, default=0, help="of another sample: what no test was written for")
    parser.add_argument("--again", action="store_true", help="only those that survived, as the report says")
    parser.add_argument("--only", default="", help="a part of the file's path; nothing is written")
    options = parser.parse_args()
    os.chdir(CHECKOUT)
    sys.path[:0] = [str(SOURCE.parent), str(CHECKOUT)]
    os.environ.pop("CI", None)
    os.environ |= {"PYTHONPATH": str(SOURCE.parent), "OPENBLAS_NUM_THREADS": "1"}

    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        baseline = baseline_of(options.room, Path(folder))
    files = [path for path in sorted((SOURCE / options.room).rglob("*.py")) if options.only in str(path)]
    mutants = [mutant for path in files for mutant in mutants_of(path)]
    total = len(mutants)
    text = REPORT.read_text() if REPORT.exists() else ""
    before = result_in(options.room, text, mutants) if options.again else None
    if before is not None:
        mutants = list(before.survived)
    elif options.sample and options.sample < total:
        chosen = random.Random(options.seed).sample(range(total), options.sample)  # noqa: S311 - no secret
        mutants = [mutants[index] for index in sorted(chosen)]
    limit_s = max(SMALLEST_LIMIT_S, 5 * sum(one for one in baseline.durations.values() if one <= baseline.slowest_s))
    print(f"{options.room}: {total} mutants, {len(baseline.durations)} tests, at most {limit_s:.0f} s each", flush=True)
    import_libraries(baseline.modules)
    outcomes = outcomes_of(options.room, mutants, baseline, options.jobs, limit_s)
    for mutant, outcome in zip(mutants, outcomes, strict=True):
        if outcome == "survived":
            print(f"{mutant.path.relative_to(SOURCE)}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}")
    print(", ".join(f"{name}: {count}" for name, count in sorted(Counter(outcomes).items())))
    if not options.only:
        result = result_of(mutants, outcomes, total)
        REPORT.write_text(report(options.room, before.with_another(result) if before else result, text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
