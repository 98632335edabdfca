"""``DOTNETDIAG_ENABLE`` in programs that do not know of it: real environments, real processes."""

from __future__ import annotations

import signal
import stat
import subprocess
import sys
import sysconfig
import tempfile
from itertools import islice
from pathlib import Path

import pytest
from tests.server.environment import Environment

import dotnetdiag as dd
from dotnetdiag.errors import UsageError
from dotnetdiag.server.enabling import is_helper, is_wanted
from dotnetdiag.server.pth_file import LINE, NAME, install_hook, remove_hook

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="sockets in a folder")
READY = "import sys; print('ready', flush=True); sys.stdin.readline()"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    made = Environment(tmp_path_factory.mktemp("environment") / "env")
    code, said, _ = made.words("-m", "dotnetdiag.server", "--install-hook")
    assert (code, said.split(":")[0]) == (0, f"wrote {made.site / NAME}")
    return made


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


def served(folder: Path) -> set[int]:
    """The pids of who answers there."""
    paths = folder.glob("dotnet-diagnostic-*-socket")
    return {dd.Client.connect(f"{path},connect").process_info().pid for path in paths}


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "my_app.py").write_text(f"{READY}\n")
    return tmp_path / "my_app.py"


@pytest.mark.parametrize("value", ["1", "true", "YES"])
def test_a_script_serves_without_a_line_changed(
    value: str, environment: Environment, script: Path, folder: Path
) -> None:
    with environment.program(str(script), DOTNETDIAG_ENABLE=value, TMPDIR=str(folder)) as process:
        assert line(process) == "ready\n"
        assert served(folder) == {process.pid}
        (path,) = folder.glob("*-socket")
        assert dd.Client.connect(f"{path},connect").process_info().entry_assembly == "my_app"
        assert process.communicate("\n", timeout=60) == ("", "")
    assert (process.returncode, list(folder.iterdir())) == (0, [])


def test_a_command_and_a_module_serve(environment: Environment, script: Path, folder: Path) -> None:
    words = {"DOTNETDIAG_ENABLE": "1", "TMPDIR": str(folder)}
    with (
        environment.program("-c", READY, **words) as one,
        environment.program("-m", "my_app", PYTHONPATH=str(script.parent), **words) as other,
        environment.program("-I", "-c", READY, **words) as isolated,
    ):
        assert {line(one), line(other), line(isolated)} == {"ready\n"}
        assert served(folder) == {one.pid, other.pid, isolated.pid}


@pytest.mark.parametrize("value", ["0", "", "no", None])
def test_where_the_variable_does_not_say_so_nothing_of_this_package_is_loaded(
    value: str | None, environment: Environment, folder: Path
) -> None:
    said = {} if value is None else {"DOTNETDIAG_ENABLE": value}
    look = "import os, sys; print([m for m in sys.modules if m.startswith('dotnetdiag.ipc')], os.listdir(os.environ['TMPDIR']))"
    assert environment.words("-c", look, TMPDIR=str(folder), **said) == (0, "[] []\n", "")


def test_without_the_variable_not_even_the_package_is_imported(environment: Environment) -> None:
    assert environment.words("-c", "import sys; print('dotnetdiag' in sys.modules)") == (0, "False\n", "")


def test_without_site_nothing_happens(environment: Environment, folder: Path) -> None:
    said = environment.words("-S", "-c", "print(1)", DOTNETDIAG_ENABLE="1", TMPDIR=str(folder))
    assert said == (0, "1\n", "")


def test_a_word_that_is_neither_yes_nor_no_is_told_in_one_line(environment: Environment) -> None:
    code, said, errors = environment.words("-c", "print(1)", DOTNETDIAG_ENABLE="perhaps")
    assert (code, said, errors.count("\n")) == (0, "1\n", 1)
    assert "DOTNETDIAG_ENABLE='perhaps' is neither yes" in errors


