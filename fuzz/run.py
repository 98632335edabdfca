"""Runs the harnesses and writes down what came of it.

    python fuzz/run.py [--seconds N] [--harness NAME ...] [--seed N] [--no-record] [--sanitize]
    python fuzz/run.py --repeat FILE --harness NAME        one input that made a harness fail

Each harness runs in a process of its own, as long as the others. An input fails when it crashes the process, raises
what is not an error of ours, takes more than 1 s of processor time, or makes the process need 512 MB more than it did
with its seeds. With atheris installed, that chooses the inputs, by coverage; else :mod:`mutate` does, and keeps the
inputs for which a harness says something it never said before. ``--sanitize`` builds the kernels with AddressSanitizer, which
ends the process at the first byte that is touched beyond an array; the limits of memory and time do not hold then.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fuzz.harnesses import HARNESSES, Harness, Seen
from fuzz.mutate import mutated
from fuzz.record import append

from dotnetdiag.errors import DiagnosticsError

SANITIZED = "DOTNETDIAG_SANITIZED" in os.environ
LIMIT_S = 1.0
HANG_S = 30.0
LIMIT_BYTES = 512 << 20
MOST_KEPT = 4000


class Failure(Exception):
    """An input that a harness does not bear."""


def case(harness: Harness, data: bytes) -> Seen:
    """One input. Raises Failure."""
    begin = time.process_time()
    try:
        seen = harness.run(data)
    except DiagnosticsError as error:
        seen = type(error).__name__
    except MemoryError as error:
        raise Failure(f"more than {LIMIT_BYTES >> 20} MB") from error
    except Exception as error:
        raise Failure("".join(traceback.format_exception(error))) from error
    if time.process_time() - begin > LIMIT_S and not SANITIZED:
        begin = time.process_time()  # once more: a page that was swapped out is not the input's fault
        try:
            harness.run(data)
        except DiagnosticsError:
            pass
        if (took := time.process_time() - begin) > LIMIT_S:
            raise Failure(f"{took:.1f} s")
    return seen


def _virtual_bytes() -> int:
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()


def child(name: str, seconds: float, seed: int, last: Path) -> None:
    """Fuzz one harness; prints one line of JSON. ``last`` always holds the input at hand."""
    harness, source = HARNESSES[name], random.Random(seed)
    seeds = harness.seeds()
    seen = {case(harness, data) for data in seeds}
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (_virtual_bytes() + LIMIT_BYTES,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    begin = time.monotonic()
    cases, kept = 0, list(seeds)
    failure = None
    with last.open("r+b", buffering=0) as file:
        while (passed := time.monotonic() - begin) < seconds:
            if cases % 64 == 0:
                signal.setitimer(signal.ITIMER_REAL, 64 * HANG_S)
            mutate = source.choice((mutated, *harness.mutations))
            data = mutate(source, kept if source.random() < 0.8 else seeds)
            file.seek(0)
            file.write(data)
            file.truncate()
            cases += 1
            try:
                said = case(harness, data)
            except Failure as error:
                failure = str(error)
                break
            if said not in seen and len(kept) < MOST_KEPT:
                seen.add(said)
                kept.append(data)
    print(json.dumps({"cases": cases, "s": passed, "kept": len(kept) - len(seeds), "failure": failure}))


def with_atheris(name: str, seconds: float) -> bool:
    """Let atheris choose the inputs, where it is installed."""
    try:
        atheris = importlib.import_module("atheris")
    except ImportError:
        return False
    harness = HARNESSES[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, data in enumerate(harness.seeds()):
            (Path(folder) / str(number)).write_bytes(data)
        atheris.instrument_all()
        limits = [f"-max_total_time={int(seconds)}", f"-timeout={int(LIMIT_S) * 5}", "-rss_limit_mb=2048"]
        atheris.Setup([sys.argv[0], folder, *limits], lambda data: case(harness, data))
        atheris.Fuzz()
    return True


def fuzz(name: str, seconds: float, seed: int, environment: dict[str, str]) -> dict[str, object]:
    """Run a harness in a process of its own; what it said, and the input when it failed."""
    with tempfile.NamedTemporaryFile(prefix=f"fuzz-{name}-", delete=False) as file:
        last = Path(file.name)
    command = [sys.executable, __file__, "--child", str(last), "--harness", name]
    command += ["--seconds", str(seconds), "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, env=environment)
    found: dict[str, object] = {"cases": 0, "s": seconds, "kept": 0, "failure": f"the process died: {done.returncode}"}
    if done.returncode == 0:
        found = json.loads(done.stdout.splitlines()[-1])
    if found["failure"] is None:
        last.unlink()
    else:
        found["failure"] = f"{found['failure']}\ninput: {last}"
    return found


def sanitized(folder: Path) -> dict[str, str]:
    """The environment for processes that have kernels built with AddressSanitizer, in a copy of the package."""
    root, source = Path(__file__).resolve().parents[1], folder / "source"
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        source.mkdir(exist_ok=True)
        shutil.copy(root / name, source / name)
    shutil.copytree(root / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    flags = {"CFLAGS": "-fsanitize=address -fno-omit-frame-pointer -O1 -g", "LDFLAGS": "-fsanitize=address"}
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([*install, "--target", str(folder), str(source)], env={**os.environ, **flags}, check=True)
    asking = ["gcc", "-print-file-name=libasan.so"]
    library = subprocess.run(asking, capture_output=True, text=True, check=True).stdout.strip()
    kernels = {path.parent.name for path in root.glob("src/dotnetdiag/*/_kernels.pyx")}
    built = {path.parent.name for path in folder.glob("dotnetdiag/*/_kernels*.so")}
    if not kernels <= built or not Path(library).is_absolute():
        raise SystemExit("the kernels were not built with AddressSanitizer: gcc and its libasan are needed")
    return {
        **os.environ,
        "DOTNETDIAG_SANITIZED": "1",
        "LD_PRELOAD": library,
        "PYTHONPATH": str(folder),
        "PYTHONMALLOC": "malloc",  # or it would not see the ends of small arrays
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS") or 600), help="in total")
    parser.add_argument("--harness", action="append", choices=list(HARNESSES))
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--repeat", type=Path)
    parser.add_argument("--no-record", action="store_true")
    parser.add_argument("--sanitize", action="store_true", help="with AddressSanitizer; needs gcc")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    names = options.harness or list(HARNESSES)
    if options.repeat:
        print(case(HARNESSES[names[0]], options.repeat.read_bytes()))
        return 0
    if options.child:
        if not with_atheris(names[0], options.seconds):
            child(names[0], options.seconds, options.seed, options.child)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        environment = sanitized(Path(folder)) if options.sanitize else dict(os.environ)
        return fuzz_all(names, options, environment)


def fuzz_all(names: list[str], options: argparse.Namespace, environment: dict[str, str]) -> int:
    """Run the harnesses, print and write down what they said; the exit code."""
    cases, kept, failures = [], [], []
    print(f"seed {options.seed}", flush=True)
    for name in names:
        found = fuzz(name, options.seconds / len(names), options.seed, environment)
        rate = int(str(found["cases"])) / max(float(str(found["s"])), 0.001)
        cases.append(f"{name} {found['cases']} ({rate:.0f})")
        kept.append(f"{name} {found['kept']}")
        if found["failure"] is not None:
            failures.append(name)
            print(f"{name} failed: {found['failure']}")
        print(f"{cases[-1]}, kept {found['kept']}", flush=True)
    if not options.no_record:
        how = f"{options.seconds:.0f}" + (" with AddressSanitizer" if options.sanitize else "")
        append(how, cases, kept, failures)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
