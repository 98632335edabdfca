"""The workflows: they parse, run what there is, and publish only what was checked. Nothing here runs them."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
import yaml
from tests.shared import CHECKOUT

WORKFLOWS = {path.stem: path for path in sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))}
PROJECT = tomllib.loads((CHECKOUT / "pyproject.toml").read_text("utf-8"))


def workflow(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(WORKFLOWS[name].read_text("utf-8"))
    return loaded


def steps(name: str) -> list[dict[str, Any]]:
    return [step for job in workflow(name)["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("name", list(WORKFLOWS))
def test_every_action_is_pinned_to_a_major_version(name: str) -> None:
    for step in steps(name):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@(v\d+|release/v\d+)", step["uses"])


@pytest.mark.parametrize("name", list(WORKFLOWS))
def test_every_job_reads_only_and_waits_for_jobs_that_there_are(name: str) -> None:
    content = workflow(name)
    assert content["permissions"] == {"contents": "read"}
    for job in content["jobs"].values():
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= content["jobs"].keys()


@pytest.mark.parametrize("name", list(WORKFLOWS))
def test_every_target_and_file_that_is_run_exists(name: str) -> None:
    targets = set(re.findall(r"^([\w-]+):", (CHECKOUT / "Makefile").read_text("utf-8"), re.MULTILINE))
    commands = "\n".join(step.get("run", "") for step in steps(name))
    assert set(re.findall(r"make ([\w-]+)", commands)) <= targets
    for path in re.findall(r"(?:python |^)([.\w/-]+\.py|\.ci/run)", commands, re.MULTILINE):
        assert (CHECKOUT / path).is_file(), path


def test_only_a_tag_publishes_what_was_checked_and_only_that_job_may_identify_itself() -> None:
    jobs = workflow("release")["jobs"]
    assert jobs["publish"]["if"] == "startsWith(github.ref, 'refs/tags/v')"
    assert jobs["publish"]["needs"] == "check"
    assert set(jobs["check"]["needs"]) == {"sdist", "wheels"}
    assert [name for name, job in jobs.items() if "permissions" in job] == ["publish"]


def test_wheels_are_built_for_every_python_that_is_declared_and_counted() -> None:
    declared = {
        each.rpartition(" ")[2].replace(".", "")
        for each in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", each)
    }
    built = PROJECT["tool"]["cibuildwheel"]["build"].split()
    assert set(built) == {f"cp{version}-*" for version in declared}
    per_python = {"ubuntu": 2, "macos": 1, "windows": 1}  # Linux with glibc and with musl
    runners = workflow("release")["jobs"]["wheels"]["strategy"]["matrix"]["os"]
    count = len(built) * sum(per_python[runner.partition("-")[0]] for runner in runners)
    assert f"-eq {count}" in WORKFLOWS["release"].read_text("utf-8")


def test_a_wheel_that_is_built_is_tested_by_a_file_that_there_is() -> None:
    command = PROJECT["tool"]["cibuildwheel"]["test-command"]
    assert (CHECKOUT / re.findall(r"\{project\}/(\S+)", command)[0]).is_file()
    assert command.endswith("--compiled"), "or a wheel without kernels would be kept"
