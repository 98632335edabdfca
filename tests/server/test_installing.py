"""A Python program that installs the server, or is started by it, as tools see it."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import dotnetdiag as dd
from dotnetdiag.errors import ServerError
from dotnetdiag.ipc.constants import TraceFormat
from dotnetdiag.ipc.dump import GenerateCoreDump3
from dotnetdiag.recipes.examination import answers
from dotnetdiag.server import PythonCommands, installing
from dotnetdiag.server.commands import Caller
from dotnetdiag.server.registry import Registry

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets in a folder")
ROOT = Path(__file__).resolve().parents[2]
WAITING = """\
import sys, threading
def deep():
    print("ready", *sys.argv, flush=True)
    sys.stdin.readline()
deep()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="dd-") as made:
        yield Path(made)


@contextmanager
def program(folder: Path, *words: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Python with these words; its temporary folder is ``folder``."""
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(folder), **environment},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def socket_in(folder: Path) -> str:
    (found,) = folder.glob("dotnet-diagnostic-*-socket")
    return str(found)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    made = tmp_path / "my_app.py"
    made.write_text(WAITING)
    return made


def test_a_script_runs_with_its_own_arguments_and_is_named_after_itself(folder: Path, script: Path) -> None:
    with program(folder, "-m", "dotnetdiag.server", str(script), "a", "b c") as process:
        assert line(process) == f"ready {script} a b c\n"
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            info = client.process_info()
            assert (info.pid, info.entry_assembly) == (process.pid, "my_app")
        process.communicate("\n", timeout=60)
        assert process.returncode == 0
    assert list(folder.iterdir()) == []


def test_a_module_runs_as_main(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "my_module.py").write_text("import sys; print(__name__, sys.argv[1:]); sys.exit(7)\n")
    path = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    with program(folder, "-m", "dotnetdiag.server", "-m", "my_module", "x", PYTHONPATH=path) as process:
        said, _ = process.communicate(timeout=60)
    assert (said, process.returncode) == ("__main__ ['x']\n", 7)


@pytest.mark.parametrize(("words", "code"), [((), 2), (("-m",), 2), (("--help",), 0)])
def test_without_a_script_it_says_what_it_wants(words: tuple[str, ...], code: int, folder: Path) -> None:
    with program(folder, "-m", "dotnetdiag.server", *words) as process:
        said, _ = process.communicate(timeout=60)
    assert process.returncode == code
    assert said.startswith("usage: ") is (code == 0)


TWO_LINES = """\
import dotnetdiag.server
server = dotnetdiag.server.install()
assert dotnetdiag.server.install() is server
print("ready" if server else "none", flush=True)
import sys
sys.stdin.readline()
"""


def test_two_lines_are_enough(folder: Path) -> None:
    with program(folder, "-c", TWO_LINES) as process:
        assert line(process) == "ready\n"
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            assert client.process_info().pid == process.pid
            client.set_environment_variable("WALK", "1")
            assert client.environment()["WALK"] == "1"


def test_diagnostics_that_are_switched_off_stay_off(folder: Path) -> None:
    with program(folder, "-c", TWO_LINES, DOTNET_EnableDiagnostics="0") as process:
        assert line(process) == "none\n"
    assert list(folder.iterdir()) == []


def test_a_port_that_suspends_holds_the_program_until_it_is_resumed(folder: Path, script: Path) -> None:
    with dd.listen(str(folder / "port")) as server:
        words = "-m", "dotnetdiag.server", str(script)
        with program(folder, *words, DOTNET_DiagnosticPorts=str(folder / "port")) as process:
            runtime = next(iter(server))
            session = runtime.client.trace("My-Provider")
            runtime.resume()
            assert line(process).startswith("ready")
            session.stop()
            session.save(folder / "x.nettrace")
    assert dd.open(folder / "x.nettrace").complete


def test_a_session_has_the_stacks_of_the_program(folder: Path, script: Path) -> None:
    with program(folder, "-m", "dotnetdiag.server", str(script)) as process:
        line(process)
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            client.trace("Microsoft-DotNETCore-SampleProfiler", duration=0.5).save(folder / "x.nettrace")
    trace = dd.open(folder / "x.nettrace")
    assert (trace.complete, trace.lost.total) == (True, 0)
    names = [row.name() for row in dd.cpu(trace).top(100, inclusive=True)]
    assert any(name.endswith("my_app.py!__main__.deep(my_app.py:2)") for name in names), names


def test_a_dump_has_the_stacks_of_all_threads(folder: Path, script: Path) -> None:
    with program(folder, "-m", "dotnetdiag.server", str(script)) as process:
        line(process)
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            client.write_dump(str(folder / "stacks.txt"), dd.DumpType.HEAP)
            client.write_dump(str(folder / "of_%p"), dd.DumpType.MINI)
            with pytest.raises(ServerError):
                client.write_dump(str(folder / "stacks.txt"), dd.DumpType.HEAP)
    text = (folder / "stacks.txt").read_text()
    assert any(f'File "{script}", line {one} in deep' in text for one in (3, 4))  # it says that it is ready, or waits
    assert (folder / "stacks.txt").stat().st_mode & 0o777 == 0o600
    assert (folder / f"of_{process.pid}").exists()


def test_a_dump_that_does_not_fit_leaves_nothing_in_the_way_of_the_next(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(descriptor: int) -> None:
        os.write(descriptor, b"a part")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    request = GenerateCoreDump3(path=str(folder / "x"), dump_type=1)
    monkeypatch.setattr(installing, "write_thread_dump", fails)
    with pytest.raises(OSError, match="No space"):
        PythonCommands(registry=Registry()).dump(request, Caller(port="x"))
    assert list(folder.iterdir()) == []
    monkeypatch.undo()
    PythonCommands(registry=Registry()).dump(request, Caller(port="x"))
    assert (folder / "x").stat().st_size


@pytest.mark.parametrize("kind", ["DiagnosticServer", "AsyncDiagnosticServer"])
def test_a_server_of_ones_own_has_what_poses_as_the_runtime(kind: str, folder: Path) -> None:
    code = f"""
import asyncio, sys
from dotnetdiag.server import AsyncDiagnosticServer, DiagnosticServer, PythonCommands
async def main():
    async with AsyncDiagnosticServer(PythonCommands()) as server:
        await server.listen({str(folder / "s")!r})
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
if {kind!r} == "AsyncDiagnosticServer":
    asyncio.run(main())
else:
    with DiagnosticServer(PythonCommands()) as server:
        server.listen({str(folder / "s")!r})
        print("ready", flush=True)
        sys.stdin.readline()
"""
    with program(folder, "-c", code) as process:
        assert line(process) == "ready\n"
        client = dd.Client.connect(f"{folder / 's'},connect")
        with client, client.trace("Microsoft-DotNETCore-SampleProfiler", duration="1s") as session:
            session.save(folder / "x.nettrace")
    assert dd.open(folder / "x.nettrace").counts()["Microsoft-DotNETCore-SampleProfiler"]["Thread/Sample"]


@pytest.mark.parametrize("packed", [False, True], ids=["folder", "archive"])
def test_a_folder_or_an_archive_finds_its_own_modules_wherever_the_program_goes(packed: bool, folder: Path) -> None:
    files = {
        "__main__.py": "import os; os.chdir('/'); import beside; print(beside.WORD)",
        "beside.py": "WORD = 'ready'",
    }
    if packed:
        with zipfile.ZipFile(folder / "app", "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
    else:
        (folder / "app").mkdir()
        for name, text in files.items():
            (folder / "app" / name).write_text(text)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-m", "dotnetdiag.server", "app"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.stderr) == ("ready\n", "")


def test_the_switch_interval_is_the_programs_when_it_is_installed(folder: Path) -> None:
    code = "import sys, dotnetdiag.server; dotnetdiag.server.install(); print(sys.getswitchinterval())"
    for _ in range(3):
        with program(folder, "-c", code) as process:
            assert line(process) == "0.005\n"


def test_a_session_of_netperf_is_one(folder: Path) -> None:
    with program(folder, "-c", TWO_LINES) as process:
        line(process)
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            client.trace("A", format=TraceFormat.NETPERF).save(folder / "x.netperf", duration=0.05)
    assert dd.open(folder / "x.netperf").complete


def test_numpy_is_the_programs_to_import_until_a_session_begins(folder: Path) -> None:
    code = "import sys, dotnetdiag.server as s; s.install(); print('numpy' in sys.modules, flush=True); sys.stdin.readline()"
    with program(folder, "-c", code + "; print('numpy' in sys.modules, flush=True)") as process:
        assert line(process) == "False\n"
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            client.trace("A").save(folder / "x.nettrace", duration=0.05)
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert line(process) == "True\n"


def test_sessions_of_a_program_that_ends_are_whole(folder: Path) -> None:
    asked = "Microsoft-DotNETCore-SampleProfiler,System.Runtime:0:4:EventCounterIntervalSec=0.1"
    with program(folder, "-c", TWO_LINES) as process, ThreadPoolExecutor() as pool:
        line(process)
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            paths = [folder / f"{number}.nettrace" for number in range(3)]
            savings = [pool.submit(client.trace(asked).save, path) for path in paths]
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
            for saving in savings:
                saving.result(60)
        assert process.wait(60) == 0
        assert all(dd.open(path).complete for path in paths)


def test_a_script_behind_a_link_finds_what_lies_beside_it(folder: Path) -> None:
    app = folder / "app"
    app.mkdir()
    (app / "beside.py").write_text("WORD = 'ready'")
    (app / "main.py").write_text("import beside, sys; print(beside.WORD, *sys.argv[1:])")
    (folder / "run").symlink_to("app/main.py")
    with program(folder, "-m", "dotnetdiag.server", str(folder / "run"), "x") as process:
        assert line(process) == "ready x\n"


def test_threads_that_outlive_the_last_line_find_the_program_where_it_was(folder: Path) -> None:
    path = folder / "work.py"
    path.write_text("""
import pickle, sys, threading
from dotnetdiag.server.process import ProcessFacts
def job(): return 1
def later():
    threading.main_thread().join()
    pickle.dumps(job)
    print("ready", *sys.argv[1:], ProcessFacts.of_this_process().entry_assembly, flush=True)
threading.Thread(target=later).start()
""")
    with program(folder, "-m", "dotnetdiag.server", str(path), "x") as process:
        assert line(process) == "ready x work\n"
        assert process.wait(60) == 0


def test_a_script_that_is_not_there_is_said_as_python_says_it(folder: Path) -> None:
    done = [
        subprocess.run([sys.executable, *words, "nowhere.py"], capture_output=True, text=True, cwd=folder, check=False)
        for words in ([], ["-m", "dotnetdiag.server"])
    ]
    assert [(one.returncode, one.stderr.count("\n")) for one in done] == [(2, 1)] * 2
    assert all("can't open file" in one.stderr and "[Errno 2] No such file or directory" in one.stderr for one in done)


def test_sigterm_leaves_nothing_behind(folder: Path, script: Path) -> None:
    with program(folder, "-m", "dotnetdiag.server", str(script)) as process:
        line(process)
        assert socket_in(folder)
        process.send_signal(signal.SIGTERM)
        process.wait(60)
        assert process.returncode == -signal.SIGTERM
    assert list(folder.iterdir()) == []


def test_a_forked_child_may_serve_too(folder: Path) -> None:
    fork = TWO_LINES.replace(
        "import sys\n",
        "import os, sys\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    mine = dotnetdiag.server.install()\n"
        "    assert mine is not server and mine.is_serving\n"
        "    print('child', os.getpid(), flush=True)\n",
    )
    with program(folder, "-c", fork) as process:
        assert line(process) == "ready\n"
        child = int(line(process).split()[1])
        found = {dd.Client.connect(f"{path},connect").process_info().pid for path in folder.glob("*-socket")}
        os.kill(child, signal.SIGKILL)
    assert found == {process.pid, child}


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_whoever_looks_sees_whether_the_program_waits(folder: Path, script: Path) -> None:
    with dd.listen(str(folder / "port")) as server:
        words = "-m", "dotnetdiag.server", str(script)
        with program(folder, *words, DOTNET_DiagnosticPorts=str(folder / "port")):
            runtime = next(iter(server))
            assert runtime.is_suspended is True
            runtime.resume()
            assert runtime.is_suspended is False


NOTICE = """\
from dotnetdiag.server import installing
installing.NOTICE_S = 0.0
installing.install(wait={wait})
print("ready", flush=True)
"""


def test_a_program_that_waits_long_says_so_in_a_line(folder: Path) -> None:
    with dd.listen(str(folder / "port")) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", NOTICE.format(wait=True)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT / "src"),
                "TMPDIR": str(folder),
                "DOTNET_DiagnosticPorts": f"{folder / 'port'};{folder / 'other'},nosuspend",
            },
        )
        try:
            assert process.stderr is not None
            said = process.stderr.readline()
            assert said.startswith(f"dotnetdiag: Python process {process.pid} waits at its start")
            assert f"over {folder / 'port'};" in said
            next(iter(server)).resume()
            assert process.communicate(timeout=60) == ("ready\n", "")
        finally:
            process.kill()
            process.communicate()


def test_a_program_that_waits_for_nobody_says_nothing_and_is_not_told_from_one_that_runs(folder: Path) -> None:
    code = NOTICE.format(wait=False) + "import sys; sys.stdin.readline()\n"
    with (
        dd.listen(str(folder / "port")) as server,
        program(folder, "-c", code, DOTNET_DiagnosticPorts=str(folder / "port")) as process,
    ):
        assert line(process) == "ready\n"
        assert next(iter(server)).is_suspended is None


def test_our_own_tools_call_it_python(folder: Path, script: Path) -> None:
    python = f"Python {'.'.join(map(str, sys.version_info[:3]))}"
    with program(folder, "-m", "dotnetdiag.server", str(script)) as process:
        line(process)
        with dd.Client.connect(f"{socket_in(folder)},connect") as client:
            said = client.process_info()
            assert said.runtime == python
            assert answers(client)[0].text == f"is {python}, {said.os} {said.arch}"
            if sys.platform == "linux":
                assert answers(client)[1].text == "runs"
        command = [sys.executable, "-m", "dotnetdiag", "ps"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(folder)}
        shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment).stdout
    (row,) = (row for row in shown.splitlines() if row.split()[:1] == [str(process.pid)])
    assert f" {python} " in row
