"""Names of methods as people read them, from what the runtime's events say (nettrace.md §11.8, §12).

==========  ===================================================  ==================================================
style       of a method                                          of an address without a name
FULL        ``module!Namespace.Type+Nested`1.Method(signature)``  ``module!0x`` and the address
SHORT       ``Namespace.Type.Nested<T>.Method``                  ``module!0x`` and the offset in the file, if known
SOURCE      as SHORT, but the method that the programmer wrote   as SHORT
TRACEEVENT  as FULL; jitted code of version 6 with the name of   as FULL; names of PE files of version 6 in lower
            its mapping and the text of the perf map             case
==========  ===================================================  ==================================================

Everything here takes any text and never raises.
"""

from __future__ import annotations

import re
from enum import StrEnum

from dotnetdiag._dataclasses import dataclass
from dotnetdiag._patterns import pattern


class Style(StrEnum):
    """How the name of a frame is printed."""

    FULL = "full"
    """``module!Namespace.Type.Method(parameters)``"""
    SHORT = "short"
    """``Namespace.Type<T>.Method``, as in C#; overloads print alike."""
    SOURCE = "source"
    """As ``SHORT``, but lambdas, local functions and async methods as the method that they are written in."""
    TRACEEVENT = "traceevent"
    """As ``FULL``; what has no name as the library of PerfView and dotnet-trace prints it."""


class SourceKind(StrEnum):
    """What in the source a method was compiled from."""

    METHOD = "method"
    LAMBDA = "lambda"
    LOCAL_FUNCTION = "local function"
    STATE_MACHINE = "state machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMethod:
    """The method in the source. ``type_name`` is in the runtime's spelling (``Ns.Outer+Inner`1``).

    ``local`` is the name of the local function, or empty: lambdas and state machines are shown as their method.
    """

    type_name: str
    method: str
    local: str = ""
    kind: SourceKind = SourceKind.METHOD


def full_name(module: str, type_name: str, method: str, signature: str) -> str:
    """``module!Type.Method(parameters)``, as TraceEvent prints it: the signature's part before ``(`` is left out."""
    return f"{module}!{qualified(type_name, method)}{parameters(signature)}"


def short_name(type_name: str, method: str) -> str:
    """``Namespace.Type<T>.Nested.Method``: generics as in C#, no parameter lists."""
    return qualified(csharp_type(type_name), method)


def source_name(type_name: str, method: str) -> str:
    """The short name of the method that the programmer wrote; a local function is ``Type.Method.Local``."""
    source = source_method(type_name, method)
    name = short_name(source.type_name, source.method)
    return f"{name}.{source.local}" if source.local else name


def qualified(type_name: str, method: str) -> str:
    """Type and method, or the method alone where there is no type."""
    return f"{type_name}.{method}" if type_name else method


def parameters(signature: str) -> str:
    """The signature from the first ``(`` on; empty when it has none."""
    at = signature.find("(")
    return signature[at:] if at >= 0 else ""


def namespace_of(type_name: str) -> str:
    """The namespace of a type; empty when it has none."""
    at = _head(type_name).rfind(".")
    return type_name[:at] if at > 0 else ""


def _head(type_name: str) -> str:
    """Up to the first nested type, generic argument or array: there the dots are those of the namespace."""
    ends = [at for at in map(type_name.find, "+[<,") if at >= 0]
    return type_name[: min(ends)] if ends else type_name


# C# spelling ----------------------------------------------------------------------------------------------------------

_KEYWORDS = {
    "System.Boolean": "bool",
    "System.Byte": "byte",
    "System.SByte": "sbyte",
    "System.Char": "char",
    "System.Decimal": "decimal",
    "System.Double": "double",
    "System.Single": "float",
    "System.Int32": "int",
    "System.UInt32": "uint",
    "System.Int64": "long",
    "System.UInt64": "ulong",
    "System.Int16": "short",
    "System.UInt16": "ushort",
    "System.Object": "object",
    "System.String": "string",
    "System.Void": "void",
}
_NESTING_LIMIT = 64
"""Type arguments within each other; a name that goes deeper is printed as it stands."""
_ARITY = pattern(r"`(\d{1,4})")


