"""Record a .NET process until a timer, a button or a test says that it is enough: python stop_from_a_thread.py NAME."""

import sys
import threading

import dotnetdiag as dd

stop = dd.Stop()
threading.Timer(1.0, stop.stop).start()
done = dd.collect(sys.argv[1], "app.nettrace", clr_events="gc+exception", stop=stop)
print(f"{done.path}: complete is {dd.open(done.path).complete}, after {done.duration_s:.0f} s")
