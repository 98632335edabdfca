"""What to do about an error, in the words of this command line. Errors themselves state facts and name no options."""

from __future__ import annotations

from dotnetdiag import errors

# An error of the type whose attributes have these values gets the sentence; the first row that fits decides.
TABLE: tuple[tuple[type[errors.DiagnosticsError], dict[str, object], str], ...] = (
    (
        errors.ServerError,
        {"hresult": 0x8013135B},  # PROFILER_NOT_YET_AVAILABLE
        "run `dotnetdiag resume` first, or `dotnetdiag profiler startup` while it is suspended",
    ),
    (errors.UnknownName, {"what": "preset"}, "`dotnetdiag trace list-profiles` shows what --profile takes"),
    (
        errors.UnknownName,
        {"what": "provider", "where": "in the session"},
        "--event-filter is for those of --providers, --profile and --clrevents",
    ),
    (errors.UnknownName, {"where": "in a watch without call stacks"}, "--top keeps them"),
    (errors.UnknownName, {"what": "state"}, "--state all takes all samples"),
    (errors.WrongCombination, {"lacking": "ring"}, "--ring 60s does"),
    (errors.WrongCombination, {"lacking": "ring_size"}, "--ring-size 256MB does, instead of --max-size"),
    (errors.WrongCombination, {"lacking": "rotate"}, "--keep needs --rotate SIZE or --ring DURATION"),
    (errors.WrongCombination, {"lacking": "stop_on"}, "--stop-on-hit and --stop-delay need --stop-on EVENT"),
    (
        errors.WrongCombination,
        {"lacking": "token"},
        "--token-file or --token-variable gives it, --insecure does without",
    ),
    (errors.WrongCombination, {"lacking": "lines"}, "--symbols needs --by line"),
    (errors.WrongCombination, {"lacking": "collector"}, "--to URL names one"),
    (errors.WrongCombination, {"lacking": "insecure"}, "take https:// or grpcs://; --insecure sends them all the same"),
    (errors.WrongCombination, {"lacking": "certificate"}, "--tls-cert gives it"),
    (
        errors.InsecureAddress,
        {},
        "--tls-cert, --tls-key, --tls-ca and --token-file give them; `router` takes --insecure, and 127.0.0.1 with a tunnel needs neither",
    ),
    (errors.OutputExists, {}, "--force overwrites it"),
    (errors.NotUnderstood, {}, "--force-partial writes the file with all of that blanked"),
    (errors.AmbiguousName, {}, "-p takes one of these process ids"),
    (errors.TargetError, {"code": "no-such-process"}, "`dotnetdiag ps` lists what can be reached"),
)


FINDINGS: dict[str, str] = {
    "no-such-process": "`dotnetdiag ps` lists what can be reached",
    "suspended": "dotnetdiag resume -p PID",
    "too-old": "use `trace collect`, `dump collect` or `profiler attach`",
    "no-runtimes": "dotnetdiag doctor PID",
    "foreign-runtime": "--diagnostic-port ADDRESS,connect takes the path",
}
"""What to type about a finding of ``doctor``, by its code."""


def advice_for_finding(code: str) -> str:
    """A sentence, or ``""``."""
    return FINDINGS.get(code, "")


def advice_for(error: BaseException) -> str:
    """A sentence, or ``""`` where the error says all there is to say."""
    for kind, attributes, sentence in TABLE:
        if isinstance(error, kind) and all(getattr(error, name) == value for name, value in attributes.items()):
            return sentence
    return ""
