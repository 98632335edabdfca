"""What a frame of a call stack is: a method, a native symbol, an address without a name, or a group that no address has."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from functools import lru_cache

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.trace import method_names
from dotnetdiag.trace.method_names import Style

UNKNOWN_MODULE = "ManagedModule"
"""TraceEvent's word for the module of a method whose module no event names."""


class FrameKind(StrEnum):
    """What is known of a frame."""

    METHOD = "method"
    SYMBOL = "symbol"
    UNRESOLVED = "unresolved"
    PSEUDO = "pseudo"


class LineKind(StrEnum):
    """What is known of a frame's line."""

    EXACT = "exact"
    """The runtime's map of the code says it."""
    NEAR = "near"
    """It is that of code beside: of its own code no line is known."""
    FIRST = "first"
    """No more is known than the method, and it is its first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a frame id stands for.

    ``module`` is the file's name without folder and without ``.dll`` or ``.exe``, empty when it is not known;
    ``module_path`` the whole of it (of jitted code: of its mapping). ``type_name`` and ``signature`` are in the spelling
    of the runtime's events. ``text`` is what a perf map or ELF file calls a symbol, or the name of a pseudo-frame;
    ``tier`` what a perf map says of jitted code (``OptimizedTier1``), empty for code of several. ``address`` is that of
    an unresolved frame, and ``offset`` its place in the module's file as its symbols count (ELF: virtual address), None
    when no mapping is known.

    ``file`` and ``line`` are where in the source it was, when frames are told apart by lines: the document as the compiler was given it, 0 for
    no line. ``line_kind`` is what that line is worth, None without one.
    """

    kind: FrameKind
    module: str = ""
    module_path: str = ""
    type_name: str = ""
    method: str = ""
    signature: str = ""
    text: str = ""
    tier: str = ""
    address: int | None = None
    offset: int | None = None
    file: str = ""
    line: int = 0
    line_kind: LineKind | None = None

    @property
    def place(self) -> str:
        """``Program.cs:71``; ``Program.cs:~69`` when it is not exact; empty without a line."""
        if not self.line:
            return ""
        return f"{file_name(self.file)}:{'' if self.line_kind is LineKind.EXACT else '~'}{self.line}"

    @property
    def namespace(self) -> str:
        """The namespace of the type; empty for native code."""
        return method_names.namespace_of(self.type_name)

    def name(self, style: Style = Style.FULL) -> str:
        """The printed name, with the line where it has one."""
        return f"{self.method_name(style)} {self.place}" if self.line else self.method_name(style)

    def method_name(self, style: Style = Style.FULL) -> str:
        """The printed name without a line."""
        if self.kind is FrameKind.PSEUDO:
            return self.text
        if style is Style.TRACEEVENT and self.kind is not FrameKind.METHOD:
            place = self.text if self.kind is FrameKind.SYMBOL else f"{self.address:#x}"
            return f"{_reference_module(self)}!{place}"
        if self.kind is FrameKind.UNRESOLVED:
            if style is Style.FULL:
                return f"{self.module}!{self.address:#x}"
            return f"{self.module or '?'}!{self.address if self.offset is None else self.offset:#x}"
        if style in (Style.FULL, Style.TRACEEVENT):
            if not self.method and self.kind is FrameKind.SYMBOL:
                return f"{self.module}!{self.text}"
            return method_names.full_name(self.module or UNKNOWN_MODULE, self.type_name, self.method, self.signature)
        if not self.method:
            return f"{self.module}!{self.text}" if self.module else self.text
        printed = method_names.short_name if style is Style.SHORT else method_names.source_name
        return printed(self.type_name, self.method)


def _reference_module(frame: Frame) -> str:
    """The name of a mapped file as TraceEvent prints it: files that it knows as PE in lower case, jitted code by the
    mapping's name.
    """
    name = file_name(frame.module_path)
    stem = _stem(name)
    return name if stem == name else stem.lower()


def file_name(path: str) -> str:
    """The last part of a path of either system."""
    return path[max(path.rfind("/"), path.rfind("\\")) + 1 :].removesuffix(" (deleted)")


def _stem(name: str) -> str:
    return name[:-4] if name[-4:].lower() in (".dll", ".exe") else name


@lru_cache(maxsize=1024)  # asked for each method; the profile of 20,000 of them showed a third of the time here
def module_name(path: str) -> str:
    """``System.Linq`` of ``/x/System.Linq.dll``; names without such an ending stay."""
    return _stem(file_name(path))


def method_frame(path: str, text: Sequence[str]) -> Frame:
    type_name, method, signature = text
    return Frame(
        kind=FrameKind.METHOD,
        module=module_name(path),
        module_path=path,
        type_name=type_name,
        method=method,
        signature=signature,
    )


def symbol_frame(path: str, text: str) -> Frame:
    jitted = method_names.parse_jitted(text)
    if jitted is None:
        return Frame(kind=FrameKind.SYMBOL, module=module_name(path), module_path=path, text=text)
    return Frame(
        kind=FrameKind.SYMBOL,
        module=jitted.module,
        module_path=path,
        type_name=jitted.type_name,
        method=jitted.method,
        signature=method_names.event_signature(jitted.signature),
        text=text,
        tier=jitted.tier,
    )