def test_a_package_that_is_gone_harms_nobody(environment: Environment) -> None:
    packages = environment.site / "a-packages.pth"
    kept = packages.read_text()
    try:
        packages.write_text("")
        assert environment.words("-c", "print(1)", DOTNETDIAG_ENABLE="1") == (0, "1\n", "")
    finally:
        packages.write_text(kept)


def test_an_error_of_ours_is_one_line_and_the_program_goes_on(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "selectors.py").write_text("raise ImportError('broken\\nin two lines')\n")  # what a server needs
    code, said, errors = environment.words(
        "-c", "print(1)", DOTNETDIAG_ENABLE="1", PYTHONPATH=str(tmp_path), TMPDIR=str(tmp_path)
    )
    assert (code, said, errors.count("\n")) == (0, "1\n", 1)
    assert errors.startswith("dotnetdiag: this process is not under diagnostics: ImportError: broken in two lines")


def test_a_port_that_suspends_holds_the_program_and_answers_meanwhile(
    environment: Environment, script: Path, folder: Path
) -> None:
    with dd.listen(str(folder / "port")) as server:
        words = {"DOTNETDIAG_ENABLE": "1", "TMPDIR": str(folder), "DOTNET_DiagnosticPorts": str(folder / "port")}
        with environment.program(str(script), **words) as process:
            runtime = next(iter(server))
            assert runtime.info.pid == process.pid
            session = runtime.client.trace("Microsoft-DotNETCore-SampleProfiler")
            runtime.resume()
            assert line(process) == "ready\n"
            session.stop()
            session.save(folder / "x.nettrace")
    assert dd.open(folder / "x.nettrace").complete


def test_ctrl_c_ends_a_program_that_waits_without_a_word(environment: Environment, script: Path, folder: Path) -> None:
    with dd.listen(str(folder / "port")) as server:
        words = {"DOTNETDIAG_ENABLE": "1", "TMPDIR": str(folder), "DOTNET_DiagnosticPorts": str(folder / "port")}
        with environment.program(str(script), **words) as process:
            next(iter(server))
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60) == ("", "")
            assert process.returncode == -signal.SIGINT


SPAWN = """\
import multiprocessing, os, sys
def work(pipe):
    pipe.send(os.getpid())
    pipe.recv()
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    ours, theirs = context.Pipe()
    child = context.Process(target=work, args=(theirs,))
    child.start()
    print(ours.recv(), flush=True)
    sys.stdin.readline()
    ours.send(None)
    child.join()
    print("over", flush=True)
"""


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
def test_processes_of_multiprocessing_serve_and_leave_nothing_behind(
    method: str, environment: Environment, tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "many.py").write_text(SPAWN)
    words = str(tmp_path / "many.py"), method
    port = folder / "port"
    settings = {"TMPDIR": str(folder), "DOTNET_DiagnosticPorts": f"{port},nosuspend"}
    with (
        dd.listen(str(port)) as server,
        environment.program(*words, DOTNETDIAG_ENABLE="1", **settings) as process,
    ):
        child = int(line(process))
        answering = {runtime.info.pid for runtime in islice(server, 3 if method == "forkserver" else 2)}
        assert {process.pid, child} <= answering
        assert answering == served(folder)
        said, errors = process.communicate("\n", timeout=60)
        assert (said, errors, process.returncode) == ("over\n", "", 0)
    left = [path.name.split("-")[2] for path in folder.glob("*-socket")]
    assert str(child) not in left
    assert str(process.pid) not in left


FORK_AND_EXEC = """\
import os, subprocess, sys
look = [sys.executable, "-S", "-c", "import os; print(os.listdir(os.environ['TMPDIR']))"]
before = os.listdir(os.environ["TMPDIR"])
subprocess.run(look, preexec_fn=lambda: None, check=True)
print(before)
"""


