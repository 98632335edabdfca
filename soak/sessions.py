"""Sessions whose targets are stopped, continued, killed, or lose their socket at random moments: does every call come back in time?

Round after round a workload is started on one of the runtimes, some sessions of both shells record it, and something happens to it
while they start, run, or end. Every call has a limit: a watchdog says which one hangs. After each round there are as many
descriptors, threads and tasks as before, and every file is read: what it holds is whole, but for its very end.

    python soak/sessions.py [--seconds 240] [--seed N] [--no-record]
"""

from __future__ import annotations

import _thread
import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import machine, versions
from soak.record import record
from tests.descriptors import descriptors
from tests.live.runtimes import Target, workload

from dotnetdiag.client import Client, TraceSession
from dotnetdiag.client.aio import AsyncClient
from dotnetdiag.client.session_aio import AsyncTraceSession
from dotnetdiag.errors import DiagnosticsError
from dotnetdiag.ipc.session_life import State
from dotnetdiag.nettrace import Reader
from dotnetdiag.transport import UnixAddress, candidates

RUNTIMES = ("8", "9", "10", "NativeAOT")
WORKLOADS = (("flood", "threads=1", "each=100000000", "size=64"), ("events", "rounds=100000"), ("idle", "seconds=600"))
PROVIDERS = "Workload-Manifest:0xffffffffffffffff:5,Microsoft-Windows-DotNETRuntime:0x1:4"
TROUBLES = ("stopped", "continued", "killed", "socket deleted", "nothing")
SESSIONS = 6
"""At the same time, of one target; half of them under asyncio."""
TIMEOUT_S, DRAIN_TIMEOUT_S, CLOSE_TIMEOUT_S = 3.0, 3.0, 2.0
CLOSE_LIMIT_S = CLOSE_TIMEOUT_S + 2 * 0.5
"""``close`` waits twice so long for the thread that sent the stop."""
SLACK_S = 3.0
"""A busy machine is late by less."""
HANGS_S = 30.0
"""Over its limit: the call hangs."""
_ABOUT = """\
One row for each run of the sessions whose targets are in trouble. *over limit* is of the call that was latest, against the
limit that it was given; less than 0 is in time. *whole* are the files with an end, *cut* those whose target ended in the middle.
"""
_COLUMNS = (
    "date",
    "machine",
    "versions",
    "seconds",
    "seed",
    "sessions",
    "by what happened",
    "whole, cut",
    "over limit s",
)


class Watch:
    """The calls under way, and the latest of those that came back."""

    def __init__(self) -> None:
        self.worst_s, self.worst_call = float("-inf"), ""
        self._calls: dict[int, tuple[str, float, float, int]] = {}
        self._numbers = iter(range(1 << 62))
        threading.Thread(target=self._look, name="watchdog", daemon=True).start()

    @contextmanager
    def call(self, name: str, limit_s: float) -> Iterator[None]:
        """A call that is to come back within its limit."""
        number, began = next(self._numbers), time.monotonic()
        self._calls[number] = name, began, limit_s, threading.get_ident()
        try:
            yield
        finally:
            del self._calls[number]
            over_s = time.monotonic() - began - limit_s
            if over_s > self.worst_s:
                self.worst_s, self.worst_call = over_s, name

    def _look(self) -> None:
        while True:
            time.sleep(0.5)
            for name, began, limit_s, thread in tuple(self._calls.values()):
                if time.monotonic() - began > limit_s + HANGS_S:
                    print(f"FAILED: {name} hangs; its limit is {limit_s:g} s", file=sys.stderr)
                    for ident, frame in sys._current_frames().items():
                        mark = " (the one that called)" if ident == thread else ""
                        print(f"thread {ident}{mark}:\n{''.join(traceback.format_stack(frame))}", file=sys.stderr)
                    sys.stderr.flush()
                    os._exit(1)


