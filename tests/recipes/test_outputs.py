"""Files that are written: whole or not at all, links followed, devices left what they are, several checked before anything runs."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import IO

import pytest
from tests.nettrace.recordings import data_of

from dotnetdiag.errors import MissingDependency, OutputError, OutputExists, UsageError
from dotnetdiag.export import FORMATS
from dotnetdiag.recipes.exporting import plan_outputs
from dotnetdiag.recipes.outputs import check_outputs, is_stdout, replacing, replacing_together


def test_a_file_takes_its_name_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with replacing(path, force=False) as file:
        file.write(b"abc")
        assert not path.exists()
    assert path.read_bytes() == b"abc"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_is_read_is_never_written_by_whichever_name(tmp_path: Path) -> None:
    path, other = tmp_path / "x", tmp_path / "other"
    path.write_bytes(b"abc")
    other.write_bytes(b"abc")
    (tmp_path / "link").symlink_to(path)
    os.link(path, tmp_path / "hard")
    for name in ("x", "link", "hard", "./y/../x"):
        (tmp_path / "y").mkdir(exist_ok=True)
        with pytest.raises(UsageError, match="is what is read"):
            check_outputs([other, tmp_path / name], force=True, sources=[tmp_path / "absent", path])
    check_outputs([other, tmp_path / "new"], force=True, sources=[path])
    check_outputs([Path(os.devnull)], force=True, sources=[Path(os.devnull)])


def write_and_fail(file: IO[bytes]) -> None:
    file.write(b"new")
    raise KeyError


@pytest.mark.parametrize("force", [False, True])
def test_what_fails_leaves_what_was_there_and_nothing_else(force: bool, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if force:
        path.write_text("old")
    with pytest.raises(KeyError), replacing(path, force=force) as file:
        write_and_fail(file)
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == ({"x": "old"} if force else {})


@pytest.mark.parametrize("links", [True, False])
def test_what_came_to_be_meanwhile_is_not_overwritten(
    links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two callers at once with one name: the second to finish is refused, where the system links files."""

    def refused(*_: object) -> None:
        raise PermissionError

    if not links:
        monkeypatch.setattr(os, "link", refused)
    path = tmp_path / "x"
    with pytest.raises(OutputExists) if links else nullcontext(), replacing(path, force=False) as file:
        file.write(b"second")
        path.write_text("first")
    assert {one.name: one.read_text() for one in tmp_path.iterdir()} == {"x": "first" if links else "second"}
    with replacing(path, force=True) as file:
        file.write(b"third")
    assert path.read_text() == "third"


