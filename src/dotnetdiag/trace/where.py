"""The language of filters (``where``): which events, by what is in them.

::

    filter     := both ("or" both)*
    both       := term ("and" term)*
    term       := "not" term | "(" filter ")" | value [operator value]
    operator   := == = != < <= > >= ~ !~                    (~: the text contains a match of the regular expression)
    value      := name | "text" | 'text' | number | true | false | null
    name       := a field of the payload, a member (a.b), or a key of the header (trace.header); `any name` in backquotes

Example: ``Duration > 5 and Path ~ "^/api"``. A name means what it means in tables: a column of the header
(``trace.header.COLUMNS``), then a field of the payload, then another key; ``payload.x`` and ``header.x`` say which. Case of
names does not count. A comparison with a value that is not there is false, except with ``null``: ``x == null`` asks for
just that. Numbers compare as numbers, everything else as the text that JSON has. What the runtime numbers has names too, in
quotes or without: ``Reason == Induced``, ``MethodFlags ~ "Jitted"``.

Everything is done on whole columns; no text runs as code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.errors import GrammarError
from dotnetdiag.events import Column, Scalar, Text
from dotnetdiag.events.catalogue import ValueMap
from dotnetdiag.events.columns import Coded, json_value
from dotnetdiag.events.layout import Kind

Array: TypeAlias = "np.ndarray[Any, Any]"


class Named(NamedTuple):
    """A column of numbers that have names."""

    column: Column
    names: ValueMap


Columns: TypeAlias = Callable[[str], "Column | Named | None"]
"""Gives the column of a name, or None where events of the type have no such field."""

DEPTH_LIMIT = 100
"""Nesting that is followed: more is no filter that a person wrote."""
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:0[xX][0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)(?![\w@]))
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<quoted>`[^`]+`)
    |(?P<name>[^\W\d][\w@]*(?:\.[\w@]+)*)
    |(?P<operator>==|!=|<=|>=|!~|&&|\|\||[=<>~!()]))""",
    re.VERBOSE,
)
_WORDS = {"&&": "and", "||": "or", "!": "not"}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}  # fmt: skip
_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CONSTANTS = {"true": True, "false": False, "null": None}
_NOT_NUMBERS = frozenset({Kind.CHAR, Kind.CHAR8, Kind.DATETIME, Kind.GUID, Kind.DECIMAL})


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    value: Any
    position: int


@dataclass(frozen=True, slots=True)
class Name:
    """A field or a key."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A text, a number, true, false, or null (None)."""

    value: Any


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left`` and ``right`` compared; for ``~`` the regular expression stands in ``pattern``."""

    operator: str
    left: Name | Constant
    right: Name | Constant
    pattern: re.Pattern[str] | None = None


@dataclass(frozen=True, slots=True)
class Both:
    """And."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """Or."""

    terms: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The others."""

    inner: Node


Node: TypeAlias = Comparison | Both | Either | Not | Name