@dataclass(kw_only=True)
class Outcome:
    """Of all rounds."""

    seed: int
    seconds: float = 0.0
    sessions: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    whole: int = 0
    cut: int = 0
    problems: list[str] = field(default_factory=list)
    worst_s: float = 0.0
    worst_call: str = ""

    @property
    def account(self) -> str:
        """One line."""
        by = ", ".join(f"{count} {name}" for name, count in sorted(self.happened.items()))
        files = f"{self.whole} files whole, {self.cut} cut"
        return f"{self.sessions} sessions ({by}); {files}; latest call {self.worst_s:+.1f} s over its limit ({self.worst_call})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One session of a round, decided beforehand: the moments are the seed's."""

    name: str
    by_pid: bool
    leave: str
    duration_s: float
    wait_s: float
    rundown_keyword: int
    file: Path


LEAVES = ("save", "read", "close", "abort")


class Round:
    """One target and its sessions."""

    def __init__(self, numbers: random.Random, folder: Path, watch: Watch, outcome: Outcome) -> None:
        self.watch, self.outcome = watch, outcome
        self.runtime, self.words = numbers.choice(RUNTIMES), numbers.choice(WORKLOADS)
        self.trouble = numbers.choice(TROUBLES)
        self.after_s, self.rest_s = numbers.uniform(0.0, 1.2), numbers.uniform(0.0, 2.0)
        self.plans = [self._plan(numbers, folder, number) for number in range(SESSIONS)]
        self.states: dict[str, State] = {}

    def _plan(self, numbers: random.Random, folder: Path, number: int) -> Plan:
        shell = "async" if number % 2 else "sync"
        leave = numbers.choice(LEAVES)
        return Plan(
            name=f"{shell} {leave} of {self.runtime}, {self.words[0]}, {self.trouble} after {self.after_s:.2f} s",
            by_pid=numbers.random() < 0.7,
            leave=leave,
            duration_s=numbers.uniform(0.0, 1.0),
            wait_s=numbers.uniform(0.0, 0.5),
            rundown_keyword=numbers.choice((0, 0x80020139)),
            file=folder / f"{number}.nettrace",
        )

    def run(self) -> None:
        with workload(self.runtime, *self.words) as target:
            address = str(candidates(target.pid)[0].address)
            makers: list[Callable[[], None]] = [
                lambda plan=plan: self._sync(plan, target, address)  # type: ignore[misc]
                for plan in self.plans[::2]
            ]
            makers.append(lambda: asyncio.run(self._all_async(target, address)))
            threads = [threading.Thread(target=self._checked, args=(make,)) for make in makers]
            for thread in threads:
                thread.start()
            self._happen(target)
            for thread in threads:
                thread.join()
        self.outcome.sessions += len(self.plans)
        self.outcome.happened[self.trouble] += len(self.plans)
        for plan in self.plans:
            self._read(plan)

    def _happen(self, target: Target) -> None:
        time.sleep(self.after_s)
        if self.trouble in ("stopped", "continued"):
            os.kill(target.pid, signal.SIGSTOP)
        if self.trouble == "continued":
            time.sleep(self.rest_s)
            os.kill(target.pid, signal.SIGCONT)
        if self.trouble == "killed":
            target.process.kill()
        if self.trouble == "socket deleted":
            for endpoint in candidates(target.pid):
                assert isinstance(endpoint.address, UnixAddress)
                Path(endpoint.address.path).unlink()

    def _checked(self, make: Callable[[], None]) -> None:
        try:
            make()
        except BaseException:
            self.outcome.problems.append(f"{self.plans[0].name}: {traceback.format_exc()}")

    # the same twice ---------------------------------------------------------------------------------------------------

    def _sync(self, plan: Plan, target: Target, address: str) -> None:
        time.sleep(plan.wait_s)
        client = (
            Client(target.pid, timeout_s=TIMEOUT_S) if plan.by_pid else Client.connect(address, timeout_s=TIMEOUT_S)
        )
        call = self.watch.call
        try:
            with call(f"trace, {plan.name}", TIMEOUT_S):
                session = client.trace(
                    PROVIDERS, buffer_mb=64, rundown_keyword=plan.rundown_keyword, drain_timeout_s=DRAIN_TIMEOUT_S
                )
        except DiagnosticsError:
            return  # it had happened before
        try:
            if plan.leave in ("save", "abort"):
                if plan.leave == "abort":
                    threading.Timer(plan.duration_s, session.abort).start()
                with call(f"save, {plan.name}", plan.duration_s + DRAIN_TIMEOUT_S):
                    session.save(plan.file, duration=plan.duration_s if plan.leave == "save" else None)
            elif plan.leave == "read":
                with call(f"read, {plan.name}", plan.duration_s + DRAIN_TIMEOUT_S), plan.file.open("wb") as out:
                    threading.Timer(plan.duration_s, session.stop).start()
                    for data in session:
                        out.write(data)
            else:
                time.sleep(plan.duration_s)
        except DiagnosticsError:
            pass
        finally:
            try:
                with call(f"close, {plan.name}", CLOSE_LIMIT_S):
                    session.close(timeout_s=CLOSE_TIMEOUT_S)
            except DiagnosticsError:
                pass
            self._judge(plan, session)
        try:
            with call(f"process_info, {plan.name}", TIMEOUT_S):
                client.process_info()
        except DiagnosticsError:
            pass

    async def _all_async(self, target: Target, address: str) -> None:
        await asyncio.gather(*(self._async(plan, target, address) for plan in self.plans[1::2]))
        if left := asyncio.all_tasks() - {asyncio.current_task()}:
            self.outcome.problems.append(f"{len(left)} tasks are left: {left}")

    async def _async(self, plan: Plan, target: Target, address: str) -> None:
        await asyncio.sleep(plan.wait_s)
        client = (
            AsyncClient(target.pid, timeout_s=TIMEOUT_S)
            if plan.by_pid
            else AsyncClient.connect(address, timeout_s=TIMEOUT_S)
        )
        call, loop = self.watch.call, asyncio.get_running_loop()
        try:
            with call(f"trace, {plan.name}", TIMEOUT_S):
                session = await client.trace(
                    PROVIDERS, buffer_mb=64, rundown_keyword=plan.rundown_keyword, drain_timeout_s=DRAIN_TIMEOUT_S
                )
        except DiagnosticsError:
            return
        try:
            if plan.leave in ("save", "abort"):
                if plan.leave == "abort":
                    loop.call_later(plan.duration_s, session.abort)
                with call(f"save, {plan.name}", plan.duration_s + DRAIN_TIMEOUT_S):
                    await session.save(plan.file, duration=plan.duration_s if plan.leave == "save" else None)
            elif plan.leave == "read":
                with call(f"read, {plan.name}", plan.duration_s + DRAIN_TIMEOUT_S), plan.file.open("wb") as out:
                    loop.call_later(plan.duration_s, session.stop)
                    async for data in session:
                        out.write(data)
            else:
                await asyncio.sleep(plan.duration_s)
        except DiagnosticsError:
            pass
        finally:
            try:
                with call(f"close, {plan.name}", CLOSE_LIMIT_S):
                    await session.aclose(timeout_s=CLOSE_TIMEOUT_S)
            except DiagnosticsError:
                pass
            self._judge(plan, session)
        try:
            with call(f"process_info, {plan.name}", TIMEOUT_S):
                await client.process_info()
        except DiagnosticsError:
            pass

    # what is true afterwards ------------------------------------------------------------------------------------------

    def _judge(self, plan: Plan, session: TraceSession | AsyncTraceSession) -> None:
        self.states[plan.name] = session.state
        if session.state not in (State.ENDED, State.BROKEN):
            self.outcome.problems.append(f"{plan.name}: {session.state} after close")
        if plan.file.exists() and plan.file.stat().st_size > session.received_bytes:
            self.outcome.problems.append(f"{plan.name}: the file has more than was received")
        if plan.leave in ("save", "abort", "read") and session.received_bytes and not plan.file.exists():
            self.outcome.problems.append(f"{plan.name}: no file")
        well = session.state is State.ENDED and session.was_stopped and session.problem is None
        if well and self.trouble == "nothing" and plan.leave in ("save", "read") and not _is_complete(plan.file):
            self.outcome.problems.append(f"{plan.name}: it ended well, and its file has no end")

    def _read(self, plan: Plan) -> None:
        """Nothing is broken in what has come: a block that is cut waits for more."""
        if not plan.file.exists():
            return
        reader = Reader()
        with plan.file.open("rb") as file:
            while data := file.read(1 << 20):
                reader.feed(data)
        if reader.damage is not None:
            self.outcome.problems.append(f"{plan.name}: {reader.damage}")
        reader.close()
        if reader.complete:
            self.outcome.whole += 1
        else:
            self.outcome.cut += 1
        plan.file.unlink()


