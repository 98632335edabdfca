"""What ``doctor`` says of this installation."""

from __future__ import annotations

import json
from importlib import metadata

import pytest

from dotnetdiag import __version__
from dotnetdiag.events import kernels as payloads
from dotnetdiag.nettrace import kernels as headers
from dotnetdiag.recipes import examination
from dotnetdiag.trace import kernels as stacks

ANEW = "pip install --force-reinstall --no-deps --no-cache-dir"


@pytest.mark.parametrize("room", [headers, payloads, stacks], ids=["nettrace", "events", "trace"])
def test_one_kernel_that_is_not_compiled_is_enough_to_say_so(room: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "KERNELS", None)
    finding = examination.examine_installation()[1]
    assert (finding.code, finding.level) == ("kernels", "warning")
    assert "not compiled" in finding.text


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        (None, f"{ANEW} dotnetdiag=={__version__}"),
        ({"url": "file:///src/a%20b", "dir_info": {}}, f"{ANEW} '/src/a b'"),
        ({"url": "file:///src", "dir_info": {"editable": True}}, f"{ANEW} -e /src"),
        ({"url": "file:///tmp/dotnetdiag-1.tar.gz", "archive_info": {}}, f"{ANEW} file:///tmp/dotnetdiag-1.tar.gz"),
        ({"url": "file:///tmp/dotnetdiag-1-py3-none-any.whl", "archive_info": {}}, f"{ANEW} dotnetdiag=={__version__}"),
    ],
    ids=["index", "folder", "editable", "sdist", "wheel"],
)
def test_advice_builds_anew_what_was_installed_and_not_what_pip_has_kept(
    origin: dict[str, object] | None, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return json.dumps(origin) if origin else None

    monkeypatch.setattr(headers, "KERNELS", None)
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed())
    assert examination.examine_installation()[1].advice.endswith(f"then: {command}")


def test_a_package_that_no_installer_knows_is_taken_from_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(headers, "KERNELS", None)
    monkeypatch.setattr(metadata, "distribution", missing)
    assert examination.examine_installation()[1].advice.endswith(f"{ANEW} dotnetdiag=={__version__}")
