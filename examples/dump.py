"""A small dump of a .NET process: python dump.py PID."""

import os
import sys
import tempfile

import dotnetdiag as dd

path = os.path.join(tempfile.mkdtemp(), "app.core")
dd.Client(int(sys.argv[1])).write_dump(path, dd.DumpType.MINI)
print(os.path.getsize(path), "bytes")
