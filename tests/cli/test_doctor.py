"""What doctor tells to type can be typed."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from dotnetdiag.cli.doctor import doctor
from dotnetdiag.events import kernels as payloads
from dotnetdiag.heap import kernels as heaps
from dotnetdiag.nettrace import kernels as headers
from dotnetdiag.recipes import examination, processes
from dotnetdiag.recipes.suspension import Hold
from dotnetdiag.server import kernels as frames
from dotnetdiag.trace import kernels as stacks
from dotnetdiag.transport import Finding
from dotnetdiag.tui.resuming import how_to_resume

US = os.getpid()


def test_a_port_is_resumed_at_its_own_address(tmp_path: Path) -> None:
    assert how_to_resume(Hold(pid=US)) == f"dotnetdiag resume -p {US}"
    port = str(tmp_path / "port")
    assert how_to_resume(Hold(pid=US, port=port)) == f"dotnetdiag resume --diagnostic-port {port}"


def test_a_port_that_is_relative_for_the_program_is_named_by_its_whole_path() -> None:
    words = shlex.split(how_to_resume(Hold(pid=US, port="no such folder/port")))
    folder = f"{os.getcwd()}/no such folder"
    assert words == ["mkdir", "-p", folder, "&&", "dotnetdiag", "resume", "--diagnostic-port", f"{folder}/port"]


def test_doctor_says_how_to_resume_over_every_port_that_holds_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, there = str(tmp_path / "gone" / "a b"), str(tmp_path / "port")
    finding = Finding(code="suspended-by-port", ok=False, text="is suspended", advice="resume it")
    monkeypatch.setattr(examination, "examine", lambda _: (finding,))
    monkeypatch.setattr(
        examination, "holds_of", lambda pid: [Hold(pid=pid, port=gone), Hold(pid=pid, port=there), Hold(pid=pid)]
    )
    done = CliRunner().invoke(doctor, [str(US)])
    assert done.exit_code == 1
    assert done.output == (
        f"FAIL  is suspended -> resume it; mkdir -p {tmp_path}/gone && dotnetdiag resume --diagnostic-port '{gone}'; "
        f"dotnetdiag resume --diagnostic-port {there}; dotnetdiag resume -p {US}\n"
    )


@pytest.mark.parametrize("compiled", [True, False])
def test_an_installation_without_compiled_decoders_works_and_is_warned(
    compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for room in (headers, payloads, stacks, heaps, frames):
        monkeypatch.setattr(room, "KERNELS", room if compiled else None)
    monkeypatch.setattr(processes, "list_processes", list)
    done = CliRunner().invoke(doctor, [])
    assert done.exit_code == 0
    assert f"{'ok  ' if compiled else 'warn'}  the decoders are {'' if compiled else 'not '}compiled" in done.output


def test_an_installation_without_the_compiled_sampler_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (headers, payloads, stacks, heaps):
        monkeypatch.setattr(room, "KERNELS", room)
    monkeypatch.setattr(frames, "KERNELS", None)
    monkeypatch.setattr(processes, "list_processes", list)
    done = CliRunner().invoke(doctor, [])
    assert done.exit_code == 0
    assert "warn  the sampler is not compiled" in done.output


def test_an_installation_without_the_compiled_kernels_of_heaps_is_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    for room in (headers, payloads, stacks, frames):
        monkeypatch.setattr(room, "KERNELS", room)
    monkeypatch.setattr(heaps, "KERNELS", None)
    monkeypatch.setattr(processes, "list_processes", list)
    done = CliRunner().invoke(doctor, [])
    assert done.exit_code == 0
    assert "warn  the kernels of heaps are not compiled" in done.output
