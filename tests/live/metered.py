"""A Python process with meters: the interpreter's, and those of OpenTelemetry, which it knows before the server and after it.

Says ``ready PID``. For each line of its input it takes ten orders, of which it says ``taken``; it ends when its input does.
"""

from __future__ import annotations

import os
import sys

from opentelemetry import metrics
from opentelemetry.metrics import Observation
from opentelemetry.sdk.metrics import MeterProvider

from dotnetdiag.server import install

early = metrics.get_meter("Early")  # of a provider that is not there yet
early_orders = early.create_counter("early.orders", "{order}")
server = install()
metrics.set_meter_provider(MeterProvider(shutdown_on_exit=False))
shop = metrics.get_meter("Shop", "1.2.3")
orders = shop.create_counter("orders", "{order}", "Orders, taken")
queue = shop.create_up_down_counter("queue", "{item}")
latency = shop.create_histogram("latency", "ms")
shop.create_observable_gauge("temperature", [lambda _: [Observation(21.5, {"room": "a"})]], "Cel")

print("ready", os.getpid(), flush=True)
for _ in sys.stdin:
    for number in range(10):
        early_orders.add(1)
        orders.add(1, {"kind": "web" if number % 2 else "shop"})
        queue.add(1)
        latency.record(number)
    print("taken", flush=True)
if server is not None:
    server.close()