def _is_complete(file: Path) -> bool:
    reader = Reader()
    with file.open("rb") as data:
        while piece := data.read(1 << 20):
            reader.feed(piece)
    reader.close()
    return reader.complete


def soak_sessions(seconds: float, seed: int) -> Outcome:
    """Rounds for so long."""
    numbers, watch, outcome = random.Random(seed), Watch(), Outcome(seed=seed)
    began = time.monotonic()
    before = descriptors(), _thread._count()
    with tempfile.TemporaryDirectory() as folder:
        while (passed := time.monotonic() - began) < seconds and not outcome.problems:
            a_round = Round(numbers, Path(folder), watch, outcome)
            a_round.run()
            after = _settled(before)
            if after != before:
                left = f"descriptors, threads {before} before, {after} after"
                outcome.problems.append(f"{a_round.plans[0].name}: {left}: {threading.enumerate()}")
            print(f"{passed:7.0f} s  {outcome.sessions} sessions  {a_round.plans[0].name}", flush=True)
    outcome.seconds = time.monotonic() - began
    outcome.worst_s, outcome.worst_call = watch.worst_s, watch.worst_call
    if outcome.worst_s > SLACK_S:
        outcome.problems.append(f"{outcome.worst_call}: {outcome.worst_s:.1f} s over its limit")
    return outcome