def test_a_link_is_followed_also_one_that_leads_nowhere_yet(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    link.symlink_to(target)
    for text in (b"one", b"two"):
        with replacing(link, force=text == b"two") as file:
            file.write(text)
        assert link.is_symlink()
        assert target.read_bytes() == text
    with pytest.raises(OutputExists), replacing(link, force=False):
        pass


def test_a_fifo_gets_all_as_it_comes_and_stays_one(tmp_path: Path) -> None:
    path, got = tmp_path / "fifo", list[bytes]()
    os.mkfifo(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)

    def read() -> None:
        while part := os.read(descriptor, 1 << 16):
            got.append(part)

    reader = threading.Thread(target=read)
    data = os.urandom(1 << 20)
    with replacing(path, force=False) as file:
        reader.start()
        file.write(data)
        assert file.tell() == len(data)
    reader.join(30)
    os.close(descriptor)
    assert b"".join(got) == data
    assert path.is_fifo()


def test_a_fifo_that_nobody_reads_is_told_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(OutputError, match="nobody reads this pipe"), replacing(tmp_path / "fifo", force=True):
        pass


def close_and_write(reader: int, file: IO[bytes]) -> None:
    os.close(reader)
    file.write(bytes(1 << 20))


def test_a_reader_that_has_enough_is_no_error_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(BrokenPipeError), replacing(path, force=False) as file:
        close_and_write(reader, file)


def test_a_device_is_written_and_needs_no_force() -> None:
    with replacing(Path("/dev/null"), force=False) as file:
        file.write(b"abc")
        assert file.tell() == 3
    assert Path("/dev/null").is_char_device()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_a_full_device_is_an_error_of_the_file() -> None:
    with (
        pytest.raises(OutputError, match="/dev/full: No space left"),
        replacing(Path("/dev/full"), force=False) as file,
    ):
        file.write(b"abc")


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize("kind", ["pipe", "file"])
def test_stdout_is_written_as_it_is(name: str, kind: str, tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from dotnetdiag.recipes.outputs import is_stdout, replacing\n"
        f"path = Path({name!r})\n"
        "with replacing(path, force=False) as file: file.write(b'abc'); assert file.tell() == 3\n"
        "assert is_stdout(path)"
    )
    with open(tmp_path / "x", "w+b") as file:
        done = subprocess.run(
            [sys.executable, "-c", code], stdout=file if kind == "file" else subprocess.PIPE, timeout=60, check=True
        )
        file.seek(0)
        assert (file.read() if kind == "file" else done.stdout) == b"abc"
    assert [one.name for one in tmp_path.iterdir()] == ["x"]


STDOUT_OF_A_SOURCE = {
    "it is named": "check_outputs([Path({name!r})], force=True, sources=[Path('absent'), Path('x')])",
    "it may be replaced": "check_outputs([Path({name!r})], force=True, sources=[Path('x')], replaces=True)",
}


@pytest.mark.parametrize("name", ["-", "/dev/stdout", "/dev/fd/1"])
@pytest.mark.parametrize("code", STDOUT_OF_A_SOURCE.values(), ids=STDOUT_OF_A_SOURCE)
@pytest.mark.parametrize("mode", ["r+b", "ab"])
def test_stdout_that_leads_into_what_is_read_is_refused(code: str, name: str, mode: str, tmp_path: Path) -> None:
    """The recording was written over, or had another one behind it, and the verb ended with 0."""
    begin = "from pathlib import Path; from dotnetdiag.recipes.outputs import check_outputs\n"
    (tmp_path / "x").write_bytes(b"recorded")
    words = [sys.executable, "-c", begin + code.format(name=name)]
    with open(tmp_path / "x", mode) as file:
        done = subprocess.run(words, stdout=file, stderr=subprocess.PIPE, timeout=60, check=False, cwd=tmp_path)
    assert "what is read: name another file to write" in done.stderr.decode().splitlines()[-1]
    assert (tmp_path / "x").read_bytes() == b"recorded"
    (tmp_path / "y").write_bytes(b"recorded")
    with open(tmp_path / "y", mode) as file:  # what is not read may be
        subprocess.run(words, stdout=file, timeout=60, check=True, cwd=tmp_path)


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
@pytest.mark.parametrize(
    "words",
    [
        ["trim", "x.nettrace", "--from", "1ms"],
        ["filter", "x.nettrace", "--events", "GC/Start"],
        ["merge", "x.nettrace", "y.nettrace"],
        ["redact", "x.nettrace"],
        ["convert", "x.nettrace", "--format", "nettrace"],
        ["convert", "x.nettrace", "--format", "nettrace", "--nettrace-version", "6"],
        ["convert", "x.nettrace", "--format", "speedscope"],
    ],
    ids=" ".join,
)
def test_no_verb_writes_into_what_it_reads_through_stdout(words: list[str], name: str, tmp_path: Path) -> None:
    data = data_of("gccollect-10.nettrace")
    for one in ("x", "y"):
        (tmp_path / f"{one}.nettrace").write_bytes(data)
    command = [sys.executable, "-m", "dotnetdiag", "trace", *words, "-o", name]
    with open(tmp_path / "x.nettrace", "ab") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, timeout=60, check=False, cwd=tmp_path)
    assert (tmp_path / "x.nettrace").read_bytes() == data
    assert done.returncode == 3
    assert "what is read: name another file to write" in done.stderr.decode()


def test_what_replaces_a_source_may_have_its_name(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1")
    check_outputs([tmp_path / "x"], force=True, sources=[tmp_path / "x"], replaces=True)
    with pytest.raises(UsageError, match="is what is read"):
        check_outputs([tmp_path / "x"], force=True, sources=[tmp_path / "x"])


def test_a_file_of_that_name_is_not_stdout(tmp_path: Path) -> None:
    assert not is_stdout(tmp_path / "-")


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    yield folder
    folder.chmod(0o700)


def test_what_cannot_be_made_is_told_before_anything_runs(closed_folder: Path, tmp_path: Path) -> None:
    for path, words in (
        (tmp_path, "Is a directory"),
        (tmp_path / "no" / "x", "there is no folder"),
        (Path("a\0b"), "no file can have this name"),
    ):
        with pytest.raises(OutputError, match=words):
            check_outputs([tmp_path / "fine", path], force=True)
    if os.geteuid():
        with pytest.raises(OutputError, match="nothing may be written in"):
            check_outputs([closed_folder / "x"], force=False)


def test_what_cannot_even_be_looked_at_is_an_error_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, words in (
        ("x" * 300, "File name too long"),
        ("a/" * 3000 + "b", "File name too long"),
        ("loop", "Too many levels of symbolic links"),
        ("a\udc80\ud800", "no file can have this name"),
    ):
        with pytest.raises(OutputError, match=words):
            check_outputs([tmp_path / name], force=False)


def test_a_folder_that_may_not_be_looked_into_is_an_error_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refused)
    with pytest.raises(OutputError, match="Permission denied"):
        check_outputs([tmp_path / "x"], force=False)


