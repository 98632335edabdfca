"""The Process command set, but for process_info and environment: resume, perf map, startup hook (ipc-protocol.md §5.8-5.12)."""

from __future__ import annotations

from dotnetdiag.errors import RequestRefused
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.constants import PerfMapType
from dotnetdiag.ipc.fields import TEXT, U32, Constant, Field, text_problem
from dotnetdiag.ipc.messages import Request
from dotnetdiag.ipc.replies import ResultReply


class ResumeRuntime(Request[ResultReply], command=Command.ResumeRuntime):
    """``0x0401``: resumes only the port that its connection came through (§11)."""


class DisablePerfMap(Request[ResultReply], command=Command.DisablePerfMap):
    """``0x0406``."""


class EnablePerfMap(Request[ResultReply], command=Command.EnablePerfMap):
    """``0x0405``: ``u32 type``. Kills a suspended .NET 8 or 9 (§21.1): the operation asks for that first."""

    FIELDS = (Field("perf_map_type", "type", U32),)

    perf_map_type: int = PerfMapType.ALL

    def refusal(self) -> RequestRefused | None:
        if self.perf_map_type not in (1, 2, 3):
            return self.refuse(f"perf map type {self.perf_map_type} is none of 1 All, 2 JitDump, 3 PerfMap")
        return None


class ApplyStartupHook(Request[ResultReply], command=Command.ApplyStartupHook):
    """``0x0407``: ``string path``. A hook that cannot be used kills .NET 9 and 10 (§21.1): the client looks at its file first."""

    FIELDS = (Field("path", "startupHookPath", TEXT),)

    path: str | None

    def refusal(self) -> RequestRefused | None:
        if self.path is None or (problem := text_problem(self.path)):
            return self.refuse(f"the startup hook's path {problem if self.path is not None else 'must not be missing'}")
        windows = len(self.path) > 2 and self.path[1] == ":" and self.path[2] in "\\/"
        share = self.path.startswith("\\\\")
        if not (self.path.startswith("/") or share or windows):
            return self.dangerous(f"a relative path kills .NET 9 and 10; give an absolute one, not {self.path!r}")
        separator = ";" if windows or share else ":"
        if separator in self.path or (share and ":" in self.path):
            return self.dangerous(
                f"{separator!r} separates startup hooks, and a list kills .NET 9 and 10; give one path: {self.path!r}"
            )
        return None


class StartupHookProbe(Request[ResultReply], command=Command.ApplyStartupHook):
    """``0x0407`` with a null path: applies nothing, on any runtime (§21.2); the refusal tells CoreCLR from NativeAOT."""

    FIELDS = (Constant("startupHookPath", 0),)
