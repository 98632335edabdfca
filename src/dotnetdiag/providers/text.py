"""Provider texts, read and written: ``Name[:keywords[:level[:arguments]]][,…]``.

::

    providers := provider (',' provider)*
    provider  := name [':' keywords [':' level [':' arguments]]]
    keywords  := part ('+' part)*        part := hex number, with or without 0x, or a keyword's name; missing: 0
    level     := 0.. or a name           above 5 is 5; missing: Informational, as dotnet-trace has it
    arguments := 'key=value;key="a value with , : ; or ="'      escapes \\r \\n \\t \\\\ \\" \\xXX \\uXXXX

A comma or colon inside of double quotes does not separate, and neither does a quote after a backslash end them.
Errors point at the character.
"""

from __future__ import annotations

from collections.abc import Iterable

from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.constants import EventLevel
from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.ipc.merging import merge_providers
from dotnetdiag.providers.keywords import CLR_KEYWORDS, CLR_PROVIDER, KEYWORDS, find_keyword

LEVELS: dict[str, int] = {
    "logalways": 0,
    "critical": 1,
    "error": 2,
    "warning": 3,
    "informational": 4,
    "info": 4,
    "verbose": 5,
}
MAX_EVENT_ID = 0xFFFF

_PROVIDERS, _LEVEL, _CLR_EVENTS, _EVENT_FILTER = "providers", "level", "CLR events", "event filter"
_HEX = frozenset("0123456789abcdefABCDEF")
_ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\", '"': '"'}
_CODE_ESCAPES = {"x": 2, "u": 4}  # number of hex digits
_ESCAPED = {"\r": r"\r", "\n": r"\n", "\t": r"\t", "\\": r"\\"}


# providers ----------------------------------------------------------------------------------------------------------


def parse_providers(text: str) -> tuple[Provider, ...]:
    """The providers of a text, repeated ones merged. Raises GrammarError; UsageError where repeated ones contradict each other."""
    providers = []
    for start, end in _split(_PROVIDERS, text, 0, len(text), ","):
        while start < end and text[start].isspace():
            start += 1
        providers.append(_parse_provider(text, start, end))
    return merge_providers(providers)


def format_providers(providers: Iterable[Provider]) -> str:
    """The text that ``parse_providers`` reads as these providers.

    Raises UsageError for what the grammar has no room for: event filters, tracepoints, empty arguments, some names.
    """
    listed = tuple(providers)
    for provider in listed:
        if _parsed(_format(provider)) != provider:
            raise UsageError(f"the provider {provider.name!r} cannot be written as text")
    return ",".join(map(_format, listed))


def _parsed(text: str) -> Provider | None:
    try:
        providers = parse_providers(text)
    except UsageError:
        return None
    return providers[0] if len(providers) == 1 else None


def _format(provider: Provider) -> str:
    text = f"{provider.name}:0x{provider.keywords:X}:{int(provider.level)}"
    return text if provider.arguments is None else f"{text}:{_escape(provider.arguments)}"


def _split(what: str, text: str, start: int, end: int, separator: str, limit: int = -1) -> list[tuple[int, int]]:
    """Spans between separators that stand outside of double quotes; at most ``limit`` separators count."""
    spans, begin, quoted, position = [], start, -1, start
    while position < end:
        character = text[position]
        if character == "\\" and quoted >= 0:
            position += 1
        elif character == '"':
            quoted = -1 if quoted >= 0 else position
        elif character == separator and quoted < 0 and limit != 0:
            spans.append((begin, position))
            begin, limit = position + 1, limit - 1
        position += 1
    if quoted >= 0:
        raise GrammarError(what, text, quoted, "this quote is not closed")
    return [*spans, (begin, end)]


def _parse_provider(text: str, start: int, end: int) -> Provider:
    spans = _split(_PROVIDERS, text, start, end, ":", limit=3)
    name = text[spans[0][0] : spans[0][1]].strip()
    if not name:
        raise GrammarError(_PROVIDERS, text, start, "a provider's name is missing")
    if _is_guid(name):
        raise GrammarError(_PROVIDERS, text, start, "providers are enabled by name, not by GUID")
    keywords = _parse_keywords(text, *spans[1], name) if len(spans) > 1 else 0
    level = _parse_level(_PROVIDERS, text, *spans[2]) if len(spans) > 2 else EventLevel.INFORMATIONAL
    arguments = _unescape(text, *spans[3]) if len(spans) > 3 else ""
    return Provider(name=name, keywords=keywords, level=level, arguments=arguments or None)


def _is_guid(name: str) -> bool:
    digits = name.strip("{}()").replace("-", "")
    return len(digits) == 32 and _HEX.issuperset(digits)


# keywords and levels ------------------------------------------------------------------------------------------------


def _parse_keywords(text: str, start: int, end: int, provider: str) -> int:
    if not text[start:end].strip():
        return 0
    value = 0
    for first, last in _split(_PROVIDERS, text, start, end, "+"):
        part = text[first:last].strip()
        keyword = find_keyword(provider, part)
        if keyword is None:
            keyword = _hex_number(part)
        if keyword is None:
            raise GrammarError(_PROVIDERS, text, first, _unknown_keyword(part, provider))
        if keyword >> 64:
            raise GrammarError(_PROVIDERS, text, first, f"keywords {_short(part)} do not fit 64 bits")
        value |= keyword
    return value