class Where:
    """A filter that was parsed. ``names`` are all names in it. Raises GrammarError, which points at the character."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = _tokens(text)
        self._at = 0
        self.names: dict[str, int] = {}
        """Each name with the position where it stands first."""
        self.compared: dict[str, set[str]] = {}
        """Names that are compared with names: one of the two may be that of a value."""
        self.texts: dict[str, set[str]] = {}
        """Names that are compared with texts in quotes, for whether they are equal."""
        self.values_met: set[str] = set()
        """Those that were values of what they were compared with."""
        self._root = self._filter(0)
        if self._token.kind != "end":
            raise self._fail(f"{text[self._token.position :][:1]!r} not expected here")

    def mask(self, columns: Columns, rows: int) -> Array:
        """Which of the rows pass."""
        return _evaluate(self._root, _Rows(columns, rows, self.values_met))

    # parsing ------------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> _Token:
        return self._tokens[self._at]

    def _fail(self, problem: str, position: int | None = None) -> GrammarError:
        return GrammarError("filter", self.text, self._token.position if position is None else position, problem)

    def _word(self, word: str) -> bool:
        token = self._token
        if token.kind == "word" and token.value == word:
            self._at += 1
            return True
        return False

    def _filter(self, depth: int) -> Node:
        if depth > DEPTH_LIMIT:
            raise self._fail("nested too deep")
        terms = [self._both(depth)]
        while self._word("or"):
            terms.append(self._both(depth))
        return terms[0] if len(terms) == 1 else Either(tuple(terms))

    def _both(self, depth: int) -> Node:
        terms = [self._term(depth)]
        while self._word("and"):
            terms.append(self._term(depth))
        return terms[0] if len(terms) == 1 else Both(tuple(terms))

    def _term(self, depth: int) -> Node:
        if depth > DEPTH_LIMIT:
            raise self._fail("nested too deep")
        if self._word("not"):
            return Not(self._term(depth + 1))
        if self._token.kind == "operator" and self._token.value == "(":
            self._at += 1
            inner = self._filter(depth + 1)
            if self._token.kind != "operator" or self._token.value != ")":
                raise self._fail("a closing parenthesis is missing")
            self._at += 1
            return inner
        start = self._token.position
        left = self._value()
        token = self._token
        if token.kind != "operator" or token.value in "()":
            if isinstance(left, Name):
                return left
            raise self._fail("an operator is missing", start if token.kind == "end" else None)
        self._at += 1
        right_position = self._token.position
        right = self._value()
        if isinstance(left, Constant) and isinstance(right, Constant):
            raise self._fail("a name is missing: both sides are constants", start)
        if token.value not in ("~", "!~"):
            if isinstance(left, Name) and isinstance(right, Name):
                self.compared.setdefault(left.name, set()).add(right.name)
                self.compared.setdefault(right.name, set()).add(left.name)
            for name, text in ((left, right), (right, left)) if token.value in ("==", "=", "!=") else ():
                if isinstance(name, Name) and isinstance(text, Constant) and isinstance(text.value, str):
                    self.texts.setdefault(name.name, set()).add(text.value)
            return Comparison(token.value, left, right)
        if not isinstance(right, Constant) or not isinstance(right.value, str):
            raise self._fail("a regular expression in quotes belongs here", right_position)
        try:
            return Comparison(token.value, left, right, re.compile(right.value))
        except re.error as error:
            raise self._fail(f"not a regular expression: {error.msg}", right_position + 1 + (error.pos or 0)) from error
        except (OverflowError, RecursionError) as error:
            raise self._fail(f"a regular expression beyond what can be searched: {error}", right_position) from error

    def _value(self) -> Name | Constant:
        token = self._token
        if token.kind == "end":
            raise self._fail("something is missing at the end")
        if token.kind not in ("name", "constant"):
            raise self._fail("a name, a number or a quoted text belongs here")
        self._at += 1
        if token.kind == "constant":
            return Constant(token.value)
        self.names.setdefault(token.value, token.position)
        return Name(token.value)


def _tokens(text: str) -> list[_Token]:
    made: list[_Token] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            at = position + len(text[position:]) - len(text[position:].lstrip())
            problem = "a quoted text without an end" if text[at] in "\"'`" else f"{text[at]!r} not expected"
            raise GrammarError("filter", text, at, problem)
        kind = str(match.lastgroup)
        word = match[kind]
        start = match.start(kind)
        lowered = word.lower()
        if kind == "number":
            made.append(_Token("constant", _number(word), start))
        elif kind == "text":
            made.append(_Token("constant", re.sub(r"\\([\"'])", r"\1", word[1:-1]), start))
        elif kind == "quoted":
            made.append(_Token("name", word[1:-1], start))
        elif kind == "name" and lowered in ("and", "or", "not"):
            made.append(_Token("word", lowered, start))
        elif kind == "name" and lowered in _CONSTANTS:
            made.append(_Token("constant", _CONSTANTS[lowered], start))
        elif kind == "operator" and word in _WORDS:
            made.append(_Token("word", _WORDS[word], start))
        else:
            made.append(_Token(kind, word, start))
        position = match.end()
    made.append(_Token("end", None, end))
    return made


MOST_DIGITS = 400
"""``int`` refuses more than 4,300; a float of so many is infinite."""


def _number(text: str) -> int | float:
    if "x" in text.lower():
        return int(text, 16)
    return int(text) if text.lstrip("+-").isdecimal() and len(text) <= MOST_DIGITS else float(text)


# evaluation -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a filter is evaluated on: events of one type."""

    given: Columns
    count: int
    values_met: set[str]

    def columns(self, name: str) -> Column | None:
        """The column of a name."""
        found = self.given(name)
        return found.column if isinstance(found, Named) else found

    def names(self, name: str) -> ValueMap | None:
        """The names of its values, where they have some."""
        found = self.given(name)
        return found.names if isinstance(found, Named) else None

    def none(self) -> Array:
        return np.zeros(self.count, np.bool_)


