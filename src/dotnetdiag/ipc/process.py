"""The Process command set, but for process_info and environment: resume, perf map, startup hook (ipc-protocol.md §5.8-5.12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dotnetdiag.ipc.choices import PerfMapType
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.messages import OkReply, Request, pack_text, read_text
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.wire import Cursor, Packer


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRuntime(Request):
    """``0x0401``: resumes only the port that its connection came through (§11)."""

    COMMAND: ClassVar[Command] = Command.ResumeRuntime
    REPLY: ClassVar[type[OkReply]] = ResultReply
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DisablePerfMap(Request):
    """``0x0406``."""

    COMMAND: ClassVar[Command] = Command.DisablePerfMap
    REPLY: ClassVar[type[OkReply]] = ResultReply
    NO_PAYLOAD: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class EnablePerfMap(Request):
    """``0x0405``: ``u32 type``. Kills a suspended .NET 8 or 9 (§21.1): the operation looks first."""

    COMMAND: ClassVar[Command] = Command.EnablePerfMap
    REPLY: ClassVar[type[OkReply]] = ResultReply

    perf_map_type: int = PerfMapType.ALL

    def check(self) -> None:
        if self.perf_map_type not in (1, 2, 3):
            raise self.refuse(f"perf map type {self.perf_map_type} is none of 1 All, 2 JitDump, 3 PerfMap")

    def _write(self, packer: Packer) -> None:
        packer.u32(self.perf_map_type)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"perf_map_type": cursor.u32("type")}


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyStartupHook(Request):
    """``0x0407``: ``string path``. A hook that cannot be used kills .NET 9 and 10 (§21.1): the operation looks first."""

    COMMAND: ClassVar[Command] = Command.ApplyStartupHook
    REPLY: ClassVar[type[OkReply]] = ResultReply

    path: str | None

    def check(self) -> None:
        self.check_text("the startup hook's path", self.path)
        path = self.path or ""
        windows = len(path) > 2 and path[1] == ":" and path[2] in "\\/"
        if not (path.startswith("/") or path.startswith("\\\\") or windows):
            raise self.dangerous(f"a relative path kills .NET 9 and 10; give an absolute one, not {path!r}")
        if not windows and ":" in path:
            raise self.dangerous(
                f"':' separates startup hooks, and a list kills .NET 9 and 10; give one path: {path!r}"
            )
        if (windows or path.startswith("\\\\")) and ";" in path:
            raise self.dangerous(
                f"';' separates startup hooks, and a list kills .NET 9 and 10; give one path: {path!r}"
            )

    def _write(self, packer: Packer) -> None:
        pack_text(packer, self.path)

    @classmethod
    def _read(cls, cursor: Cursor) -> dict[str, Any]:
        return {"path": read_text(cursor, "path")}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartupHookProbe(Request):
    """``0x0407`` with a null path: applies nothing, on any runtime (§21.2); the refusal tells CoreCLR from NativeAOT."""

    COMMAND: ClassVar[Command] = Command.ApplyStartupHook
    REPLY: ClassVar[type[OkReply]] = ResultReply

    def _write(self, packer: Packer) -> None:
        pack_text(packer, None)
