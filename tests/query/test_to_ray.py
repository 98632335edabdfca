"""The same with Ray, in a process of its own: it starts others, and says a lot."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests.query.asked import saved

import dotnetdiag as dd

ASKED = """
import json, sys
import ray
import dotnetdiag as dd
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1", _temp_dir=sys.argv[2])
made = dd.dataset(sys.argv[1])
rows = made.to_ray("GC/Start", ["file", "Reason", "Depth"]).filter(expr="Depth > 0").take_all()
gc = made.to_ray("gc", ["number"]).count()
some = dd.dataset([sys.argv[1], sys.argv[3]], skip_unreadable=True)
left = some.to_ray("gc", ["number"]).count()
ray.shutdown()
print(json.dumps([rows, gc, left, some.skipped]))
"""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed")
def test_ray_reads_what_the_recordings_have(tmp_path: Path) -> None:
    """20 s: its own start and end, most of it."""
    (tmp_path / "recordings").mkdir()
    paths = saved(tmp_path / "recordings", "events-10", "gccollect-10")
    pattern = str(tmp_path / "recordings" / "*.nettrace")
    empty = tmp_path / "empty.nettrace"
    empty.touch()
    with TemporaryDirectory(prefix="ray-") as short:  # its sockets have long names
        done = subprocess.run(
            [sys.executable, "-c", ASKED, pattern, short, str(empty)],
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=240,
        )
    assert done.returncode == 0, done.stderr
    rows, gc, left, skipped = json.loads(done.stdout.splitlines()[-1])
    expected = dd.sql(paths, 'select file, Reason, Depth from "GC/Start" where Depth > 0 order by all').to_pylist()
    assert sorted(rows, key=lambda row: tuple(row.values())) == expected
    assert gc == left == len(dd.sql(paths, "from gc"))
    assert skipped == {str(empty): f"{empty}: end of data at 0x0: the file is empty"}
