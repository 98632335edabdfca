"""Presets: named sets of providers. Names and contents are those of dotnet-trace's profiles (dotnet-tools.md §1.2), and one for each question."""

from __future__ import annotations

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import UnknownName, UsageError
from dotnetdiag.ipc.constants import DEFAULT_RUNDOWN_KEYWORD, EventLevel
from dotnetdiag.ipc.eventpipe import Provider
from dotnetdiag.ipc.merging import merge_providers
from dotnetdiag.providers.keywords import CLR_PROVIDER, PRIVATE_PROVIDER, SAMPLE_PROFILER, TPL_PROVIDER
from dotnetdiag.providers.questions import QUESTIONS, without_sockets
from dotnetdiag.providers.text import parse_providers

_COMMAND_FIELDS = (
    "CommandText=Command.CommandText;CommandType=Command.CommandType;CommandTimeout=Command.CommandTimeout;"
    "Database=Command.Connection.Database;DataSource=Command.Connection.DataSource;ConnectionId"
)
_ERROR = "-Error=Exception.Message"
_COMMAND = "SqlClientDiagnosticListener/{}.Data.SqlClient.WriteCommand{}"
_FRAMEWORK = "Microsoft.EntityFrameworkCore/Microsoft.EntityFrameworkCore.Database.Command.Command"
# A line for each event of a DiagnosticSource; the ids pair start and stop (System.Diagnostics.DiagnosticSourceEventSource). The reference tool asks
# for no command that fails, which would have no end.
_DATABASE_SPECS = "\r\n".join(
    (
        *(
            _COMMAND.format(vendor, event)
            for vendor in ("System", "Microsoft")
            for event in (
                f"Before@Activity1Start:-{_COMMAND_FIELDS}",
                "After@Activity1Stop:",
                f"Error@Activity1Stop:{_ERROR}",
            )
        ),
        f"{_FRAMEWORK}Executing@Activity2Start:-{_COMMAND_FIELDS};IsAsync",
        f"{_FRAMEWORK}Executed@Activity2Stop:",
        f"{_FRAMEWORK}Error@Activity2Stop:{_ERROR}",
        f"{_FRAMEWORK}Canceled@Activity2Stop:-",
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """``rundown_keyword`` is what its trace needs at the end; ``rundown_fallback`` the keyword to ask a runtime for that does not
    let its client choose one (0: no rundown, None: nothing to fall back to).
    """

    name: str
    description: str
    providers: tuple[Provider, ...]
    rundown_keyword: int = DEFAULT_RUNDOWN_KEYWORD
    rundown_fallback: int | None = None


def _clr(keywords: int, level: int) -> Provider:
    return Provider(name=CLR_PROVIDER, keywords=keywords, level=level)


PRESETS: dict[str, Preset] = {
    preset.name: preset
    for preset in (
        Preset(
            name="dotnet-common",
            description="Lightweight runtime events: GC, loader, JIT, exceptions, threads, compilation.",
            providers=(_clr(0x100003801D, 4),),
        ),
        Preset(
            name="dotnet-sampled-thread-time",
            description="Stacks of all managed threads, several hundred times a second: where wall-clock time goes.",
            providers=(Provider(name=SAMPLE_PROFILER, keywords=0xF00000000000, level=4),),
        ),
        Preset(
            name="gc-verbose",
            description="Collections and sampled object allocations.",
            providers=(_clr(0x8003, 5),),
        ),
        Preset(
            name="gc-collect",
            description="Collections only, at very low overhead.",
            providers=(_clr(0x1, 4), Provider(name=PRIVATE_PROVIDER, keywords=0x1, level=4)),
            rundown_keyword=0x1,
            rundown_fallback=0,
        ),
        Preset(
            name="database",
            description="Commands of ADO.NET and Entity Framework.",
            providers=(
                Provider(name=TPL_PROVIDER, keywords=0x80, level=4),
                Provider(
                    name="Microsoft-Diagnostics-DiagnosticSource",
                    keywords=0x3,
                    level=EventLevel.VERBOSE,
                    arguments=f'FilterAndPayloadSpecs="{_DATABASE_SPECS}"',
                ),
            ),
        ),
        *(
            Preset(
                name=name,
                description=f"What `trace report FILE {name}` looks at.",
                providers=merge_providers(parse_providers(without_sockets(needed))),
            )
            for name, needed in QUESTIONS.items()
        ),
    )
}
DEFAULT_PRESETS = ("dotnet-common", "dotnet-sampled-thread-time")
LINUX_ONLY_PRESETS = ("cpu-sampling", "thread-time")
"""Of ``dotnet-trace collect-linux``, which samples in the kernel."""


def find_preset(name: str) -> Preset:
    """The preset of a name, in any case. Raises UnknownName; UsageError for those that are recorded in the kernel."""
    wanted = name.strip().lower()
    found = PRESETS.get(wanted)
    if found is not None:
        return found
    if wanted in LINUX_ONLY_PRESETS:
        raise UsageError(
            f"the preset {wanted!r} samples in the kernel, which a session of the runtime cannot; "
            "'dotnet-sampled-thread-time' is the nearest"
        )
    from difflib import get_close_matches

    raise UnknownName(
        "preset",
        name.strip(),
        tuple(get_close_matches(wanted[:100], PRESETS, n=1)),
        where=f"among {', '.join(PRESETS)}",
    )