def _settled(wanted: tuple[int, int]) -> tuple[int, int]:
    """Descriptors and threads, once what is about to end has."""
    ends = time.monotonic() + 5
    while (found := (descriptors(), _thread._count())) != wanted and time.monotonic() < ends:
        time.sleep(0.02)
    return found


def judge_and_record(outcome: Outcome, *, keep: bool) -> int:
    """Print the account, write it down, and say whether all was well."""
    print(outcome.account)
    if keep:
        row = [
            datetime.now(UTC).strftime("%Y-%m-%d"),
            machine(),
            versions(dotnet="8.0.33, 9.0.22, 10.0.14, NativeAOT 9"),
            f"{outcome.seconds:.0f}",
            str(outcome.seed),
            str(outcome.sessions),
            ", ".join(f"{count} {name}" for name, count in sorted(outcome.happened.items())),
            f"{outcome.whole}, {outcome.cut}",
            f"{outcome.worst_s:+.1f}",
        ]
        record(_ABOUT, _COLUMNS, row)
    for problem in outcome.problems:
        print(f"FAILED: {problem}", file=sys.stderr)
    return 1 if outcome.problems else 0


def default_seconds() -> float:
    """How long, when nobody says."""
    return float(os.environ.get("SOAK_SESSIONS_SECONDS", "240"))


def main() -> int:
    """This part alone."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=default_seconds())
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--no-record", action="store_true")
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    return judge_and_record(soak_sessions(chosen.seconds, chosen.seed), keep=not chosen.no_record)


if __name__ == "__main__":
    sys.exit(main())