class _TooDeep(Exception):
    pass


def csharp_type(type_name: str) -> str:
    """A type as C# writes it: ``System.Collections.Generic.Dictionary`2[System.Int32,A.B+C]`` becomes
    ``System.Collections.Generic.Dictionary<int, B.C>``. Type arguments lose their namespaces, open ones are ``T``.
    """
    if "`" not in type_name and "[" not in type_name:
        return type_name.replace("+", ".")
    try:
        text, at = _parse(type_name, 0, 0)
    except _TooDeep:
        return type_name
    return text + type_name[at:]


def _parse(text: str, at: int, depth: int) -> tuple[str, int]:
    """One type from ``at`` on: (as C# writes it, where it ends: at a ``,`` or ``]`` of what is around it)."""
    if depth > _NESTING_LIMIT:
        raise _TooDeep
    start = at
    while at < len(text) and text[at] not in "[,]":
        at += 1
    name, suffix, arguments = text[start:at], "", list[str]()
    while at < len(text) and text[at] == "[":
        if at + 1 < len(text) and text[at + 1] in "],*":  # an array, of any rank
            end = text.find("]", at)
            end = len(text) if end < 0 else end + 1
            suffix += text[at:end]
            at = end
        elif arguments or suffix:
            break
        else:
            at += 1
            while at < len(text):
                if text[at] == "[":  # [type, assembly]
                    argument, at = _parse(text, at + 1, depth + 1)
                    at = text.find("]", at)
                    at = len(text) if at < 0 else at + 1
                else:
                    argument, at = _parse(text, at, depth + 1)
                arguments.append(argument)
                if at >= len(text) or text[at] != ",":
                    break
                at += 1
            at += at < len(text) and text[at] == "]"
        while at < len(text) and text[at] in "*&":
            suffix += text[at]
            at += 1
    if depth:
        bare = name.rstrip("*&")
        name = (
            _KEYWORDS.get(bare, bare[len(namespace_of(bare) + ".") if namespace_of(bare) else 0 :]) + name[len(bare) :]
        )
    return _with_arguments(name, arguments) + suffix, at


def _with_arguments(name: str, arguments: list[str]) -> str:
    """Arguments stand behind the last of nested types in metadata; each type gets as many as it declares."""
    parts, given = [], iter(arguments)
    for part in name.split("+"):
        found = _ARITY.search(part)
        if found is None:
            parts.append(part)
            continue
        arity = int(found[1])
        own = [argument for _, argument in zip(range(arity), given, strict=False)]
        if not own:
            own = ["T"] if arity == 1 else [f"T{number}" for number in range(1, min(arity, 16) + 1)]
        parts.append(f"{part[: found.start()]}<{', '.join(own)}>{part[found.end() :]}")
    rest = list(given)
    return ".".join(parts) + (f"<{', '.join(rest)}>" if rest else "")


# what the compiler made -----------------------------------------------------------------------------------------------

_PEELS_LIMIT = 16
_VB_STATE_MACHINE = pattern(r"VB\$StateMachine_\d+_(.+)", re.DOTALL)


def source_method(type_name: str, method: str) -> SourceMethod:
    """The method from which the compiler made this one: lambdas (``<>c.<Main>b__0_1``), local functions
    (``<Main>g__Local|0_0``), async and iterator state machines (``<FooAsync>d__3.MoveNext``), and those within each
    other. Methods that nobody made stay as they are.
    """
    bare, arguments = _split_arguments(type_name)
    outer, _, inner = bare.rpartition("+")
    kind, local = SourceKind.METHOD, ""
    if outer and (method == "MoveNext" or method.startswith("<>m__Finally")):
        vb = _VB_STATE_MACHINE.match(inner)
        made = (vb[1], "d", "") if vb else _made(inner)
        if made is not None and made[1] == "d":
            bare, method, kind = outer, made[0], SourceKind.STATE_MACHINE
    for _ in range(_PEELS_LIMIT):
        made = _made(method)
        if made is None:
            break
        name, letter, rest = made
        if letter == "b":
            kind = SourceKind.LAMBDA if kind is SourceKind.METHOD else kind
        elif letter == "g":
            function = rest.partition("|")[0]
            local = f"{function}.{local}" if local else function
            kind = SourceKind.LOCAL_FUNCTION if kind is SourceKind.METHOD else kind
        elif not (letter == "$" and not rest):  # <Main>$ is what top-level statements are compiled to
            break
        method = name
    if bare == _split_arguments(type_name)[0] and kind is SourceKind.METHOD:
        return SourceMethod(type_name=type_name, method=method)
    while "+" in bare:  # the classes of closures
        outer, _, inner = bare.rpartition("+")
        if not inner.startswith(("<>c", "_Closure$__")):
            break
        bare = outer
    return SourceMethod(type_name=_declared(bare, arguments), method=method, local=local, kind=kind)


