"""The perf map: a file that names jitted code for ``perf``."""

from __future__ import annotations

from dotnetdiag.errors import DangerousRequest, NotSupported, ServerError, UnsupportedCommand
from dotnetdiag.ipc import process
from dotnetdiag.ipc.exchange import Operation, ask
from dotnetdiag.ipc.operations.information import process_info
from dotnetdiag.wire import decimal

SAFE_WHILE_SUSPENDED = 10
"""Major version; 8 and 9 die of the command while they are suspended (§21.1)."""


def enable_perf_map(perf_map_type: int, suspended: bool | None) -> Operation[None]:
    """Write a perf map. ``suspended``: whether the runtime waits at startup, None where that cannot be told.

    Raises DangerousRequest, and sends nothing, unless the version says, or ``suspended`` does, that it is safe.
    """
    request = process.EnablePerfMap(perf_map_type=perf_map_type)
    request.check()
    if suspended is not False:
        version = yield from _version_that_may_die()
        if version is not None:
            state = "while suspended at startup; resume it first"
            doubt = "; whether it is suspended cannot be told from here: ask on its own machine, by its process id"
            raise DangerousRequest(
                request.COMMAND.name, f"it kills .NET {version or '8 and 9'} {state}" + ("" if suspended else doubt)
            )
    yield from ask(request)


def _version_that_may_die() -> Operation[str | None]:
    """The version of a runtime that may die of the command when it is suspended; ``""`` where it does not say, None for a safe one
    and for what is not .NET."""
    try:
        information = yield from process_info()
    except UnsupportedCommand:
        return None  # .NET Core 3.x, which does not know EnablePerfMap either
    if information.is_python:
        return None
    version = information.runtime_version
    major = decimal(version.partition(".")[0])
    if major is not None and major >= SAFE_WHILE_SUSPENDED:
        return None
    try:
        yield from ask(process.StartupHookProbe())
    except NotSupported:
        return None  # NativeAOT, which has no perf maps
    except ServerError:
        pass
    return version


def disable_perf_map() -> Operation[None]:
    """Stop writing the perf map."""
    yield from ask(process.DisablePerfMap())
