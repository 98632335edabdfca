"""One loaded trace: typed columns per event, interned strings and stacks, symbols, the read-only ``Trace``.

May import ``errors``, ``nettrace``, ``events`` and numpy (pandas, pyarrow and polars each in its own file).
Never ``client``; never prints, opens files by name, or looks at a clock.
"""
