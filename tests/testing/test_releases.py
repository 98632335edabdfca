"""The table of releases."""

from __future__ import annotations

import itertools

import pytest

from dotnetdiag.errors import UnknownName
from dotnetdiag.ipc.commands import Command
from dotnetdiag.testing.releases import RELEASES, find_release


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("9", "9"), ("9.0", "9"), ("9.0.22", "9"), ("10.0.14", "10"), ("11.0.0-preview.1", "11"), ("net8.0", "8"),
        ("3.1", "3.1"), ("3.1.3", "3.1"), ("3", "3.1"), ("nativeaot", "NativeAOT"), ("PRE-V1", "pre-V1"), (" 6 ", "6"),
    ],
)  # fmt: skip
def test_a_release_is_found_by_name_and_version(text: str, name: str) -> None:
    assert find_release(text).name == name


@pytest.mark.parametrize("text", ["", "4", "2.1", "3.0", "12", "nine", "9.x.!"])
def test_a_release_that_is_not_in_the_table_is_an_error_that_names_the_others(text: str) -> None:
    with pytest.raises(UnknownName, match=r"pre-V1, 3\.1, 5"):
        find_release(text)


def test_a_newer_release_has_every_command_of_an_older_one() -> None:
    versions = [RELEASES[name].commands for name in ("3.1", "5", "6", "7", "8", "9", "10", "11")]
    for older, newer in itertools.pairwise(versions):
        assert older <= newer
    assert versions[-1] == frozenset(Command)
