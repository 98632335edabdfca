"""Keep the last seconds of a program's collections and exceptions, and write them now and then: python flight_recorder.py PID_OR_NAME."""

import sys

import dotnetdiag as dd

with dd.FlightRecorder(sys.argv[1], preset="gc-verbose", window="60s", size_bytes="64MB") as recorder:
    for number, event in enumerate(dd.watch(sys.argv[1], events="Exception/Start", limit=2), 1):
        file = recorder.dump(f"exception-{number}.nettrace", force=True)
        print(f"{file.path}: complete is {file.complete}, before {event['ExceptionType']}")
