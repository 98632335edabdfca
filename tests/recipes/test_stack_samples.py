"""The samples of a short session, read: what a ``stack report`` waits for when the target has already answered."""

from __future__ import annotations

from pathlib import Path

from tests.alone import printed_alone
from tests.nettrace.recordings import data_of

from dotnetdiag.nettrace.kernels import COMPILED

READ = (
    "import sys; from dotnetdiag.recipes import stack_samples; loaded = set(sys.modules);"
    " report = stack_samples.report_of(open(sys.argv[1], 'rb').read(), pid=1);"
    " print(bool(report.threads), *(name for name in sys.modules if name not in loaded and 'dotnetdiag.' in name))"
)


def test_who_has_loaded_the_reader_reads_without_loading_much_more(tmp_path: Path) -> None:
    trace = tmp_path / "x.nettrace"
    trace.write_bytes(data_of("cpu-only-10.nettrace"))
    has_threads, *late = printed_alone(READ, trace).split()
    assert has_threads == "True"
    instead = set() if COMPILED else {"dotnetdiag.nettrace.fallback"}
    assert set(late) <= {"dotnetdiag.events.catalogue", "dotnetdiag.events.resolving"} | instead