@pytest.mark.parametrize("kind", ["file", "fifo"])
def test_what_is_there_and_may_not_be_written_is_told_before_anything_runs(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x"
    path.touch() if kind == "file" else os.mkfifo(path)
    check_outputs([path], force=True)
    path.chmod(0o444)
    if not os.geteuid():  # root may write everything
        monkeypatch.setattr(os, "access", lambda of, mode: mode != os.W_OK or os.stat(of).st_mode & 0o200 != 0)
    with pytest.raises(OutputError, match="it may not be written"):
        check_outputs([path], force=True)


def test_a_socket_is_no_file_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as made:
        made.bind("s")
        with pytest.raises(OutputError, match="it is a socket"):
            check_outputs([Path("s")], force=True)


@pytest.mark.parametrize("name", ["x" * 255, "ü" * 127, "𝄞" * 63])
def test_a_name_may_be_as_long_as_the_system_lets_it(name: str, tmp_path: Path) -> None:
    with replacing(tmp_path / name, force=False) as file:
        file.write(b"abc")
    assert [one.name for one in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("force", [False, True])
def test_all_of_several_are_complete_before_the_first_takes_its_name(
    force: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = "replace" if force else "link"
    seen, real = list[list[int]](), getattr(os, call)

    def named(part: Path, place: Path) -> None:
        seen.append(sorted(one.stat().st_size for one in tmp_path.iterdir()))
        real(part, place)

    monkeypatch.setattr(os, call, named)
    with replacing_together(force=force) as create:
        for number in (1, 2, 3):
            create(tmp_path / str(number)).write(bytes(number))
    assert seen == [[1, 2, 3]] * 3
    assert sorted(one.name for one in tmp_path.iterdir()) == ["1", "2", "3"]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("full", [0, 1, 2])
def test_one_of_several_that_cannot_be_completed_leaves_all_as_they_were(full: int, tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    paths[full].symlink_to("/dev/full")
    for path in paths:
        if not path.exists():
            path.write_text("old")
    with pytest.raises(OutputError, match=f"{paths[full]}: No space left"), replacing_together(force=True) as create:
        _ = [create(path).write(b"new") for path in paths]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b", "c"]
    assert [path.read_text() for path in paths if not path.is_symlink()] == ["old", "old"]


@pytest.mark.parametrize("force", [False, True])
def test_a_name_that_somebody_takes_meanwhile_leaves_none_of_several(force: bool, tmp_path: Path) -> None:
    """The first had its name by then, and kept it."""
    paths = [tmp_path / "a", tmp_path / "b", tmp_path / "c"]
    if force:
        paths[0].write_text("old")
    refused = pytest.raises(OutputError if force else OutputExists, match=str(paths[2]))
    with refused, replacing_together(force=force) as create:
        _ = [create(path).write(b"new") for path in paths]
        paths[2].mkdir() if force else paths[2].write_text("another's")
    assert sorted(one.name for one in tmp_path.iterdir()) == (["a", "c"] if force else ["c"])
    assert not force or paths[0].read_text() == "old"


def test_what_cannot_be_given_back_is_the_new_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refused)
    paths = [tmp_path / "a", tmp_path / "b"]
    paths[0].write_text("old")
    is_refused = pytest.raises(OutputError)
    with is_refused, replacing_together(force=True) as create:
        _ = [create(path).write(b"new") for path in paths]
        paths[1].mkdir()
    assert paths[0].read_text() == "new"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a", "b"]


def test_one_of_several_that_is_there_is_found_before_the_first_is_written(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("old")
    with pytest.raises(OutputExists) as caught:
        check_outputs([tmp_path / "a", tmp_path / "b"], force=False)
    assert (caught.value.path, isinstance(caught.value, FileExistsError)) == (str(tmp_path / "b"), True)
    check_outputs([tmp_path / "a", tmp_path / "b"], force=True)


def test_formats_are_planned_before_anything_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path("folder/app.nettrace")
    assert plan_outputs(source, ["speedscope", "CSV"]) == {
        "speedscope": Path("folder/app.speedscope.json"),
        "csv": Path("folder/app.csv"),
    }
    assert plan_outputs(source, ["csv"], Path("-")) == {"csv": Path("-")}
    with pytest.raises(UsageError, match="2 formats do not go into one stream"):
        plan_outputs(source, ["csv", "json"], Path("-"))
    with suppress(KeyError):
        monkeypatch.delitem(sys.modules, "google.protobuf")
    monkeypatch.setattr("dotnetdiag.export.find_spec", lambda _: None)
    with pytest.raises(MissingDependency, match=r"the format pprof needs protobuf: pip install 'dotnetdiag\[pprof\]'"):
        plan_outputs(source, ["csv", "pprof"])


@pytest.mark.parametrize("absent", ["pyarrow", "nanoarrow"])
def test_each_library_of_a_format_is_looked_for_before_anything_is_read(
    absent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dotnetdiag.export.find_spec", lambda name: None if name == absent else ...)
    with pytest.raises(
        MissingDependency, match=rf"the format parquet needs {absent}: pip install 'dotnetdiag\[arrow\]'"
    ):
        plan_outputs(Path("app.nettrace"), ["csv", "parquet"])


def test_every_format_says_what_its_library_is() -> None:
    for one in FORMATS.values():
        one.check()
        assert bool(one.libraries) == bool(one.extra)


def test_two_outputs_that_are_one_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to(tmp_path / "a")
    for two in (("a", "b"), ("a", "a")):
        with pytest.raises(UsageError, match="leads to a file that is written too"):
            check_outputs([tmp_path / name for name in two], force=True)
    check_outputs([tmp_path / "a", tmp_path / "c"], force=True)
