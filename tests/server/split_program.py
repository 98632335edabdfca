"""Records itself while it spins 70/20/10: ``split_program.py FILE ROUNDS``; a process of its own, so that nothing else is sampled."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.server.recorded import recording
from tests.server.split_workload import spin

from dotnetdiag.server.registry import REGISTRY
from dotnetdiag.server.runtime_providers import add_runtime_providers


def main(path: Path, rounds: int) -> None:
    add_runtime_providers()
    sys.setswitchinterval(0.0005)  # or a sample every 5 ms is all that one gets of a thread that never waits
    with recording(
        path, REGISTRY, "Microsoft-DotNETCore-SampleProfiler:SampleProfilerIntervalMS=1", rundown_keyword=0x80020139
    ):
        spin(rounds)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