def _hex_number(part: str) -> int | None:
    digits = part[2:] if part[:2].lower() == "0x" else part
    return int(digits, 16) if digits and _HEX.issuperset(digits) else None


def _unknown_keyword(part: str, provider: str) -> str:
    if not part:
        return "a keyword is missing"
    if provider in KEYWORDS:
        return f"{_short(part)!r} is no keyword of {provider}{_did_you_mean(part, KEYWORDS[provider])}"
    return f"{_short(part)!r} is neither a hex number nor a keyword known for {provider}"


def _did_you_mean(word: str, names: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word[:100].lower(), names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _short(part: str) -> str:
    return part if len(part) <= 60 else part[:60] + "…"


def parse_level(text: str) -> int:
    """A level by number or name; numbers above 5 are 5. Raises GrammarError."""
    return _parse_level(_LEVEL, text, 0, len(text))


def _parse_level(what: str, text: str, start: int, end: int) -> int:
    word = text[start:end].strip()
    if not word:
        return EventLevel.INFORMATIONAL
    number = _decimal(word, EventLevel.VERBOSE)
    level = LEVELS.get(word.lower()) if number is None else min(number, EventLevel.VERBOSE)
    if level is None:
        raise GrammarError(what, text, start, f"{_short(word)!r} is no level: 0 to 5, or {', '.join(LEVELS)}")
    return level


def _decimal(text: str, limit: int) -> int | None:
    """A number of any length, ``limit + 1`` for all that are above the limit; None for what is no number."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0") or "0"
    return min(int(digits), limit + 1) if len(digits) <= len(str(limit)) else limit + 1


# arguments ----------------------------------------------------------------------------------------------------------


def _unescape(text: str, start: int, end: int) -> str:
    parts, position = [], start
    while position < end:
        character = text[position]
        if character != "\\":
            parts.append(character)
            position += 1
            continue
        kind = text[position + 1] if position + 1 < end else ""
        size = _CODE_ESCAPES.get(kind, 0)
        if size:
            digits = text[position + 2 : min(position + 2 + size, end)]
            if len(digits) != size or not _HEX.issuperset(digits):
                raise GrammarError(_PROVIDERS, text, position, f"\\{kind} needs {size} hex digits")
            parts.append(chr(int(digits, 16)))
        elif not kind or (kind.isalnum() and kind not in _ESCAPES):
            raise GrammarError(_PROVIDERS, text, position, f"unknown escape \\{kind}")
        else:  # Regex.Unescape of the reference tool drops the backslash before punctuation
            parts.append(_ESCAPES.get(kind, kind))
        position += 2 + size
    return "".join(parts)


def _escape(arguments: str) -> str:
    """What ``_unescape`` makes the arguments of. Quotes that protect all commas stay, for people who read it."""
    escaped = "".join(_ESCAPED.get(character, character) for character in arguments)
    try:
        if len(_split(_PROVIDERS, escaped, 0, len(escaped), ",")) == 1:
            return escaped
    except GrammarError:
        pass  # a quote is not closed
    return escaped.replace('"', r"\u0022").replace(",", r"\u002c")


# CLR events and event filters ---------------------------------------------------------------------------------------


def parse_clr_events(text: str, level: int = EventLevel.INFORMATIONAL) -> Provider:
    """``gc+exception``: the CLR provider with the keywords of these names. Raises GrammarError."""
    value = 0
    for first, last in _split(_CLR_EVENTS, text, 0, len(text), "+"):
        part = text[first:last].strip()
        keyword = find_keyword(CLR_PROVIDER, part)
        if keyword is None:
            problem = f"{_short(part)!r} is not a valid CLR event keyword{_did_you_mean(part, CLR_KEYWORDS)}"
            raise GrammarError(_CLR_EVENTS, text, first, problem)
        value |= keyword
    return Provider(name=CLR_PROVIDER, keywords=value, level=level)


def parse_event_filter(text: str) -> tuple[str, EventFilter]:
    """``Provider=1,2,5-9`` (only these ids pass) or ``Provider!=1,2`` (all but these). Raises GrammarError."""
    name, equals, ids_text = text.partition("=")
    enable = not name.endswith("!")
    name = name.removesuffix("!").strip()
    if not equals or not name:
        raise GrammarError(_EVENT_FILTER, text, 0, "write Provider=ID,ID or Provider!=ID,ID")
    ids: set[int] = set()
    position = len(text) - len(ids_text)
    for part in ids_text.split(","):
        first, dash, last = part.strip().partition("-")
        low = _decimal(first, MAX_EVENT_ID)
        high = _decimal(last, MAX_EVENT_ID) if dash else low
        if low is None or high is None:
            raise GrammarError(_EVENT_FILTER, text, position, f"{_short(part.strip())!r} is no event id")
        if not low <= high <= MAX_EVENT_ID:
            problem = f"event ids are 0 to {MAX_EVENT_ID}, low before high: {_short(part)!r}"
            raise GrammarError(_EVENT_FILTER, text, position, problem)
        ids.update(range(low, high + 1))
        position += len(part) + 1
    return name, EventFilter(enable=enable, ids=tuple(sorted(ids)))
