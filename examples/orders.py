"""python -m dotnetdiag.server orders.py [SECONDS]: a program that takes orders, and can be looked at with the tools for .NET"""

import gc
import logging
import sys
import time

from dotnetdiag.server import EventSource, activity

orders = EventSource("My-Orders")
order_placed = orders.event("OrderPlaced", fields={"id": int, "customer": str, "price": float})
logging.getLogger().addHandler(logging.NullHandler())
log = logging.getLogger("orders")


def price(quantity: int) -> float:
    return sum(n * 0.01 for n in range(quantity)) / quantity


def take(number: int) -> None:
    with activity():
        order_placed(number, "Ada", price(20_000))
        log.warning("order %d was placed", number)


print("ready", flush=True)
ends = time.monotonic() + float(sys.argv[1]) if len(sys.argv) > 1 else float("inf")
number = 0
while time.monotonic() < ends:
    number += 1
    take(number)
    if number % 100 == 0:
        gc.collect()
print(number, "orders", flush=True)
