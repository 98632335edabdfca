"""A runtime that dials our port: advertises, takes one command, dials again."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from uuid import UUID

from tests.client.scripted import DONE, INFO, Played, says

from dotnetdiag.ipc.commands import Command
from dotnetdiag.testing import Script


class DiallingRuntime(Played):
    """``number`` is its cookie, unless there is another one, and the pid that it tells. Keeps one connection at the port, as a runtime does,
    until ``stop`` or for ``dials`` commands.
    """

    def __init__(
        self,
        path: Path,
        scripts: Mapping[Command, Script] | None = None,
        *,
        number: int = 1,
        cookie: UUID | None = None,
        dials: int | None = None,
    ) -> None:
        super().__init__()
        self.path, self.number, self._dials = path, number, dials
        self.cookie = UUID(int=number) if cookie is None else cookie
        self.scripts: Mapping[Command, Script] = {
            Command.ProcessInfo3: says(replace(INFO, cookie=self.cookie, pid=number).pack()),
            Command.ResumeRuntime: says(DONE),
            **(scripts or {}),
        }

    def start(self) -> None:
        """Dial from now on."""
        self.begin(self.scripts, connect=self.path, pid=os.getpid(), cookie=self.cookie, dials=self._dials)

    def stop(self) -> None:
        """Dial no more, and hang up."""
        self.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *problem: Any) -> None:
        assert self.runtime is not None
        self.runtime.__exit__(*problem)
