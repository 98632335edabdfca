"""Routes of SQL commands: what is left of them without literals and comments.

Every pattern here takes linear time of any text: its choices never give back what they took. What has no end, as a text, a comment or a name in
quotes, ends with the command, for commands may be cut. Nothing tells of which database a command is: a comment ends with the first ``*/``, as for
MySQL, Oracle and SQLite, though SQL Server and PostgreSQL nest them; and ``$5`` is a parameter of PostgreSQL, and no money of SQL Server.
"""

from __future__ import annotations

import re

from dotnetdiag.analysis.kept_events import CUT

LONGEST = 1 << 15
"""Characters of a name that are looked at: an event of the runtime has at most 64 KiB, of UTF-16, so none has more."""

_GAP = r"(?:\s++|--[^\r\n]*+|/\*.*?(?:\*/|\Z))"
"""Blanks and comments."""
_NAME = r""""[^"]*+"?|`[^`]*+`?|(?<![\w\])"])\[[^\[\]]*+(?:\]\][^\[\]]*+)*+\]"""
"""A name in quotes; a bracket behind a name or a bracket has an index in it, or the values of an array."""
_TEXT = r"""
    (?<![\w@#$])[Nn]?[Qq]'(?:                                        # of Oracle: q'[text]', q'!text!'
        \[.*?(?:\]'|\Z) | \(.*?(?:\)'|\Z) | \{.*?(?:\}'|\Z) | <.*?(?:>'|\Z) | (?P<mark>[^\w\s'\[({<]).*?(?:(?P=mark)'|\Z)
    )
    | (?<![\w@#$])[Ee]'[^'\\]*+(?:(?:\\.|\\\Z|'')[^'\\]*+)*+'?         # of PostgreSQL: \' does not end it
    | (?:(?<![\w@#$])(?:[NnXxBb]|[Uu]&))?'[^']*+(?:''[^']*+)*+'?
    | (?<![\w$])\$(?P<tag>(?:[^\W\d]\w*+)?)\$.*?(?:\$(?P=tag)\$|\Z)  # of PostgreSQL: $$text$$, $tag$text$tag$
"""
_NUMBER = r"""
    (?<![\w@#$:?.\\])
    (?:0[xX][0-9A-Fa-f_]*+|0[bB][01_]++|0[oO][0-7_]++|\$[0-9]++\.[0-9]++|(?:[0-9][0-9_]*+(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+)
    (?!\w)
"""
"""Behind a letter a digit is part of a name, behind ``@``, ``$``, ``:`` and ``?`` the number of a parameter; ``$5.00`` is money."""
_KEYWORDS = "SELECT|DISTINCT|ALL|WHERE|HAVING|ON|AND|OR|NOT|BETWEEN|WHEN|THEN|ELSE|BY|LIMIT|OFFSET|RETURNING|RETURN"
"""Those that an expression stands behind."""
_BEHIND = "|".join(rf"(?<=\b{word})" for word in _KEYWORDS.split("|"))
_TOKEN = re.compile(
    rf"""
    (?P<kept>(?:
        (?![EeNnXxBb]'|[Uu]&'|[Nn]?[Qq]'[^\w\s'])(?:[^\W\d]|[@#:?])[\w@#$:?.]*+
        | {_NAME} | [;)] | \.(?![0-9]) | [=<>(,*%|&](?!\s*+[+-]) | [ ](?![\s/+-])
    )++)
    | (?P<literal>{_TEXT}|{_NUMBER})
    | (?P<sign>(?=\s*+[+-]\s*+(?:\.?[0-9]|\$[0-9]++\.[0-9]))(?:(?<=[=<>(,+\-*/%|&])|(?i:{_BEHIND})))(?P<blank>\s*+)[+-]\s*+
    | (?P<gap>{_GAP}++)
    | (?P<word>[\w@#$:?.]++)
    """,
    re.VERBOSE | re.DOTALL,
)
"""``kept`` and ``word`` stay as they are: the first is what most of a command is, the second what is no number though it begins as one."""
_TYPED = r"""
    (?:DATE|TIME|TIMETZ|TIMESTAMP|TIMESTAMPTZ|DATETIME)(?:[ ]WITH(?:OUT)?+[ ]TIME[ ]ZONE)?+[ ]?\*
    | INTERVAL[ ]?\*(?:[ ](?:YEAR|MONTH|DAY|HOUR|MINUTE|SECOND)(?:[ ]TO[ ](?:MONTH|HOUR|MINUTE|SECOND))?+)?+
"""
"""A literal with its type, as EF Core writes it for others than SQL Server."""
_VALUE = rf"(?:\*|NULL|TRUE|FALSE|DEFAULT|[@:$?][\w@#$:?.]*+|{_TYPED})"
_ITEM = rf"(?:CAST\({_VALUE}[ ]AS[ ]\w++(?:\(\*(?:,[ ]?\*)?+\))?+\)|{_VALUE}(?:::\w++)?+)"
"""A literal or a parameter: Dapper and EF Core write one for each value of a list, and their types where these are not told else."""
_ROW = rf"\([ ]?{_ITEM}(?:[ ]?,[ ]?{_ITEM})*+[ ]?(?:\)|,?[ ]?(?:\w++[ ]?)*+\Z)"
_ROWS = rf"{_ROW}(?:[ ]?,[ ]?{_ROW})*+"
_LIST = re.compile(
    rf"(?P<name>{_NAME})|(?<![\w@#$.])(?P<list>(?:IN|VALUES)[ ]?)(?:{_ROWS}|\([ ]?{_ROWS}[ ]?(?:\)|\Z))(?:[ ]?,[ (]*+\Z)?+",
    re.VERBOSE | re.IGNORECASE,
)
"""Lists of nothing but literals and parameters, in a command whose literals are ``*``."""
_MAY_HAVE_LIST = re.compile(rf"\([ (]{{0,3}}+{_ITEM}", re.VERBOSE | re.IGNORECASE)
"""Where this is not found there is no list; it is much quicker to look for."""

