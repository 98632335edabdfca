"""The one parser of provider texts: ``Name[:keywords[:level[:arguments]]][,…]``.

::

    providers := provider (',' provider)*
    provider  := name [':' keywords [':' level [':' arguments]]]
    keywords  := part ('+' part)*        part := hex number, with or without 0x, or a keyword's name; missing: 0
    level     := 0.. or a name           above 5 is 5; missing: Informational, as dotnet-trace has it
    arguments := 'key=value;key="a value with , : ; or ="'      escapes \\r \\n \\t \\\\ \\" \\uXXXX

A comma or colon inside of double quotes does not separate. Errors point at the character.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.constants import EventLevel
from dotnetdiag.ipc.eventpipe import EventFilter, Provider
from dotnetdiag.ipc.keywords import CLR_KEYWORDS, CLR_PROVIDER, KEYWORDS, find_keyword
from dotnetdiag.wire import decimal

_T = TypeVar("_T")
_WHAT = "providers"

LEVELS: dict[str, int] = {
    "logalways": 0,
    "critical": 1,
    "error": 2,
    "warning": 3,
    "informational": 4,
    "info": 4,
    "verbose": 5,
}
_ESCAPES = {"r": "\r", "n": "\n", "t": "\t", "\\": "\\", '"': '"', "0": "\0"}


def parse_providers(text: str) -> tuple[Provider, ...]:
    """The providers of a text, repeated ones merged. Raises GrammarError."""
    found = []
    for start, end in _split(text, 0, len(text), ","):
        if text[start:end].strip():
            found.append(_parse_provider(text, start, end))
        elif end < len(text) or found:
            raise GrammarError(_WHAT, text, start, "a provider's name is missing")
    if not found:
        raise GrammarError(_WHAT, text, 0, "a provider's name is missing")
    return merge_providers(found)


def _split(text: str, start: int, end: int, separator: str, limit: int = -1) -> list[tuple[int, int]]:
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
        raise GrammarError(_WHAT, text, quoted, "this quote is not closed")
    return [*spans, (begin, end)]


def _parse_provider(text: str, start: int, end: int) -> Provider:
    while start < end and text[start].isspace():
        start += 1
    spans = _split(text, start, end, ":", limit=3)
    name = text[spans[0][0] : spans[0][1]].strip()
    if not name:
        raise GrammarError(_WHAT, text, start, "a provider's name is missing")
    _refuse_guid(text, start, name)
    keywords = _parse_keywords(text, *spans[1], name) if len(spans) > 1 else 0
    level = _parse_level(text, *spans[2]) if len(spans) > 2 else EventLevel.INFORMATIONAL
    arguments = _unescape(text, *spans[3]) if len(spans) > 3 else ""
    return Provider(name=name, keywords=keywords, level=level, arguments=arguments or None)


def _refuse_guid(text: str, start: int, name: str) -> None:
    bare = name.strip("{}").replace("-", "")
    if len(bare) == 32 and all(character in "0123456789abcdefABCDEF" for character in bare):
        raise GrammarError(_WHAT, text, start, "providers are enabled by name, not by GUID")


def _parse_keywords(text: str, start: int, end: int, provider: str) -> int:
    if not text[start:end].strip():
        return 0
    value = 0
    for first, last in _split(text, start, end, "+"):
        part = text[first:last].strip()
        named = find_keyword(provider, part)
        if named is not None:
            value |= named
            continue
        digits = part[2:] if part[:2].lower() == "0x" else part
        if digits and len(digits) <= 32 and all(digit in "0123456789abcdefABCDEF" for digit in digits):
            number = int(digits, 16)
            if number >> 64:
                raise GrammarError(_WHAT, text, first, f"keywords {part} do not fit 64 bits")
            value |= number
            continue
        raise GrammarError(_WHAT, text, first, _unknown_keyword(part, provider))
    return value


def _unknown_keyword(part: str, provider: str) -> str:
    if not part:
        return "a keyword is missing"
    if provider in KEYWORDS:
        from difflib import get_close_matches

        close = get_close_matches(part.lower(), KEYWORDS[provider], n=1)
        return f"{part!r} is no keyword of {provider}" + (f"; did you mean {close[0]!r}?" if close else "")
    return f"{part!r} is neither a hex number nor a keyword known for {provider}"


def parse_level(text: str) -> int:
    """A level by number or name; numbers above 5 are 5. Raises GrammarError."""
    return _parse_level(text, 0, len(text))


def _parse_level(text: str, start: int, end: int) -> int:
    word = text[start:end].strip()
    if not word:
        return EventLevel.INFORMATIONAL
    if word.isascii() and word.isdigit():
        return min(int(word[:9]), EventLevel.VERBOSE)
    level = LEVELS.get(word.lower())
    if level is None:
        raise GrammarError(_WHAT, text, start, f"{word!r} is no level: 0 to 5, or {', '.join(LEVELS)}")
    return level


def _unescape(text: str, start: int, end: int) -> str:
    if "\\" not in text[start:end]:
        return text[start:end]
    parts, position = [], start
    while position < end:
        character = text[position]
        if character != "\\":
            parts.append(character)
            position += 1
            continue
        kind = text[position + 1 : position + 2] if position + 1 < end else ""
        if kind in ("u", "x"):
            size = 4 if kind == "u" else 2
            digits = text[position + 2 : min(position + 2 + size, end)]
            if len(digits) != size or not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                raise GrammarError(_WHAT, text, position, f"\\{kind} needs {size} hex digits")
            parts.append(chr(int(digits, 16)))
            position += 2 + size
        elif kind in _ESCAPES and kind != "0":
            # a quote stays escaped for the runtime's own argument parser only by being inside quotes
            parts.append(_ESCAPES[kind])
            position += 2
        else:  # Regex.Unescape of the reference tool drops the backslash before punctuation
            if not kind or kind.isalnum():
                raise GrammarError(_WHAT, text, position, f"unknown escape \\{kind}")
            parts.append(kind)
            position += 2
    return "".join(parts)


def parse_clr_events(text: str, level: int = EventLevel.INFORMATIONAL) -> Provider:
    """``--clrevents gc+exception``: the CLR provider with these keywords. Raises GrammarError."""
    value = 0
    for first, last in _split(text, 0, len(text), "+"):
        part = text[first:last].strip()
        found = find_keyword(CLR_PROVIDER, part)
        if found is None:
            from difflib import get_close_matches

            close = get_close_matches(part.lower(), CLR_KEYWORDS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise GrammarError("clrevents", text, first, f"{part!r} is not a valid CLR event keyword{hint}")
        value |= found
    return Provider(name=CLR_PROVIDER, keywords=value, level=level)


def parse_event_filter(text: str) -> tuple[str, EventFilter]:
    """``Provider=1,2,5-9`` (only these ids pass) or ``Provider!=1,2`` (all but these). Raises GrammarError."""
    name, equals, ids_text = text.partition("=")
    enable = not name.endswith("!")
    name = name.removesuffix("!").strip()
    if not equals or not name:
        raise GrammarError("event filter", text, 0, "write Provider=ID,ID or Provider!=ID,ID")
    ids: set[int] = set()
    position = len(text) - len(ids_text)
    for part in ids_text.split(","):
        first, dash, last = part.strip().partition("-")
        low = decimal(first)
        high = decimal(last) if dash else low
        if low is None or high is None:
            raise GrammarError("event filter", text, position, f"{part.strip()!r} is no event id")
        if not low <= high < 1 << 16:
            raise GrammarError("event filter", text, position, f"event ids are 0 to 65535, low before high: {part!r}")
        ids.update(range(low, high + 1))
        position += len(part) + 1
    return name, EventFilter(enable=enable, ids=tuple(sorted(ids)))


def merge_providers(providers: Iterable[Provider]) -> tuple[Provider, ...]:
    """One entry a name: keywords joined, the more verbose level (LogAlways wins), as the reference tool does.

    Needed because a runtime takes only the *first* entry of a provider that is listed twice (ipc-protocol.md §21.4).
    Raises UsageError when two entries of one name both have arguments, filters or tracepoints and differ in them.
    """
    merged: dict[str, Provider] = {}
    for provider in providers:
        known = merged.get(provider.name)
        if known is None:
            merged[provider.name] = provider
            continue
        levels = (known.level, provider.level)
        merged[provider.name] = replace(
            known,
            keywords=known.keywords | provider.keywords,
            level=0 if 0 in levels else max(levels),
            arguments=_either(provider.name, "filter arguments", known.arguments, provider.arguments),
            event_filter=_either(provider.name, "event filters", known.event_filter, provider.event_filter),
            tracepoints=_either(provider.name, "tracepoints", known.tracepoints, provider.tracepoints),
        )
    return tuple(merged.values())


def _either(name: str, what: str, one: _T | None, other: _T | None) -> _T | None:
    if one is not None and other is not None and one != other:
        raise UsageError(f'Provider "{name}" is declared multiple times with {what}.')
    return one if one is not None else other