def test_a_child_that_runs_another_program_at_once_has_no_socket(environment: Environment, folder: Path) -> None:
    code, said, errors = environment.words("-c", FORK_AND_EXEC, DOTNETDIAG_ENABLE="1", TMPDIR=str(folder))
    assert (code, errors) == (0, "")
    first, second = said.splitlines()
    assert first == second
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "orig", "helper"),
    [
        (["a.py", "x"], ["python", "a.py", "x"], False),
        (["-m", "x"], ["python", "-X", "dev", "-m", "dotnetdiag", "x"], True),
        (["-m"], ["python", "-m", "dotnetdiag.server"], True),
        (["-m", "dotnetdiag"], ["python", "-m", "other", "dotnetdiag"], False),
        (["/bin/dotnetdiag", "ps"], ["python", "/bin/dotnetdiag", "ps"], True),
        (["-c", "4"], ["python", "-c", "from multiprocessing.resource_tracker import main;main(4)", "4"], True),
        (["-c"], ["python", "-c", "from multiprocessing.spawn import spawn_main"], False),
        ([""], ["python"], False),
        ([], [], False),
    ],
)
def test_what_nobody_wants_to_look_at_does_not_serve(words: list[str], orig: list[str], helper: bool) -> None:
    assert is_helper(words, orig) is helper


def test_our_own_tool_does_not_list_itself(environment: Environment, script: Path, folder: Path) -> None:
    words = {"DOTNETDIAG_ENABLE": "1", "TMPDIR": str(folder)}
    with environment.program(str(script), **words) as process:
        assert line(process) == "ready\n"
        code, said, errors = environment.words("-m", "dotnetdiag", "ps", **words)
    assert (code, errors) == (0, "")
    assert f"{process.pid}  python" in said
    assert "dotnetdiag ps" not in said


def test_only_words_of_yes_count() -> None:
    assert [text for text in ("1", " TRUE ", "yes", "on", "0", "", "false", "off", "2") if is_wanted(text)] == [
        "1",
        " TRUE ",
        "yes",
        "on",
    ]


# the file -------------------------------------------------------------------------------------------------------------


def test_the_file_is_one_line_that_site_runs_and_everybody_may_read(tmp_path: Path) -> None:
    path = install_hook(tmp_path)
    assert path.read_text() == LINE
    assert (LINE.startswith("import "), LINE.count("\n"), stat.S_IMODE(path.stat().st_mode)) == (True, 1, 0o644)
    assert install_hook(tmp_path) == path
    assert [one.name for one in tmp_path.iterdir()] == [NAME]


def test_it_is_removed_once(tmp_path: Path) -> None:
    assert remove_hook(tmp_path) is None
    path = install_hook(tmp_path)
    assert remove_hook(tmp_path) == path
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("import antigravity\n")
    for change in (install_hook, remove_hook):
        with pytest.raises(UsageError, match="is not a file of this package"):
            change(tmp_path)
    assert (tmp_path / NAME).read_text() == "import antigravity\n"


def test_a_folder_that_is_not_there_or_not_ours_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="No such file or directory; do this as the owner"):
        install_hook(tmp_path / "none")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "mkstemp", refuse)
    with pytest.raises(UsageError, match="Permission denied; do this as the owner"):
        install_hook(tmp_path)


def test_a_python_of_the_system_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "EXTERNALLY-MANAGED").touch()
    monkeypatch.setattr(sys, "prefix", sys.base_prefix)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    with pytest.raises(UsageError, match="is managed by the system"):
        install_hook()
    assert [one.name for one in tmp_path.iterdir()] == ["EXTERNALLY-MANAGED"]


def test_the_words_of_the_command_line_write_and_remove_it(environment: Environment) -> None:
    path = environment.site / NAME
    try:
        assert environment.words("-m", "dotnetdiag.server", "--remove-hook") == (0, f"removed {path}\n", "")
        assert (
            environment.words("-m", "dotnetdiag.server", "--remove-hook")[1] == "there is no hook in this environment\n"
        )
        path.write_text("import antigravity\n")
        code, said, errors = environment.words("-m", "dotnetdiag.server", "--install-hook")
        assert (code, said, errors.count("\n")) == (1, "", 1)
    finally:
        path.write_text(LINE)
