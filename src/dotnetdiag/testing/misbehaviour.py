"""What a scripted runtime does wrong, command by command."""

from __future__ import annotations

import random

from dotnetdiag._dataclasses import dataclass
from dotnetdiag.durations import parse_duration
from dotnetdiag.errors import GrammarError, UsageError
from dotnetdiag.ipc.frames import MAGIC

WRONG_MAGIC = b"DOTNET_IPC_V9\0"
_SIZE = slice(len(MAGIC), len(MAGIC) + 2)
_WHAT = "delay:2s, garbage[:BYTE], close:BYTE, silent, ignore, error[:0xHRESULT], magic, size:BYTES"
_NOISE = random.Random(5).randbytes(1 << 14)  # noqa: S311 - nobody is to be kept from guessing it


@dataclass(frozen=True, slots=True, kw_only=True)
class Misbehaviour:
    """What is done wrong; several may be together. Offsets count from the first byte of the answer on, a session's stream included.

    ``delay_s``: the answer comes so much later, and what was asked is done then. ``silent``: nothing is done, and nothing said, until the client
    hangs up. ``ignores``: an OK, and nothing is done (StopTracing, ResumeRuntime and others whose answer is only an OK; where it is said
    of all, only they do it). ``hresult``: refused
    with this error. ``wrong_magic``: the answer's. ``size``: what its header says of its size. ``garbage_from``: from that byte on it is
    noise, the same in each run. ``close_at``: so many bytes, and then the end.
    """

    delay_s: float = 0.0
    silent: bool = False
    ignores: bool = False
    hresult: int | None = None
    wrong_magic: bool = False
    size: int | None = None
    garbage_from: int | None = None
    close_at: int | None = None

    def __post_init__(self) -> None:
        numbers = (self.delay_s, self.size or 0, self.garbage_from or 0, self.close_at or 0)
        if any(number < 0 for number in numbers) or (self.size or 0) > 0xFFFF:
            raise UsageError("a misbehaviour's numbers are 0 or more, and a size has 16 bits")

    @classmethod
    def parse(cls, text: str) -> Misbehaviour:
        """Of ``delay:2s``, ``garbage:100``, ``close:28``, ``silent``, ``ignore``, ``error:0x80004005``, ``magic``, ``size:7``, or several
        with ``+`` between them. Raises GrammarError.
        """
        values: dict[str, object] = {}
        at = 0
        for part in text.split("+"):
            word, _, value = part.partition(":")
            try:
                values |= _parsed(word.strip().lower(), value.strip())
            except (KeyError, ValueError) as exc:
                raise GrammarError("misbehaviour", text, at, f"write {_WHAT}, joined by '+'") from exc
            at += len(part) + 1
        return cls(**values)  # type: ignore[arg-type] # as _parsed has them

    def spoil(self, data: bytes, at: int = 0) -> bytes:
        """The bytes as they are sent, of which the first is that at offset ``at`` of the answer."""
        if at == 0 and data:
            if self.wrong_magic:
                data = WRONG_MAGIC + data[len(MAGIC) :]
            if self.size is not None and len(data) >= _SIZE.stop:
                data = data[: _SIZE.start] + self.size.to_bytes(2, "little") + data[_SIZE.stop :]
        if self.garbage_from is not None and self.garbage_from < at + len(data):
            good = max(self.garbage_from - at, 0)
            data = data[:good] + _noise(at + good, len(data) - good)
        return data if self.close_at is None else data[: max(self.close_at - at, 0)]


def _noise(at: int, size: int) -> bytes:
    """The same at each offset, however the bytes are cut."""
    start = at % len(_NOISE)
    return (_NOISE * ((start + size) // len(_NOISE) + 1))[start : start + size]


def _parsed(word: str, value: str) -> dict[str, object]:
    if word == "delay":
        return {"delay_s": parse_duration(value)}
    if word in _NUMBERS:
        return {_NUMBERS[word]: int(value, 0)}
    if word == "garbage":
        return {"garbage_from": int(value or "0", 0)}
    if word == "error":
        return {"hresult": int(value or "0x80004005", 0)}
    if value:
        raise ValueError(value)
    return {_FLAGS[word]: True}


_NUMBERS = {"close": "close_at", "size": "size"}
_FLAGS = {"silent": "silent", "ignore": "ignores", "magic": "wrong_magic"}
GOOD = Misbehaviour()
