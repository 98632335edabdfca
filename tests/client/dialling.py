"""A runtime that dials our port, played by a thread: advertises, takes one command, dials again."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self
from uuid import UUID

from tests.client.scripted import DONE, INFO, PATIENCE_S, UNKNOWN, Over, Script, Talk, says

from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.frames import FrameReader


class DiallingRuntime(threading.Thread):
    """``number`` is its cookie, and the pid that it tells. Keeps one connection at the port, as a runtime does, until ``stop`` or for
    ``dials`` commands.
    """

    def __init__(
        self,
        path: Path,
        scripts: Mapping[Command, Script] | Script | None = None,
        *,
        number: int = 1,
        dials: int | None = None,
    ) -> None:
        super().__init__(name=f"runtime {number}")
        self.path, self.cookie, self.number, self._dials = path, UUID(int=number), number, dials
        usual: dict[Command, Script] = {
            Command.ProcessInfo3: says(replace(INFO, cookie=self.cookie, pid=number).pack()),
            Command.ResumeRuntime: says(DONE),
        }
        self.scripts: Mapping[Command, Script] = {**usual, **scripts} if isinstance(scripts, Mapping) else usual
        self.asked: list[Command] = []
        self.came = threading.Condition()
        self.over, self.stopped, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.connection: socket.socket | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Dial no more, and hang up."""
        self.over.set()
        connection = self.connection
        if connection is not None:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.join(PATIENCE_S)
        assert not self.is_alive()

    def wait_for(self, command: Command, times: int = 1) -> None:
        with self.came:
            assert self.came.wait_for(lambda: self.asked.count(command) >= times, PATIENCE_S), command.name

    def run(self) -> None:
        while not self.over.is_set() and (self._dials is None or len(self.asked) < self._dials):
            try:
                self._serve_one()
            except (OSError, Over):
                self.over.wait(0.01)

    def _serve_one(self) -> None:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.path))
            self.connection = connection
            if self.over.is_set():
                return
            connection.sendall(Advertise(cookie=self.cookie, pid=os.getpid()).pack())
            reader, frame = FrameReader(), None
            while frame is None:
                data = connection.recv(reader.wanted)
                if not data:
                    raise Over
                frame = reader.feed(data)
            with self.came:
                self.asked.append(Command(frame.code))
                self.came.notify_all()
            self.scripts.get(Command(frame.code), says(UNKNOWN))(Talk(self, connection, frame))