def _split_arguments(type_name: str) -> tuple[str, str]:
    at = type_name.find("[")
    return (type_name, "") if at < 0 else (type_name[:at], type_name[at:])


def _declared(bare: str, arguments: str) -> str:
    """The type with as many arguments as it declares: what is left over belonged to the made type."""
    if not arguments:
        return bare
    wanted = sum(int(found[1]) for found in _ARITY.finditer(bare))
    if not wanted:
        return bare
    depth, seen = 0, 0
    for at, letter in enumerate(arguments):
        if letter == "[":
            depth += 1
        elif letter == "]":
            depth -= 1
        elif letter == "," and depth == 1:
            seen += 1
            if seen == wanted:
                return f"{bare}{arguments[:at]}]"
    return bare + arguments


def _made(name: str) -> tuple[str, str, str] | None:
    """(name in the angle brackets, kind letter, what follows ``__``) of a name that the C# compiler made."""
    if not name.startswith("<"):
        return None
    depth = at = 0
    for letter in name:
        depth += (letter == "<") - (letter == ">")
        if not depth:
            break
        at += 1
    else:
        return None
    inside, kind, rest = name[1:at], name[at + 1 : at + 2], name[at + 2 :]
    if not inside or not kind or (rest and kind != "$" and not rest.startswith(("__", "`"))):
        return None
    return inside, kind, rest.removeprefix("__")


# names of perf maps ---------------------------------------------------------------------------------------------------

_ASSEMBLY = pattern(r"\[([^\[\],]+)\] ")
_TYPE = pattern(
    r"(?P<kind>class|valuetype) (?:\[[^\[\]]*\])?(?P<path>[^\s(),<>\[\]&*]+)"
    r"|(?<![\w.])(?P<simple>native u?int|uint(?:8|16|32|64)|char|string|object)(?![\w.])"
)
_SIMPLE = {
    "native int": "int",
    "native uint": "unsigned int",
    "char": "wchar",
    "string": "class System.String",
    "object": "class System.Object",
} | {f"uint{bits}": f"unsigned int{bits}" for bits in (8, 16, 32, 64)}


@dataclass(frozen=True, slots=True, kw_only=True)
class JittedName:
    """What a perf map says of jitted code: ``void [workload] Workload.Cpu::Run(int32)[QuickJitted]``."""

    module: str
    type_name: str
    method: str
    signature: str
    tier: str


def parse_jitted(name: str) -> JittedName | None:
    """The parts of a symbol of jitted code (nettrace.md §12); None for other symbols."""
    if not name.endswith("]"):
        return None
    found = _ASSEMBLY.search(name)
    if found is None:
        return None
    body, _, tier = name[found.end() : -1].rpartition("[")
    type_name, separator, rest = body.partition("::")
    if not separator:
        return None
    at = rest.find("(")
    method, signature = (rest, "") if at < 0 else (rest[:at], rest[at:])
    return JittedName(module=found[1], type_name=type_name, method=method, signature=signature, tier=tier)


def event_signature(signature: str) -> str:
    """Parameters of a perf map as the runtime's events spell them: ``(string,valuetype [A]N.T/U,uint8&)`` becomes
    ``(class System.String,value class U,unsigned int8&)``.
    """
    return _TYPE.sub(_event_type, signature)


def _event_type(found: re.Match[str]) -> str:
    if found["simple"]:
        return _SIMPLE[found["simple"]]
    kind = "class" if found["kind"] == "class" else "value class"
    return f"{kind} {found['path'].rpartition('/')[2]}"
