"""What ``fake`` refuses before it poses."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dotnetdiag.cli.commands import commands
from dotnetdiag.errors import InputError, UsageError


@pytest.mark.parametrize("speed", ["0", "0x", "-1x", "nan", "inf", "fast", ""])
def test_a_speed_that_is_none_is_refused_with_those_that_are(speed: str) -> None:
    with pytest.raises(UsageError, match=r"is no speed: write 1x, 10x, 0\.5x or max"):
        CliRunner().invoke(commands, ["fake", "--speed", speed], standalone_mode=False, catch_exceptions=False)


def test_a_file_that_is_no_recording_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "cpu.py"
    path.write_text("print('no recording')\n", encoding="utf-8")
    with pytest.raises(InputError, match="is no recording"):
        CliRunner().invoke(commands, ["fake", "--replay", str(path)], standalone_mode=False, catch_exceptions=False)
