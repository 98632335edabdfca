"""What a runtime is given before its first instruction: variables, startup hooks, a profiler."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from uuid import UUID

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.client import Client
from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.recipes.suspension import OLD_NAMES, OWN_SOCKET_VARIABLE, PORTS_VARIABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup:
    """``variables`` are names and values. ``hooks`` are assemblies with a ``StartupHook``, run in this order before ``Main``; ``profilers``
    CLSIDs and libraries. Paths are absolute, of the file system that the runtime sees.
    """

    variables: tuple[tuple[str, str], ...] = ()
    hooks: tuple[str, ...] = ()
    profilers: tuple[tuple[UUID, str], ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to give."""
        return not (self.variables or self.hooks or self.profilers)

    @property
    def needs_runtime(self) -> bool:
        """Whether a runtime has to be told: variables a program gets from who starts it."""
        return bool(self.hooks or self.profilers)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """That of a program that is started, with the variables."""
        return {**base, **dict(self.variables)}

    def prepare(self, client: Client, *, has_variables: bool = False) -> None:
        """Give all of it to a runtime that waits at its start; ``has_variables`` already. Raises UsageError for one that runs already and
        for a file that is not there, DangerousRequest for a hook that cannot be used, UnsupportedCommand and NotSupported where the
        runtime takes no such thing: .NET 7 and older, NativeAOT.
        """
        variables = () if has_variables else self.variables
        if not (variables or self.needs_runtime):
            return
        if client.is_suspended() is False:
            raise UsageError("the runtime runs already: nothing can be given to it before its first instruction")
        for name, value in variables:
            client.set_environment_variable(name, value)
        from dotnetdiag.recipes.details import startup_profiler

        for clsid, path in self.profilers:
            startup_profiler(client, clsid, path)
        for path in self.hooks:
            client.apply_startup_hook(path)


def parse_startup(variables: Sequence[str], hooks: Sequence[str], profilers: Sequence[str]) -> Startup:
    """From texts: ``NAME=VALUE``, files, ``CLSID=FILE``. Relative files are of the current folder. Raises GrammarError, and UsageError for a
    name that is there twice, or that this tool sets itself.
    """
    made = Startup(
        variables=tuple(_variable(text) for text in variables),
        hooks=tuple(os.path.abspath(path) for path in hooks),
        profilers=tuple(_profiler(text) for text in profilers),
    )
    names = [name for name, _ in made.variables]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise UsageError(f"the variable {twice[0]} is given twice")
    if len(made.profilers) > 1:
        raise UsageError("a runtime loads one profiler at its start")
    return made


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals or "\0" in text:
        raise GrammarError("variable", text, len(name), "write NAME=VALUE")
    if name in (PORTS_VARIABLE, OLD_NAMES[PORTS_VARIABLE]):
        raise UsageError(f"{name} is how the program's runtime finds this tool; it cannot be another")
    if name in (OWN_SOCKET_VARIABLE, OLD_NAMES[OWN_SOCKET_VARIABLE]):
        raise UsageError(f"{name} would make the program's runtime wait for somebody else too, and for ever")
    return name, value


def _profiler(text: str) -> tuple[UUID, str]:
    clsid, equals, path = text.partition("=")
    try:
        found = UUID(clsid.strip())
    except ValueError:
        raise GrammarError(
            "profiler", text, 0, "write CLSID=FILE, the CLSID as 8-4-4-4-12 hexadecimal digits"
        ) from None
    if not equals or not path:
        raise GrammarError("profiler", text, len(clsid), "write CLSID=FILE")
    return found, os.path.abspath(path)