_FIRST = "SELECT|INSERT|UPDATE|DELETE|MERGE|REPLACE|EXEC|EXECUTE|CALL|WITH|VALUES|SET|DECLARE|BEGIN|IF|EXPLAIN|PRAGMA|CREATE|ALTER|DROP|TRUNCATE"
_COMMAND = re.compile(
    rf"(?P<before>(?:(?!/\*|--)\S++[ ]){{0,4}}?){_GAP}*+[({{\s]*+(?:{_FIRST})(?=[\s(\['\"`*@]|/\*|--)",
    re.IGNORECASE | re.DOTALL,
)
"""A command, alone or behind the names of a server and a database, in which there may be blanks."""
_HTTP = re.compile(r"[A-Za-z]+ /(?!\*)")
"""A request of HTTP, whose method may be DELETE; ``/*`` begins a comment."""

_HOST = r"(?:[A-Za-z][\w.-]*+|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]++\])"
_ADDRESS = re.compile(
    rf"""
    (?:tcp:|np:|lpc:|admin:)?{_HOST}(?:\\[\w$\#-]++)?[,:][0-9]{{2,5}}  # SQL Server has a comma before its port
    | (?:tcp:)?[0-9]{{1,3}}(?:\.[0-9]{{1,3}}){{3}}
    | [A-Za-z][A-Za-z0-9+.-]*+://[^\s']++
    | (?:tcp:)?{_HOST}\\[\w$\#-]++
    | (?:[A-Za-z]:)?\.{{0,2}}[/\\]++[A-Za-z_.][^\s']*+
    """,
    re.VERBOSE,
)
_HYPHENS = re.compile(r"[A-Za-z_][\w.]*+(?:-[\w.]++)++")
_EXPECTS = re.compile(rf"(?:.*[{{(,=<>+\-*/%|&]|{_KEYWORDS}|EXEC|EXECUTE|CALL)", re.IGNORECASE | re.DOTALL)
"""A word behind which an expression goes on."""


def sql_route(label: str) -> str | None:
    """A command whose literals are ``*``, without comments, and its blanks one each; ``None`` where it is none.

    A list of literals and parameters behind ``IN`` or ``VALUES`` is ``(*)`` however long it is. Names, in quotes or not, and other parameters stay,
    and so do the names of a server and a database before the command or behind it.
    """
    command = None if _HTTP.match(label) else _COMMAND.match(label)
    if command is None:
        return None
    cut = CUT if len(label) > LONGEST else ""
    before = command["before"]
    text = label[len(before) : LONGEST]
    text, behind = (text, "") if before or cut else _without_address(text)
    route = _TOKEN.sub(_token, text).strip()
    if _MAY_HAVE_LIST.search(route):
        route = _LIST.sub(_list, route)
    return f"{before}{route}{behind}{cut}"


def _token(found: re.Match[str]) -> str:
    kind = found.lastgroup
    if kind == "literal":
        return "*"
    if kind == "gap" or found["blank"]:
        return " "
    return "" if kind == "blank" else found[0]


def _list(found: re.Match[str]) -> str:
    return found["name"] or f"{found['list']}(*)"


def _without_address(text: str) -> tuple[str, str]:
    """A command, and the database and server behind it where these have what might be taken for literals: the port in ``shop srv,1433``."""
    rest, _, last = text.rpartition(" ")
    if not (_ADDRESS.fullmatch(last) or _is_hyphened(last, text)) or _EXPECTS.fullmatch(rest.rpartition(" ")[2]):
        return text, ""
    start, _, database = rest.rpartition(" ")
    if _is_hyphened(database, text) and not _EXPECTS.fullmatch(start.rpartition(" ")[2]):
        return start, f" {database} {last}"
    return rest, f" {last}"


def _is_hyphened(word: str, text: str) -> bool:
    """Whether it is a name as ``db-5``, and not the end of a comment."""
    return "--" not in text and _HYPHENS.fullmatch(word) is not None
