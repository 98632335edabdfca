"""How the runtimes of each release answer: one table, as measured (ipc-protocol.md §21, docs/supported.md).

3.1, 8, 9, 10 and NativeAOT 9 were measured. 5, 6, 7 and 11 are what the documents say of them, with the manners of the nearest one that was.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from dotnetdiag._dataclasses import dataclass, field
from dotnetdiag.errors import UnknownName
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.server.ages import Age

PRE_V1, NATIVE_AOT = "pre-V1", "NativeAOT"
MEASURED = frozenset(("3.1", "8", "9", "10", NATIVE_AOT))
PROFILER_SET = 0x03
_NOT_IN_AOT = dict.fromkeys(
    (
        Command.AttachProfiler,
        Command.StartupProfiler,
        Command.EnablePerfMap,
        Command.DisablePerfMap,
        Command.ApplyStartupHook,
    ),
    int(HResult.NOT_SUPPORTED),
)
_NO_DUMPS = dict.fromkeys(
    (Command.GenerateCoreDump, Command.GenerateCoreDump2, Command.GenerateCoreDump3), int(HResult.FAIL)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of .NET, as its diagnostic server behaves.

    ``name`` is what it is asked for by, ``runtime_version`` what ProcessInfo2 says. ``refusals``: HRESULT of the commands that it knows and
    refuses. ``unknown``: command set → HRESULT for ids that it does not know, where that is not UNKNOWN_COMMAND. ``reads_once``: a payload that does
    not come in one piece is BAD_ENCODING (§21.3). ``keeps_refused_open``: a session refused with BAD_ENCODING leaves the connection open
    (§21.3). ``nettrace``: the version of its streams.
    """

    name: str
    runtime_version: str
    commands: frozenset[Command]
    refusals: Mapping[Command, int] = field(default_factory=dict)
    unknown: Mapping[int, int] = field(default_factory=dict)
    reads_once: bool = False
    keeps_refused_open: bool = False
    nettrace: int = 4

    def unknown_hresult(self, code: int) -> int:
        """What it answers to a code that it does not know."""
        return self.unknown.get(code >> 8, int(HResult.UNKNOWN_COMMAND))

    @property
    def is_legacy(self) -> bool:
        """Whether it speaks the protocol from before V1, and nothing else (§17)."""
        return self.name == PRE_V1


_ALL = (
    Release(
        name=PRE_V1,
        runtime_version="3.0.0-preview5",
        commands=frozenset(
            (Command.GenerateCoreDump, Command.StopTracing, Command.CollectTracing, Command.AttachProfiler)
        ),
    ),
    Release(
        name="3.1",
        runtime_version="3.1.3",
        commands=Age.NET_CORE_3_1.commands,
        unknown={PROFILER_SET: int(HResult.BAD_ENCODING)},
        reads_once=True,
    ),
    Release(name="5", runtime_version="5.0.17", commands=Age.NET_5.commands),
    Release(name="6", runtime_version="6.0.36", commands=Age.NET_6.commands),
    Release(name="7", runtime_version="7.0.20", commands=Age.NET_7.commands),
    Release(name="8", runtime_version="8.0.33", commands=Age.NET_8.commands),
    Release(name="9", runtime_version="9.0.22", commands=Age.NET_9.commands, keeps_refused_open=True, nettrace=5),
    Release(name="10", runtime_version="10.0.14", commands=Age.NET_10.commands, keeps_refused_open=True, nettrace=5),
    Release(name="11", runtime_version="11.0.0", commands=Age.NET_11.commands, keeps_refused_open=True, nettrace=5),
    Release(
        name=NATIVE_AOT,
        runtime_version="9.0.22",
        commands=Age.NET_9.commands,
        refusals={**_NOT_IN_AOT, **_NO_DUMPS},
        unknown={PROFILER_SET: int(HResult.NOT_SUPPORTED)},
        keeps_refused_open=True,
        nettrace=5,
    ),
)
RELEASES: Mapping[str, Release] = {release.name: release for release in _ALL}
"""By name, oldest first: ``pre-V1``, ``3.1``, ``5`` to ``11``, ``NativeAOT``."""
NEWEST_RELEASED = "10"


def find_release(text: str) -> Release:
    """The release of that name; ``9.0`` and ``9.0.22`` are ``9``, and case does not count. Raises UnknownName."""
    wanted = text.strip().lower()
    version = re.fullmatch(r"(?:net)?(\d+)(?:\.(\d+)[-.\w]*)?", wanted)
    if version is not None:
        wanted = f"3.{version[2] or 1}" if version[1] == "3" else version[1]
    for name, release in RELEASES.items():
        if name.lower() == wanted:
            return release
    raise UnknownName("release of .NET", text, tuple(RELEASES), where="to pose as")
