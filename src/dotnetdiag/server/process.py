"""What this Python process says of itself as a server."""

from __future__ import annotations

import os
import platform
import sys
import sysconfig
from collections.abc import Mapping
from functools import cache
from pathlib import PurePath
from typing import Self
from uuid import UUID, uuid4

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.ipc.advertise import Advertise
from dotnetdiag.ipc.commands import Command
from dotnetdiag.ipc.environment import EnvironmentBlock, ProcessEnvironment, SetEnvironmentVariable
from dotnetdiag.ipc.hresults import HResult
from dotnetdiag.ipc.process_info import PYTHON_BUILD, ProcessInfo, ProcessInfo2, ProcessInfo3, ProcessInfo3Reply
from dotnetdiag.ipc.replies import ResultReply
from dotnetdiag.server.commands import Caller, Commands, Handler, Refused, Reply

LONGEST_COMMAND_LINE = 12_288
"""Characters, of up to 4 bytes. A reply is one message, which has 65,535 bytes."""
# Names as runtimes have them (ipc-protocol.md §5.8); what is not here is said as Python says it.
_SYSTEMS = {"Darwin": "macOS"}
_PROCESSORS = {
    "x86_64": "x64",
    "amd64": "x64",
    "i386": "x86",
    "i686": "x86",
    "aarch64": "arm64",
    "armv7l": "arm32",
    "armv6l": "arm32",
}
_RIDS = {"Linux": "linux", "macOS": "osx", "Windows": "win", "FreeBSD": "freebsd"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessFacts:
    """Who a process is. ``pid`` is that of its own namespace; ``cookie`` tells two processes apart, also of one pid. ``runtime_version`` is
    Python's, ``3.11.7+python``: by its end others tell it from a version of .NET.
    """

    pid: int
    cookie: UUID
    command_line: str
    os: str
    arch: str
    entry_assembly: str
    runtime_version: str
    runtime_identifier: str

    @classmethod
    def of_this_process(cls) -> Self:
        """The cookie is another one in a child that is forked."""
        system = _SYSTEMS.get(platform.system(), platform.system() or "Unknown")
        processor = platform.machine().lower()
        arch = _PROCESSORS.get(processor, processor or "Unknown")
        musl = "-musl" if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or "") else ""
        rid_arch = "arm" if arch == "arm32" else arch
        return cls(
            pid=os.getpid(),
            cookie=_cookie_of(os.getpid()),
            command_line=" ".join((sys.executable or "python", *sys.orig_argv[1:]))[:LONGEST_COMMAND_LINE],
            os=system,
            arch=arch,
            entry_assembly=_entry_name(),
            runtime_version=_version(),
            runtime_identifier=f"{_RIDS.get(system, system.lower())}{musl}-{rid_arch}",
        )

    def reply(self) -> ProcessInfo3Reply:
        """The same as a reply, which has what the older ones have."""
        return ProcessInfo3Reply(
            pid=self.pid,
            cookie=self.cookie,
            command_line=self.command_line,
            os=self.os,
            arch=self.arch,
            entry_assembly=self.entry_assembly,
            runtime_version=self.runtime_version,
            runtime_identifier=self.runtime_identifier,
        )


class ProcessCommands(Commands):
    """Answers for this process: who it is, and its environment. Setting a variable changes ``os.environ``, of the whole process: it
    reaches the program's own reads, and the children that it starts from then on.
    """

    def __init__(self, overrides: Mapping[Command, Handler] | None = None) -> None:
        super().__init__(overrides)

    @property
    def cookie(self) -> UUID:
        """Of this process."""
        return _cookie_of(os.getpid())

    def advertise(self) -> Advertise:
        """What is said first to a port that was dialled."""
        return Advertise(cookie=self.cookie, pid=os.getpid())

    def process_info(self, request: ProcessInfo | ProcessInfo2 | ProcessInfo3, caller: Caller) -> Reply:  # noqa: ARG002
        """Who this process is."""
        return ProcessFacts.of_this_process().reply()

    def process_environment(self, request: ProcessEnvironment, caller: Caller) -> Reply:  # noqa: ARG002
        """``os.environ`` as it is now."""
        return EnvironmentBlock(entries=tuple(f"{name}={value}" for name, value in os.environ.copy().items()))

    def set_environment_variable(self, request: SetEnvironmentVariable, caller: Caller) -> Reply:  # noqa: ARG002
        """Raises Refused for a name that no system takes, and for removing a variable that is not there (§5.10)."""
        try:
            if request.value is None:
                del os.environ[request.name or ""]
            else:
                os.environ[request.name or ""] = request.value
        except KeyError:
            raise Refused(HResult.ENVVAR_NOT_FOUND) from None
        except (ValueError, OSError) as exc:
            raise Refused(HResult.INVALID_ARGUMENT) from exc
        return ResultReply()


@cache
def _cookie_of(pid: int) -> UUID:  # noqa: ARG001 - one for each
    return uuid4()


def _version() -> str:
    """As SemVer has it."""
    number, stage, serial = sys.version_info[:3], sys.version_info.releaselevel, sys.version_info.serial
    stages = {"alpha": f"-alpha.{serial}", "beta": f"-beta.{serial}", "candidate": f"-rc.{serial}"}
    return ".".join(map(str, number)) + stages.get(stage, "") + PYTHON_BUILD


def _entry_name() -> str:
    """The script's name without its ending, or the module's that runs; ``python`` where there is neither."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if (
        spec is not None and spec.name == f"{__package__}.__main__"
    ):  # what it is to run has its turn next, when it is resumed
        return _name_of(sys.argv[0]) if sys.argv else "python"
    if spec is not None and spec.name:
        return str(spec.name).removesuffix(".__main__")
    script = getattr(main, "__file__", None)
    return PurePath(script).stem if script else _entry_of(sys.orig_argv)


def _name_of(word: str) -> str:
    """Of a script or a module."""
    return PurePath(word).name.removesuffix(".py") or "python"


def _entry_of(words: list[str]) -> str:
    """What a command line of Python's runs, before it does."""
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-") or word == "-":
            return "python" if word == "-" else _name_of(word)
        if word.startswith("--"):
            if word.endswith("-pycs"):  # the only long one that has a value
                next(rest, None)
            continue
        for at, letter in enumerate(word[1:], 2):
            if letter in "cmXW":  # what follows belongs to it
                value = word[at:] or next(rest, "")
                if letter in "cm":
                    return _name_of(value.removesuffix(".__main__")) if letter == "m" else "python"
                break
    return "python"