def _evaluate(node: Node, rows: _Rows) -> Array:
    if isinstance(node, Both):
        mask = ~rows.none()
        for term in node.terms:
            if mask.any():
                mask = mask & _evaluate(term, rows)
        return mask
    if isinstance(node, Either):
        mask = rows.none()
        for term in node.terms:
            if not mask.all():
                mask = mask | _evaluate(term, rows)
        return mask
    if isinstance(node, Not):
        return ~_evaluate(node.inner, rows)
    if isinstance(node, Name):
        return _truth(rows.columns(node.name), rows.count)
    return _compare(node, rows)


def _truth(column: Column | None, rows: int) -> Array:
    """A name by itself: there, and neither zero, false nor empty."""
    if column is None:
        return np.zeros(rows, np.bool_)
    if isinstance(column, Scalar) and _is_number(column):
        return _and_valid(column.values != 0, column)
    return np.array([bool(value) for value in column.to_pylist()], np.bool_)


def _and_valid(mask: Array, column: Column) -> Array:
    return mask if column.valid is None else mask & column.valid


def _is_number(column: Column) -> bool:
    return isinstance(column, Scalar) and column.kind not in _NOT_NUMBERS


def _compare(node: Comparison, rows: _Rows) -> Array:
    left, right, word = node.left, node.right, node.operator
    if isinstance(left, Constant) or (isinstance(right, Name) and rows.columns(left.name) is None):
        left, right, word = right, left, _MIRRORED.get(word, word)
    assert isinstance(left, Name)
    column = rows.columns(left.name)
    if isinstance(right, Constant) and right.value is None:
        present = rows.none() if column is None else _and_valid(~rows.none(), column)
        return present if word == "!=" else ~present if word in ("==", "=") else rows.none()
    if column is None:
        return rows.none()
    enumeration = rows.names(left.name)
    if node.pattern is not None:
        return _search(column, node.pattern, enumeration, wanted=word == "~")
    compare = _COMPARISONS[word]
    other = rows.columns(right.name) if isinstance(right, Name) else None
    if other is None:
        value = right.name if isinstance(right, Name) else right.value
        number = enumeration.number(value) if enumeration is not None and isinstance(value, str) else None
        if isinstance(right, Name):
            if number is None:
                return rows.none()
            rows.values_met.add(right.name)
        return _against_constant(column, value if number is None else number, compare)
    if _is_number(column) and _is_number(other):
        assert isinstance(column, Scalar)
        assert isinstance(other, Scalar)
        return _and_valid(_and_valid(compare(column.values, other.values), column), other)
    pairs = zip(_texts(column), _texts(other), strict=True)
    return np.array([one is not None and two is not None and compare(one, two) for one, two in pairs], np.bool_)


def _against_constant(column: Column, value: Any, compare: Callable[[Any, Any], Any]) -> Array:
    if _is_number(column) and not isinstance(value, str):
        assert isinstance(column, Scalar)
        values = column.values
        if values.dtype.kind in "iu" and isinstance(value, int) and not isinstance(value, bool):
            limits = np.iinfo(values.dtype)
            if not int(limits.min) <= value <= int(limits.max):  # every row is on the same side of it
                answer = bool(compare(0, 1 if value > 0 else -1))
                return _and_valid(np.full(len(values), answer), column)
        return _and_valid(np.asarray(compare(values, value), np.bool_), column)
    if not isinstance(value, str):
        value = "true" if value is True else "false" if value is False else str(value)
    return np.array([text is not None and bool(compare(text, value)) for text in _texts(column)], np.bool_)


def _search(column: Column, pattern: re.Pattern[str], enumeration: ValueMap | None, *, wanted: bool) -> Array:
    known: dict[str, bool] = {}
    made = np.zeros(len(column), np.bool_)
    if enumeration is not None and isinstance(column, Scalar):
        column = Coded.naming(column, enumeration.text)
    texts = _texts(column)
    for row, text in enumerate(texts):
        if text is None:
            continue
        found = known.get(text)
        if found is None:
            found = known[text] = (pattern.search(text) is not None) == wanted
        made[row] = found
    return made


def _texts(column: Column) -> list[str | None]:
    """Values as the text that JSON has, without quotes."""
    if isinstance(column, Text):
        return column.to_pylist()
    from dotnetdiag.table.texts import dumps, number_text

    made: list[str | None] = []
    for value in column.to_pylist():
        shown = json_value(value)
        if shown is None or isinstance(shown, str):
            made.append(shown)
        else:
            made.append(number_text(shown) if isinstance(shown, float) else dumps(shown))
    return made
