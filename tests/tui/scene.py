"""A scene of two processes for pictures of the screen, and the running of an app on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

from tests.tui.screens import until
from tests.tui.updates import FakeWatch, joined, process, row, series, update
from textual.pilot import Pilot

from dotnetdiag.analysis.series import Series
from dotnetdiag.recipes.counter_watch import CounterUpdate
from dotnetdiag.tui.counters import CounterApp, Threshold

ORDERS, PAYMENTS = process(0, "orders"), process(1, "pay[red]ments\x1b[31m")
HOSTING = "Microsoft.AspNetCore.Hosting"

CPU = series(0, "dotnet.process.cpu.time", "counter", unit="s", tags={"cpu.mode": "user"})
HEAP = [
    series(1 + number, "dotnet.gc.last_collection.heap.size", unit="By", tags={"gc.heap.generation": f"gen{number}"})
    for number in range(3)
]
REQUESTS = series(4, "http.server.request.duration", "histogram", unit="s", tags={"method": "GET"}, provider=HOSTING)
ACTIVE = series(5, "http.server.active_requests", "updowncounter", unit="{request}", provider=HOSTING)
ROOMS = series(6, "[b]temperature", unit="°C", tags={"room": "客室,1\x1b[2J", "[link]": "[/red]"}, provider="Hotel")
OF_PAYMENTS = series(7, "dotnet.process.cpu.time", "counter", unit="s", tags={"cpu.mode": "user"}, of=1)


@dataclass
class Clock:
    """Stands still until a test moves it."""

    now_s: float = 0.0

    def __call__(self) -> float:
        return self.now_s


@dataclass
class Above:
    """A threshold."""

    name: str
    limit: float
    figure: str = "value"

    def figure_of(self, kind: str) -> str:
        return "rate" if kind == "counter" else self.figure

    def concerns(self, series: Series) -> bool:
        return series.name == self.name

    def is_crossed(self, value: float) -> bool:
        return value > self.limit


def interval(turn: int) -> CounterUpdate:
    """All values of one; both processes join in the first."""
    rows = [
        row(CPU, 0.25 + 0.05 * (turn % 5)),
        *(row(one, 1_000_000.0 * number + 8192 * turn) for number, one in enumerate(HEAP)),
        row(REQUESTS, count=40 + turn, quantiles={"0.5": 0.021, "0.95": 0.1 + turn / 100, "0.99": 1.75}),
        row(ACTIVE, float((turn * 7) % 10)),
        row(ROOMS, 21.5 if turn % 2 else -3.0),
        row(OF_PAYMENTS, 0.01 * turn),
    ]
    processes = (ORDERS, PAYMENTS)
    return update(rows, *(map(joined, processes) if not turn else ()), processes=processes)


@dataclass
class Scene:
    """An app that runs, the watch that it looks at, and the one who presses keys."""

    app: CounterApp
    watch: FakeWatch
    pilot: Pilot[Any]
    clock: Clock
    given: int = field(default=0)

    async def give(self, *updates: CounterUpdate) -> None:
        """Wait until the app has taken them and drawn."""
        self.watch.put(*updates)
        self.given += len(updates)
        await until(self.pilot, lambda: self.app.updates >= self.given)
        await self.settle()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """What was asked for is drawn."""
        await self.pilot.pause()
        await self.pilot.pause()


Test: TypeAlias = Callable[[Scene], Awaitable[None]]


def on_screen(
    test: Test,
    *,
    size: tuple[int, int] = (80, 24),
    intervals: int = 12,
    thresholds: Sequence[Threshold] = (),
    notifications: bool = False,
) -> CounterApp:
    """Run a test with an app that has taken so many intervals of the scene."""
    clock, watch = Clock(), FakeWatch()
    app = CounterApp(
        watch,
        thresholds=thresholds,
        clock=clock,
        time_of_day=lambda: datetime(2026, 1, 2, 12, 30, int(clock.now_s) % 60),
    )

    async def tested() -> None:
        async with app.run_test(size=size, notifications=notifications) as pilot:
            scene = Scene(app, watch, pilot, clock)
            await scene.give(*map(interval, range(intervals)))
            await test(scene)

    try:
        asyncio.run(tested())
    finally:
        app.finish()
    assert watch.stopped
    return app
